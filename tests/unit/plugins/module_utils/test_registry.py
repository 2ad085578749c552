# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _registry
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import (
    asker,
    credentials_path,
    enroot_environment,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import parse
from ansible_collections.dgxc.workloads.plugins.module_utils._process import NOT_FOUND, Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Registry, RegistryProblem

MANIFEST = {"config": {"digest": "sha256:c", "size": 10}, "layers": [{"size": 100}, {"size": 200}]}
INDEX = {"manifests": [{"digest": "sha256:arm", "platform": {"architecture": "arm64"}},
                       {"digest": "sha256:amd", "platform": {"architecture": "amd64"}}]}  # fmt: skip
BEARER = 'Bearer realm="https://auth.r.io/token",service="r.io",scope="repository:a:pull"'


class Server:
    """A registry behind a curl that a test plays: addresses to answers; what curl was told is kept."""

    def __init__(self, answers):
        self.answers = answers
        self.told = []

    def __call__(self, configuration):
        self.told.append(configuration)
        url = re.search(r'^url = "(.*)"$', configuration, re.MULTILINE)[1]
        for pattern, needs, status, headers, body in self.answers:
            if pattern in url and needs in configuration:
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                text = body if isinstance(body, str) else json.dumps(body)
                return Finished(0, f"HTTP/1.1 {status} x\r\n{lines}\r\n{text}\n{status}", "")
        return Finished(7, "", "curl: (7) Failed to connect")


def registry(*answers, user=None, ca=""):
    server = Server(answers)
    return Registry(server, "r.io", user, ca), server


def test_a_manifest_is_read():
    ours, server = registry(
        ("/v2/a/manifests/1", "", 200, {"Docker-Content-Digest": "sha256:m"}, MANIFEST), ca="/ca.pem"
    )
    assert ours.manifest(parse("r.io/a:1")) == ("sha256:m", 310, "sha256:c")
    assert 'cacert = "/ca.pem"' in server.told[0]
    assert "application/vnd.oci.image.index.v1+json" in server.told[0]


def test_an_index_leads_to_the_architecture():
    answers = [("manifests/1", "", 200, {"docker-content-digest": "sha256:i"}, INDEX),
               ("manifests/sha256:arm", "", 200, {}, {**MANIFEST, "config": {"digest": "sha256:arm-config"}}),
               ("manifests/sha256:amd", "", 200, {}, MANIFEST)]  # fmt: skip
    assert registry(*answers)[0].manifest(parse("r.io/a:1")) == ("sha256:i", 310, "sha256:c")
    assert registry(*answers)[0].manifest(parse("r.io/a:1"), "aarch64").config == "sha256:arm-config"
    with pytest.raises(RegistryProblem, match="no image for the architecture ppc64le"):
        registry(*answers)[0].manifest(parse("r.io/a:1"), "ppc64le")


def test_a_token_is_fetched_with_the_credential():
    ours, server = registry(
        ("auth.r.io", 'user = "me:it\\"s\\\\me"', 200, {}, {"token": "T"}),
        ("manifests/1", "Bearer T", 200, {"docker-content-digest": "sha256:m"}, MANIFEST),
        ("manifests/1", "", 401, {"WWW-Authenticate": BEARER}, ""),
        user=("me", 'it"s\\me'),
    )
    assert ours.manifest(parse("r.io/a:1")).digest == "sha256:m"
    assert 'data-urlencode = "scope=repository:a:pull"' in server.told[1]
    assert "user =" not in server.told[2]


def test_basic_authentication():
    ours, server = registry(
        ("manifests/1", 'user = "u:p"', 200, {"docker-content-digest": "sha256:m"}, MANIFEST),
        ("manifests/1", "", 401, {"www-authenticate": 'Basic realm="x"'}, ""),
        user=("u", "p"),
    )
    assert ours.manifest(parse("r.io/a:1")).digest == "sha256:m"
    assert "user =" not in server.told[0]


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([("manifests", "", 401, {"www-authenticate": 'Basic realm="x"'}, "")], "returned error code: 401"),
        ([("manifests", "", 401, {"www-authenticate": "Bearer service=x"}, "")], "Could not parse authentication realm"),
        ([("auth", "", 403, {}, ""), ("manifests", "", 401, {"www-authenticate": BEARER}, "")], "error code: 403"),
        ([("manifests", "", 429, {}, {"errors": [{"code": "TOOMANYREQUESTS", "message": "slow"}]})], "TOOMANYREQUESTS: slow"),
        ([("manifests", "", 200, {}, "<html>")], "Could not process JSON"),
        ([("manifests", "", 200, {}, {"schemaVersion": 1})], "Could not parse digest information"),
        ([], "Failed to connect"),
    ],
)  # fmt: skip
def test_other_answers_are_problems(answers, problem):
    with pytest.raises(RegistryProblem, match=problem):
        registry(*answers)[0].manifest(parse("r.io/a:1"))


