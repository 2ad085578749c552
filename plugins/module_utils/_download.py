# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One large file over HTTP, to its end, over as many connections as it takes. Private to this collection.

What has arrived stays, and the next try or the next play asks for the rest. A file counts as whole only if it has as
many bytes as the server said, and the checksum that was given or that the server told.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import errno
import hashlib
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Mapping, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._archive import remove
from ansible_collections.dgxc.workloads.plugins.module_utils._files import (
    canonical_json,
    read_json_object,
    write_text,
)

_BLOCK = 1024 * 1024
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# Answers after which the same question may be answered better.
_PASSING = (408, 429, 500, 502, 503, 504)
# A server that wants a longer pause than this is left alone; the play says when to come back.
LONGEST_PAUSE = 60
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class DownloadProblem(Exception):
    """Why the file cannot be fetched; the text is a sentence for the user."""


class Source(NamedTuple):
    """Where a file comes from.

    ``name`` tells the content, whatever mirror it comes from; ``sha256`` may be empty; ``page`` is where a person
    accepts the terms, or empty. ``settings`` are the variables that messages name: url,
    username, password, path, sha256.
    """

    name: str
    url: str
    username: str
    password: str
    sha256: str
    page: str
    settings: Mapping[str, str]


class Fetched(NamedTuple):
    """A file that is whole: its size in bytes and its SHA-256, 64 hexadecimal digits."""

    size: int
    sha256: str


Open = Callable[[urllib.request.Request, float], Any]


def source_problems(source: Source) -> list[str]:
    """Return the sentences that say what is wrong with the wish itself."""
    problems = []
    parts = urllib.parse.urlsplit(source.url)
    named = "{0} is {1!r}".format(source.settings["url"], shown(source.url))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        problems.append("{0}: give an address that begins with https://.".format(named))
    elif parts.username or parts.password:
        problems.append(
            "{0} with a password in it, which logs would show: give {1} and {2}.".format(
                source.settings["url"], source.settings["username"], source.settings["password"]
            )
        )
    elif source.password and parts.scheme != "https" and parts.hostname not in LOCAL_HOSTS:
        problems.append("{0}: the key must not travel in clear text, so give an address of https://.".format(named))
    if bool(source.username) != bool(source.password):
        have, lack = ("username", "password") if source.username else ("password", "username")
        problems.append(
            "{0} is given without {1}: give both, or neither.".format(source.settings[have], source.settings[lack])
        )
    if source.sha256 and not re.fullmatch(r"[0-9a-f]{64}", source.sha256):
        problems.append(
            "{0} is {1!r}: give the 64 hexadecimal digits that sha256sum prints.".format(
                source.settings["sha256"], source.sha256
            )
        )
    return problems


def credentials_from_file(path: str) -> tuple[str, str]:
    """Return user name and key from a file as Kaggle hands it out, ``{"username": ..., "key": ...}``; empty if there is
    none.

    :raises DownloadProblem: others can read the file, or it holds something else.
    """
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        return "", ""
    if mode & 0o077:
        raise DownloadProblem(
            "{0} holds a key and has the mode {1:04o}, so that others can read it: run 'chmod 600 {0}' on the login"
            " node.".format(path, mode)
        )
    found = read_json_object(path) or {}
    pair = (found.get("username"), found.get("key"))
    if not all(isinstance(item, str) and item for item in pair):
        raise DownloadProblem(
            '{0} is not as Kaggle hands it out, {{"username": "...", "key": "..."}}: download it again from your'
            " account's settings.".format(path)
        )
    return str(pair[0]), str(pair[1])


def shown(url: str) -> str:
    """Return an address as it may be told: without a password, and without what is behind '?', often a signature."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to http, and remembers what servers on the way tell of the file."""

    def __init__(self) -> None:
        self.sha256 = ""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the next request, or raise urllib.error.URLError."""
        match = _SHA256.fullmatch(headers.get("X-Linked-Etag") or "")
        if match:
            self.sha256 = match.group(1)
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.URLError("it leads from https to {0}".format(shown(newurl)))
        # Headers that were added as "unredirected", such as Authorization, are left behind here.
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(request: urllib.request.Request, timeout: float) -> Any:
    """Ask a server; the answer's headers have ``X-Linked-Etag`` even where only a redirection told it."""
    redirects = _Redirects()
    response = urllib.request.build_opener(redirects).open(request, timeout=timeout)
    if redirects.sha256 and not response.headers.get("X-Linked-Etag"):
        response.headers["X-Linked-Etag"] = redirects.sha256
    return response


