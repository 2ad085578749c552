# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pushing and pulling through the Docker Engine's interface. Private to this collection.

``docker login`` writes the password into a file. The interface takes it as a header of the very request that needs it,
so here it is in no file, no command line and no environment.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import urllib.parse
from typing import Any, Callable, Iterator

from ansible_collections.dgxc.workloads.plugins.module_utils._enroot import amount
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import Reference
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest

SECONDS = 3600.0
# What a push or a pull may meet once and not again.
TRANSIENT = ("unknown blob", "blob upload invalid", "broken pipe", "connection reset", "EOF", "timeout", "i/o timeout",
             "received unexpected HTTP status: 5", "TLS handshake", "too many open")  # fmt: skip


class EngineProblem(Exception):
    """The Docker Engine refused or does not answer; the text is what it said."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket of the file system."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connection_to(docker_host: str, seconds: float = SECONDS) -> Callable[[], http.client.HTTPConnection]:
    """Return a function that connects to the Engine at ``unix:///path`` or ``tcp://host:port``.

    :param seconds: how long it may be silent.
    :raises EngineProblem: any other address.
    """
    scheme, _mark, rest = docker_host.partition("://")
    if scheme == "unix":
        return lambda: _Connection(rest, seconds)
    if scheme == "tcp" and rest:
        return lambda: http.client.HTTPConnection(rest, timeout=seconds)
    raise EngineProblem("{0!r} is neither unix:///path nor tcp://host:port".format(docker_host))


class Engine:
    """One Docker Engine.

    :param tell: takes how far a transfer is, again and again.
    """

    def __init__(
        self, connect: Callable[[], http.client.HTTPConnection], tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self._connect, self._tell = connect, tell

    def image(self, name: str) -> dict[str, Any] | None:
        """Return what the Engine knows about an image in its store; None if it is not there."""
        status, lines = self._ask("GET", "/images/{0}/json".format(urllib.parse.quote(name, safe="/:@")))
        if status == 404:
            return None
        return dict(lines[0]) if lines else {}

    def tag(self, name: str, reference: Reference) -> None:
        """Give an image of the store a second name."""
        repository, _colon, tag = reference.docker.rpartition(":")
        query = urllib.parse.urlencode({"repo": repository, "tag": tag})
        status, lines = self._ask("POST", "/images/{0}/tag?{1}".format(urllib.parse.quote(name, safe="/:@"), query))
        if status == 404:
            raise EngineProblem(_message(lines) or "no such image: {0}".format(name))

    def push(self, reference: Reference, user: tuple[str, str] | None) -> None:
        """Push an image of this name to its registry."""
        repository, _colon, tag = reference.docker.rpartition(":")
        path = "/images/{0}/push?{1}".format(repository, urllib.parse.urlencode({"tag": tag}))
        self._transfer(path, reference, user)

    def pull(self, reference: Reference, user: tuple[str, str] | None) -> None:
        """Pull an image from its registry."""
        mark = "@" if reference.digest else ":"
        repository, _mark, tag = reference.docker.rpartition(mark)
        query = urllib.parse.urlencode({"fromImage": repository, "tag": tag})
        self._transfer("/images/create?" + query, reference, user)

    def _transfer(self, path: str, reference: Reference, user: tuple[str, str] | None) -> None:
        status, lines = self._ask("POST", path, {"X-Registry-Auth": authorization(reference, user)})
        problems = [line for line in lines if isinstance(line, dict) and line.get("error")]
        # The Engine answers 200 before it knows how it will end.
        if problems:
            raise EngineProblem(str(problems[-1]["error"]))
        if status >= 400:
            raise EngineProblem(_message(lines) or "it answered {0}".format(status))

    def _ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, list[Any]]:
        connection = self._connect()
        try:
            # An empty body, not none: the Engine wants a length with every POST.
            connection.request(method, path, body=b"" if method == "POST" else None, headers=headers or {})
            answer = connection.getresponse()
            lines = list(_objects(answer, self._tell))
        except (OSError, http.client.HTTPException) as error:
            raise EngineProblem("Cannot connect to the Docker daemon: {0}".format(error)) from error
        finally:
            connection.close()
        if answer.status >= 400 and answer.status != 404:
            raise EngineProblem(_message(lines) or "it answered {0}".format(answer.status))
        return answer.status, lines


def _objects(answer: http.client.HTTPResponse, tell: Callable[[str], None]) -> Iterator[Any]:
    """Read a stream of JSON, one object a line; what is mere progress is told and not kept."""
    layers = Layers()
    for line in answer:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "progressDetail" in value:
            tell(layers.take(value))
        else:
            yield value


class Layers:
    """The layers of an image on their way, from what the Engine reports of each."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def take(self, report: dict[str, Any]) -> str:
        """Take a report and return how far all of them are: "Pushing, 3.1 GB of 9.2 GB"."""
        detail = report.get("progressDetail") or {}
        if detail.get("total"):
            self._seen[str(report.get("id"))] = (int(detail.get("current") or 0), int(detail["total"]))
        status = str(report.get("status") or "")
        done, total = (sum(numbers) for numbers in zip(*self._seen.values())) if self._seen else (0, 0)
        # What the Engine reports runs a little beyond the end.
        sizes = "{0} of {1}".format(amount(min(done, total) / 1024), amount(total / 1024)) if total else ""
        return ", ".join(part for part in (status, sizes) if part)


def _message(lines: list[Any]) -> str:
    return next((str(line["message"]) for line in lines if isinstance(line, dict) and line.get("message")), "")


def authorization(reference: Reference, user: tuple[str, str] | None) -> str:
    """Return the header that carries a credential; one without is needed too."""
    value = {"username": user[0], "password": user[1], "serveraddress": reference.host} if user else {}
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def same_image(image: dict[str, Any], manifest: Manifest | None) -> bool:
    """Tell whether what a registry has is this image of the store.

    An image's id is the digest of its settings, or of its manifest where Docker keeps images in containerd.
    """
    return manifest is not None and image.get("Id") in (manifest.config, manifest.digest)


def transient(said: str) -> bool:
    """Tell whether a failure is worth a repetition."""
    return any(words.lower() in said.lower() for words in TRANSIENT)
