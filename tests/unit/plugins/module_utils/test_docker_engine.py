# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import http.server
import json
import socketserver
import threading

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _docker_engine as engine_of
from ansible_collections.dgxc.workloads.plugins.module_utils import _registry_image
from ansible_collections.dgxc.workloads.plugins.module_utils._docker_engine import Engine, EngineProblem
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import parse
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, RegistryProblem
from ansible_collections.dgxc.workloads.plugins.module_utils._registry_image import Transfer, TransferProblem

REFERENCE = parse("r.io:5/team/a:1")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self):
        request, _address = super().get_request()
        return request, ("docker", 0)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.command, self.path, self.headers.get("X-Registry-Auth")))
        for pattern, status, lines in self.server.answers:
            if pattern in self.path:
                body = "".join(
                    json.dumps(line) + "\n" if not isinstance(line, str) else line for line in lines
                ).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
        self.send_error(500)

    do_POST = do_GET

    def log_message(self, *_words):
        pass


@pytest.fixture
def docker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = Server("socket", Handler)
    server.requests, server.answers = [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.engine = Engine(engine_of.connection_to("unix://socket"))
    yield server
    server.shutdown()
    server.server_close()


def test_an_image_of_the_store(docker):
    docker.answers = [
        ("/images/a:1/json", 200, [{"Id": "sha256:i"}]),
        ("/images/b", 404, [{"message": "No such image"}]),
    ]
    assert docker.engine.image("a:1") == {"Id": "sha256:i"}
    assert docker.engine.image("b:1") is None
    with pytest.raises(EngineProblem, match="it answered 500"):
        docker.engine.image("c")


def test_a_name_is_given(docker):
    docker.answers = [("/images/a:1/tag", 201, []), ("/images/b/tag", 404, [{"message": "No such image: b"}])]
    docker.engine.tag("a:1", REFERENCE)
    assert docker.requests[0][:2] == ("POST", "/images/a:1/tag?repo=r.io%3A5%2Fteam%2Fa&tag=1")
    with pytest.raises(EngineProblem, match="No such image: b"):
        docker.engine.tag("b", REFERENCE)


def test_the_password_is_in_a_header_and_an_error_in_the_stream_is_one(docker):
    docker.answers = [("push", 200, [{"status": "x", "progressDetail": {}}, "no json\n", "\n", {"aux": {"Tag": "1"}}])]
    docker.engine.push(REFERENCE, ("u", "p"))
    _method, path, header = docker.requests[0]
    assert path == "/images/r.io:5/team/a/push?tag=1"
    assert json.loads(base64.urlsafe_b64decode(header)) == {"username": "u", "password": "p", "serveraddress": "r.io:5"}
    docker.answers = [("push", 200, [{"status": "x"}, {"error": "denied: requested access to the resource is denied"}])]
    with pytest.raises(EngineProblem, match="denied"):
        docker.engine.push(REFERENCE, None)
    assert json.loads(base64.urlsafe_b64decode(docker.requests[1][2])) == {}


def test_how_far_a_transfer_is(docker):
    told = []
    engine = Engine(engine_of.connection_to("unix://socket"), told.append)
    layer = {"status": "Pushing", "progressDetail": {"current": 1_000_000, "total": 4_000_000}, "id": "a"}
    docker.answers = [("push", 200, [
        {"status": "Preparing", "progressDetail": {}, "id": "a"},
        layer,
        {**layer, "id": "b", "progressDetail": {"current": 2_000_000, "total": 16_000_000}},
        {**layer, "progressDetail": {"current": 4_000_512, "total": 4_000_000}},
        {"status": "Pushed", "progressDetail": {}, "id": "a"},
    ])]  # fmt: skip
    engine.push(REFERENCE, None)
    assert told == [
        "Preparing", "Pushing, 1.0 MB of 4.0 MB", "Pushing, 3.0 MB of 20 MB", "Pushing, 6.0 MB of 20 MB",
        "Pushed, 6.0 MB of 20 MB",
    ]  # fmt: skip


def test_a_pull(docker):
    docker.answers = [("/images/create", 200, [{"status": "x"}])]
    docker.engine.pull(REFERENCE, None)
    docker.engine.pull(parse("r.io/a@sha256:" + "0" * 64), None)
    assert [path for _method, path, _header in docker.requests] == [
        "/images/create?fromImage=r.io%3A5%2Fteam%2Fa&tag=1",
        "/images/create?fromImage=r.io%2Fa&tag=sha256%3A" + "0" * 64,
    ]
    docker.answers = [("/images/create", 404, [{"message": "manifest unknown"}])]
    with pytest.raises(EngineProblem, match="manifest unknown"):
        docker.engine.pull(REFERENCE, None)


def test_addresses():
    with pytest.raises(EngineProblem, match="neither unix:///path nor tcp://host:port"):
        engine_of.connection_to("ssh://host")
    assert engine_of.connection_to("tcp://localhost:1")().port == 1
    with pytest.raises(EngineProblem, match="Cannot connect to the Docker daemon"):
        Engine(engine_of.connection_to("unix:///nosuch")).image("a")


class Played:
    """Engine and registry, as a test wants them."""

    def __init__(self, image, manifests, problems=()):
        self.store, self.manifests, self.problems, self.done = image, list(manifests), list(problems), []

    def image(self, _name):
        return self.store

    def tag(self, name, reference):
        self.done.append(f"tag {name} {reference.docker}")

    def push(self, _reference, _user):
        self.done.append("push")
        if self.problems:
            raise EngineProblem(self.problems.pop(0))

    def pull(self, _reference, _user):
        self.done.append("pull")
        self.store = {"Id": "sha256:new", "Size": 5}

    def manifest(self, _reference, _architecture=""):
        found = self.manifests.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def transfer(self, retries=2):
        self.pauses = []
        return Transfer(self, self, None, retries, self.pauses.append)


SAME, OTHER = Manifest("sha256:m", 300, "sha256:i"), Manifest("sha256:n", 300, "sha256:j")


def test_what_is_there_is_not_pushed():
    played = Played({"Id": "sha256:i"}, [SAME])
    assert played.transfer().push("a:1", REFERENCE, False) == ("unchanged", "sha256:m", "sha256:m", 300, "sha256:i")
    assert played.done == []


@pytest.mark.parametrize("before", [None, OTHER])
def test_what_is_not_there_is_pushed(before):
    played = Played({"Id": "sha256:i"}, [before, SAME])
    outcome = played.transfer().push("a:1", REFERENCE, False)
    assert (outcome.action, outcome.digest) == ("pushed", "sha256:m")
    assert played.done == ["tag sha256:i r.io:5/team/a:1", "push"]
    played = Played({"Id": "sha256:i"}, [before])
    assert played.transfer().push("a:1", REFERENCE, True).action == "pushed"
    assert played.done == []


def test_a_push_that_broke_is_repeated_and_a_refusal_is_not():
    played = Played({"Id": "sha256:i"}, [None, SAME], ["unknown blob", "write: broken pipe"])
    played.transfer().push("a:1", REFERENCE, False)
    assert played.done.count("push") == 3
    assert played.pauses == [2.0, 4.0]
    played = Played({"Id": "sha256:i"}, [None], ["denied: no"])
    with pytest.raises(EngineProblem, match="denied"):
        played.transfer().push("a:1", REFERENCE, False)
    played = Played({"Id": "sha256:i"}, [None], ["EOF"] * 3)
    with pytest.raises(EngineProblem, match="EOF"):
        played.transfer().push("a:1", REFERENCE, False)


def test_a_push_has_to_arrive():
    with pytest.raises(TransferProblem, match="has another image under it"):
        Played({"Id": "sha256:i"}, [None, OTHER]).transfer().push("a:1", REFERENCE, False)
    with pytest.raises(TransferProblem, match="build it first"):
        Played(None, []).transfer().push("a:1", REFERENCE, False)
    assert Played(None, []).transfer().push("a:1", REFERENCE, True).action == "pushed"
    with pytest.raises(TransferProblem, match="401"):
        Played({"Id": "x"}, [RegistryProblem("returned error code: 401")]).transfer().push("a:1", REFERENCE, False)


def test_what_is_in_the_store_is_not_pulled():
    played = Played({"Id": "sha256:i", "Size": 7}, [])
    assert played.transfer().pull(REFERENCE, False, False).action == "unchanged"
    assert played.transfer().pull(REFERENCE, True, True).action == "pulled"
    assert played.done == []
    assert played.transfer().pull(REFERENCE, True, False) == ("pulled", "sha256:i", "sha256:new", 5, "sha256:new")
    assert Played(None, []).transfer().pull(REFERENCE, False, False).digest == "sha256:new"


def test_sentences():
    assert "image_docker_host" in _registry_image.sentence("Cannot connect to the Docker daemon: x", "r.io")
    assert "(401)" in _registry_image.sentence("unauthorized: x", "r.io")
    assert _registry_image.sentence("strange", "r.io") == "r.io: strange."