def test_an_image_that_is_not_there():
    assert registry(("manifests", "", 404, {}, ""))[0].manifest(parse("r.io/a:1")) is None


def test_the_headers_of_a_redirection_do_not_count():
    body = "HTTP/1.1 307 x\r\ndocker-content-digest: sha256:wrong\r\n\r\nHTTP/2 200\r\ndocker-content-digest: sha256:m\r\n\r\n"
    ours = Registry(lambda _configuration: Finished(0, body + json.dumps(MANIFEST) + "\n200", ""), "r.io")
    assert ours.manifest(parse("r.io/a:1")).digest == "sha256:m"


def test_curl_gets_everything_on_its_standard_input(tmp_path):
    program = tmp_path / "curl"
    program.write_text('#!/bin/sh\necho "$*"\ncat\n')
    program.chmod(0o755)
    curl = _registry.curl_with({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert curl('user = "u:secret"') == Finished(0, '--config -\nuser = "u:secret"', "")
    assert _registry.curl_with({"PATH": "/nosuch"})("").code in (NOT_FOUND, 0, 2)


def test_enroot_has_the_paths_it_is_told(tmp_path):
    given = {"temp_path": "/t", "cache_path": "", "config_path": "~/c", "transfer_retries": 5, "ca_path": "/ca",
             "environment": {"A": 1}}  # fmt: skip
    found = enroot_environment(lambda *_words: Finished(0, "", ""), {"PATH": "/bin", "LC_ALL": "de_DE"}, given)
    assert found["ENROOT_TEMP_PATH"] == "/t"
    assert "ENROOT_CACHE_PATH" not in found
    assert found["ENROOT_CONFIG_PATH"] == os.path.expanduser("~/c")
    assert (found["ENROOT_TRANSFER_RETRIES"], found["CURL_CA_BUNDLE"]) == ("5", "/ca")
    assert (found["A"], found["LC_ALL"]) == ("1", "C.UTF-8")
    assert credentials_path({"HOME": "/h"}) == "/h/.config/enroot/.credentials"
    assert credentials_path({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == "/x/enroot/.credentials"
    assert credentials_path(found) == os.path.expanduser("~/c/.credentials")


def test_a_registry_is_asked_with_enroots_credentials(tmp_path, monkeypatch):
    (tmp_path / ".credentials").write_text("machine r.io login u password p\n")
    server = Server(
        [
            ("manifests/1", 'user = "u:p"', 200, {"docker-content-digest": "sha256:m"}, MANIFEST),
            ("manifests/1", "", 401, {"www-authenticate": 'Basic realm="x"'}, ""),
        ]
    )
    monkeypatch.setattr(
        "ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask.curl_with", lambda _environment: server
    )
    assert asker({"ENROOT_CONFIG_PATH": str(tmp_path)}, "", "")(parse("r.io:5000/a:1")).digest == "sha256:m"
    with pytest.raises(RegistryProblem, match="401"):
        asker({"ENROOT_CONFIG_PATH": str(tmp_path / "none")}, "", "")(parse("r.io:5000/a:1"))