class Download:
    """Fetches one file. Everything outside comes in through the constructor."""

    def __init__(
        self,
        source: Source,
        target: str,
        alive: Callable[[], None],
        tries: int = 5,
        timeout: float = 60,
        ask: Open = open_url,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to fetch.

        :param target: the file's path; what is known of it is kept beside it, with ``.json`` behind the name.
        :param alive: called again and again while there is progress.
        :param tries: connections in a row that may bring nothing.
        :param timeout: seconds without a byte after which a connection is given up.
        """
        self._source = source
        self._target = target
        self._notes = target + ".json"
        self._alive = alive
        self._tries = tries
        self._timeout = timeout
        self._ask = ask
        self._sleep = sleep
        self._clock = clock
        self._known: dict[str, Any] = {}

    def fetch(self) -> Fetched:
        """Bring the file to its end and prove it.

        :raises DownloadProblem: it cannot be done now; what has arrived stays for the next time.
        """
        notes = read_json_object(self._notes) or {}
        if notes.get("name") == self._source.name:
            self._known = notes
        else:
            self._forget()
        failures = 0
        while not self._whole():
            before = self._have()
            pause, reason = self._connect()
            if self._whole():
                break
            # A connection that brought something counts as a success: a file of gigabytes may need many.
            failures = 0 if self._have() > before else failures + 1
            if failures >= self._tries:
                raise DownloadProblem(
                    "{0} could not be fetched: {1}. What has arrived ({2}) stays, and the next run of the play goes on"
                    " from there.".format(shown(self._source.url), reason, self.progress())
                )
            self._sleep(min(pause if pause is not None else 2.0**failures, LONGEST_PAUSE))
        return self._prove()

    # --- what is there -----------------------------------------------------------------------------------------------

    def _have(self) -> int:
        try:
            return os.path.getsize(self._target)
        except OSError:
            return 0

    def _whole(self) -> bool:
        size = self._known.get("size")
        return isinstance(size, int) and os.path.exists(self._target) and self._have() == size

    def progress(self) -> str:
        """Return how far it is: "3,000 bytes of 17,000"."""
        size = self._known.get("size")
        return "{0:,} bytes{1}".format(self._have(), " of {0:,}".format(size) if isinstance(size, int) else "")

    def _forget(self) -> None:
        self._known = {}
        remove(self._target)
        remove(self._notes)

    def _facts(self) -> dict[str, Any]:
        return {key: value for key, value in self._known.items() if key != "name"}

    def _note(self, **facts: Any) -> None:
        self._known = {"name": self._source.name, **facts}
        write_text(self._notes, canonical_json(self._known), 0o600)

    # --- one connection ----------------------------------------------------------------------------------------------

    def _request(self, have: int) -> urllib.request.Request:
        request = urllib.request.Request(self._source.url, headers={"User-Agent": "dgxc.workloads"})
        # Compressed in transit, offsets would mean other bytes.
        request.add_header("Accept-Encoding", "identity")
        if have:
            request.add_header("Range", "bytes={0}-".format(have))
            validator = self._known.get("validator")
            if validator:
                request.add_header("If-Range", str(validator))
        if self._source.password:
            pair = "{0}:{1}".format(self._source.username, self._source.password).encode("utf-8")
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair).decode("ascii"))
        return request

    def _connect(self) -> tuple[float | None, str]:
        """Take what one connection gives. Return the pause that the server wants and why there is not more."""
        have = self._have()
        try:
            with contextlib.closing(self._ask(self._request(have), self._timeout)) as response:
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                return self._refused(error)
        except urllib.error.URLError as error:
            return None, "no connection ({0})".format(error.reason)
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            return None, "the connection broke ({0})".format(str(error) or type(error).__name__)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DownloadProblem(self._full(error.strerror or "no space")) from None
            return None, "the connection broke ({0})".format(error)
        if self._whole():
            return None, ""
        return None, "the connection ended early"

    def _full(self, reason: str) -> str:
        return "{0} has no room for {1}: {2}. Free some, or set {3} to another place.".format(
            os.path.dirname(self._target), shown(self._source.url), reason, self._source.settings["path"]
        )

    def _receive(self, response: Any, have: int) -> None:
        headers = response.headers
        size, start = self._size_and_start(response, have)
        if "text/html" in (headers.get("Content-Type") or ""):
            raise DownloadProblem(
                "{0} answers with a page, not with a file: see that {1} is the address of the file itself{2}.".format(
                    shown(self._source.url),
                    self._source.settings["url"],
                    " and that {0} and {1} are right".format(
                        self._source.settings["username"], self._source.settings["password"]
                    )
                    if self._source.settings.get("password")
                    else "",
                )
            )
        if start and self._known.get("size") != size and (self._known.get("size") or not self._known.get("validator")):
            # It goes on with another file than it began with, or may do so.
            self._forget()
            return
        if start:
            self._note(**{**self._facts(), "size": size})
        if not start:
            told = _SHA256.fullmatch(headers.get("X-Linked-Etag") or "")
            self._forget()
            self._note(size=size, validator=_validator(headers), sha256=told.group(1) if told else "")
        if size is not None:
            free = shutil.disk_usage(os.path.dirname(self._target)).free
            if free < size - start:
                raise DownloadProblem(self._full("{0:,} bytes are missing".format(size - start - free)))
        descriptor = os.open(self._target, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as output:
            output.truncate(start)
            output.seek(start)
            while True:
                block = response.read(_BLOCK)
                if not block:
                    break
                output.write(block)
                self._alive()
            output.flush()
            os.fsync(output.fileno())
        if size is None:
            # Sent in pieces, whose end the protocol marks: a broken one has raised by now.
            self._note(**{**self._facts(), "size": self._have()})

    def _size_and_start(self, response: Any, have: int) -> tuple[int | None, int]:
        """Return the size of the whole file, None if the server does not tell it, and where the answer begins."""
        if response.status == 206:
            match = _CONTENT_RANGE.fullmatch((response.headers.get("Content-Range") or "").strip())
            if match and int(match.group(1)) == have:
                return int(match.group(3)), have
            self._forget()
            raise http.client.HTTPException("the server answered with other bytes than it was asked for")
        length = response.headers.get("Content-Length")
        return (int(length) if length and length.isdigit() else None), 0

    def _refused(self, error: urllib.error.HTTPError) -> tuple[float | None, str]:
        """Judge an answer that is none. Return what `_connect` returns; raise DownloadProblem if asking is no use."""
        settings, url, code = self._source.settings, shown(self._source.url), error.code
        credentials = "{0} and {1}".format(settings["username"], settings["password"])
        if code == 416:
            # There is nothing behind what we have, which is not the file that the server has now.
            self._forget()
            return 0.0, "the file on the server has changed"
        if code == 401:
            raise DownloadProblem(
                "{0} answers 401 (unauthorized): {1} are {2}; give a valid pair.".format(
                    url, credentials, "not accepted" if self._source.password else "not given"
                )
            )
        if code == 403:
            raise DownloadProblem(
                "{0} answers 403 (forbidden): accept the terms of the data set{1} with the account that {2} belong to,"
                " and see that its key has not expired.".format(
                    url, " on {0}".format(self._source.page) if self._source.page else "", credentials
                )
            )
        if code in (404, 410):
            raise DownloadProblem("{0} answers {1} (not found): correct {2}.".format(url, code, settings["url"]))
        pause = _pause(error.headers.get("Retry-After"), self._clock())
        if code == 429 and pause is not None and pause > LONGEST_PAUSE:
            raise DownloadProblem(
                "{0} answers 429 (too many requests) and asks for a pause of {1:.0f} s: run the play again after"
                " that; what has arrived ({2}) stays.".format(url, pause, self.progress())
            )
        if code in _PASSING:
            words = "429 (too many requests)" if code == 429 else "{0} ({1})".format(code, error.reason)
            return pause, "the server answers {0}".format(words)
        raise DownloadProblem("{0} answers {1} ({2}): correct {3}.".format(url, code, error.reason, settings["url"]))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _prove(self) -> Fetched:
        digest = hashlib.sha256()
        with open(self._target, "rb") as stream:
            while True:
                block = stream.read(_BLOCK)
                if not block:
                    break
                digest.update(block)
                self._alive()
        found = digest.hexdigest()
        for wanted, by, remedy in (
            (self._source.sha256, self._source.settings["sha256"], "Correct it, or run the play again."),
            (str(self._known.get("sha256") or ""), "the server", "Run the play again."),
        ):
            if wanted and wanted != found:
                size = self._have()
                self._forget()
                raise DownloadProblem(
                    "What came from {0} ({1:,} bytes) has the SHA-256 {2}, but {3} says {4}, so it was thrown away."
                    " {5}".format(shown(self._source.url), size, found, by, wanted, remedy)
                )
        return Fetched(self._have(), found)


def _validator(headers: Any) -> str:
    """Return what If-Range may be given to ask whether the file is still the same, or an empty text."""
    etag = headers.get("ETag") or ""
    if etag and not etag.startswith("W/"):
        return str(etag)
    return str(headers.get("Last-Modified") or "")


def _pause(text: str | None, now: float) -> float | None:
    """Return the seconds that Retry-After asks for, given as such or as a date."""
    if not text:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError):
        return None
