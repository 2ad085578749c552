# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A web server on this machine that gives out files as real ones do: in parts, cut off, only to those it knows."""

from __future__ import annotations

import base64
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    """Serves ``files`` (path to bytes). What is in ``plays`` is done with the next requests, one after the other:

    a number of bytes after which the connection is cut, or (status, headers) for an answer without a file.
    """

    def __init__(self):
        self.files = {}
        self.plays = []
        self.requests = []
        self.credentials = None
        self.redirects = {}
        self.ranges = True
        self.sized = True
        self.headers = {"ETag": '"one"'}
        self.content_type = "application/octet-stream"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def url(self, path):
        return "http://127.0.0.1:{}{}".format(self.server.server_address[1], path)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, handler):
        path = handler.path.partition("?")[0]
        self.requests.append((path, dict(handler.headers)))
        handler.close_connection = True
        if self.credentials:
            wanted = "Basic " + base64.b64encode(self.credentials.encode()).decode()
            if handler.headers.get("Authorization") != wanted and path not in self.redirects.values():
                return self.refuse(handler, 401, {})
        if path in self.redirects:
            return self.refuse(handler, 302, {"Location": self.redirects[path], **self.headers})
        play = self.plays.pop(0) if self.plays else None
        if isinstance(play, tuple):
            return self.refuse(handler, *play)
        if path not in self.files:
            return self.refuse(handler, 404, {})
        return self.give(handler, self.files[path], play)

    @staticmethod
    def refuse(handler, status, headers):
        handler.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()

    def give(self, handler, content, cut):
        start = 0
        match = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
        same = handler.headers.get("If-Range") in (None, self.headers.get("ETag"), self.headers.get("Last-Modified"))
        if match and self.ranges and same:
            start = int(match[1])
            if start >= len(content):
                return self.refuse(handler, 416, {"Content-Range": f"bytes */{len(content)}"})
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.sized:
            handler.send_header("Content-Length", str(len(content) - start))
        else:
            handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Content-Type", self.content_type)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        part = content[start : None if cut is None else start + cut]
        if self.sized:
            handler.wfile.write(part)
        else:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            if cut is None:
                handler.wfile.write(b"0\r\n\r\n")
        handler.wfile.flush()
        return None
