# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One large file over HTTP, from a server that cuts, refuses and changes its mind."""

from __future__ import annotations

import email.utils
import errno
import hashlib
import importlib.util
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _download
from ansible_collections.dgxc.workloads.plugins.module_utils._download import (
    Download,
    DownloadProblem,
    Source,
    credentials_from_file,
    open_url,
    shown,
    source_problems,
)

_SPEC = importlib.util.spec_from_file_location("file_server", Path(__file__).with_name("file_server.py"))
file_server = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(file_server)

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SETTINGS = {
    "url": "demo_data_url",
    "username": "demo_username",
    "password": "demo_key",
    "path": "demo_data_folder",
    "sha256": "demo_data_sha256",
}


@pytest.fixture
def server():
    server = file_server.FileServer()
    server.files["/data.zip"] = CONTENT
    yield server
    server.close()


def source(server, path="/data.zip", **changes):
    values = {"name": "demo", "url": server.url(path), "username": "", "password": "", "sha256": "", "page": ""}
    return Source(**{**values, **changes}, settings=SETTINGS)


class Fetch:
    """A download, and the pauses that it made."""

    def __init__(self, wanted, target, **options):
        self.pauses = []
        self.signs = 0
        self.download = Download(
            wanted, str(target), self.alive, timeout=5, sleep=self.pauses.append, **{"tries": 3, **options}
        )

    def alive(self):
        self.signs += 1

    def __call__(self):
        return self.download.fetch()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "archive"


def test_a_file_arrives_whole(server, target):
    fetch = Fetch(source(server), target)
    assert fetch() == (len(CONTENT), SHA256)
    assert target.read_bytes() == CONTENT
    assert fetch.signs > 0
    assert fetch.pauses == []
    assert target.stat().st_mode & 0o077 == 0


def test_what_is_whole_is_not_asked_for_again(server, target):
    Fetch(source(server), target)()
    server.requests.clear()
    assert Fetch(source(server), target)() == (len(CONTENT), SHA256)
    assert server.requests == []


def test_a_connection_that_is_cut_is_taken_up_where_it_ended(server, target):
    server.plays = [100_000, 50_000, 0]
    fetch = Fetch(source(server), target)
    assert fetch() == (len(CONTENT), SHA256)
    assert [headers.get("Range") for _path, headers in server.requests] == [
        None, "bytes=100000-", "bytes=150000-", "bytes=150000-",
    ]  # fmt: skip
    # A connection that brought something is no failure; only one that brought nothing makes the pause longer.
    assert fetch.pauses == [1.0, 1.0, 2.0]


def test_the_next_run_goes_on_where_the_last_one_failed(server, target):
    server.plays = [100_000, 0, 0, 0]
    with pytest.raises(
        DownloadProblem, match=r"100,000 bytes of 1,024,000.*stays, and the next run of the play goes on"
    ):
        Fetch(source(server), target)()
    server.requests.clear()
    assert Fetch(source(server), target)().sha256 == SHA256
    assert server.requests[0][1]["Range"] == "bytes=100000-"


def test_a_file_that_changed_meanwhile_is_fetched_from_its_beginning(server, target):
    server.plays = [100_000, (503, {}), (503, {}), (503, {})]
    with pytest.raises(DownloadProblem, match="503"):
        Fetch(source(server), target)()
    new = CONTENT[::-1]
    server.files["/data.zip"], server.headers = new, {"ETag": '"two"'}
    assert Fetch(source(server), target)().sha256 == hashlib.sha256(new).hexdigest()


def test_without_anything_to_tell_versions_by_the_size_has_to_be_the_same(server, target):
    server.headers = {}
    server.plays = [100_000, (503, {}), (503, {}), (503, {})]
    with pytest.raises(DownloadProblem):
        Fetch(source(server), target)()
    new = CONTENT[::-1] + b"more"
    server.files["/data.zip"] = new
    assert Fetch(source(server), target)().sha256 == hashlib.sha256(new).hexdigest()


def test_a_part_of_something_else_is_not_gone_on_with(server, target):
    server.plays = [100_000, 0, 0, 0]
    with pytest.raises(DownloadProblem):
        Fetch(source(server), target)()
    server.requests.clear()
    Fetch(source(server, name="another"), target)()
    assert "Range" not in server.requests[0][1]


def test_a_part_longer_than_the_file_is_thrown_away(server, target):
    target.write_bytes(CONTENT + b"x")
    Path(f"{target}.json").write_text(json.dumps({"name": "demo", "size": len(CONTENT) + 9, "validator": '"one"'}))
    assert Fetch(source(server), target)() == (len(CONTENT), SHA256)
    assert "Range" in server.requests[0][1]


def test_a_server_that_knows_no_parts_gives_all_again(server, target):
    server.ranges = False
    server.plays = [100_000]
    assert Fetch(source(server), target)() == (len(CONTENT), SHA256)


def test_a_file_without_a_size_is_whole_when_the_protocol_says_so(server, target):
    server.sized = False
    server.ranges = False
    server.plays = [100_000]
    assert Fetch(source(server), target)() == (len(CONTENT), SHA256)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("play", "said"),
    [
        ((401, {}), "answers 401 .unauthorized.: demo_username and demo_key are not given; give a valid pair"),
        ((403, {}), "answers 403 .forbidden.: accept the terms of the data set on https://page with the account"),
        ((404, {}), "answers 404 .not found.: correct demo_data_url"),
        ((400, {}), "answers 400 .*: correct demo_data_url"),
    ],
)
def test_a_refusal_that_will_stay_is_told_at_once(server, target, play, said):
    server.plays = [play]
    with pytest.raises(DownloadProblem, match=said):
        Fetch(source(server, page="https://page"), target)()
    assert len(server.requests) == 1


def test_too_many_requests_are_followed_by_the_pause_that_is_asked_for(server, target):
    server.plays = [(429, {"Retry-After": "7"})]
    fetch = Fetch(source(server), target)
    assert fetch().sha256 == SHA256
    assert fetch.pauses == [7.0]


@pytest.mark.parametrize("wanted", ["600", email.utils.formatdate(1000600, usegmt=True)])
def test_a_long_pause_is_left_to_the_user(server, target, wanted):
    server.plays = [100_000, (429, {"Retry-After": wanted})]
    with pytest.raises(DownloadProblem, match=r"429 .* pause of 600 s: run the play again .*100,000 bytes"):
        Fetch(source(server), target, clock=lambda: 1000000)()


@pytest.mark.parametrize("pause", [None, "soon"])
def test_a_server_that_stays_busy_is_given_up(server, target, pause):
    server.plays = [(429, {"Retry-After": pause} if pause else {})] * 9
    fetch = Fetch(source(server), target)
    with pytest.raises(DownloadProblem, match=r"429 .too many requests."):
        fetch()
    assert fetch.pauses == [2.0, 4.0]


def test_a_dead_server_is_told(server, target):
    wanted = source(server)
    server.close()
    with pytest.raises(DownloadProblem, match=r"no connection .*refused"):
        Fetch(wanted, target)()


def test_the_key_goes_to_the_server_and_to_no_other(server, target):
    storage = file_server.FileServer()
    storage.files["/bucket"] = CONTENT
    server.credentials = "me:secret"
    server.redirects["/api"] = storage.url("/bucket?signature=abc")
    try:
        assert Fetch(source(server, "/api", username="me", password="secret"), target)().sha256 == SHA256
        assert "Authorization" in server.requests[0][1]
        assert "Authorization" not in storage.requests[0][1]
    finally:
        storage.close()
    assert "secret" not in Path(f"{target}.json").read_text()


def test_a_wrong_key_is_told_without_the_key(server, target):
    server.credentials = "me:secret"
    with pytest.raises(DownloadProblem, match="not accepted") as problem:
        Fetch(source(server, username="me", password="wrong-one"), target)()
    assert "wrong-one" not in str(problem.value)


def test_a_page_is_no_file(server, target):
    server.content_type = "text/html; charset=utf-8"
    with pytest.raises(DownloadProblem, match="answers with a page, not with a file: see that demo_data_url"):
        Fetch(source(server), target)()
    assert not target.exists()


def test_the_checksum_that_was_given_has_to_be_right(server, target):
    assert Fetch(source(server, sha256=SHA256), target)().sha256 == SHA256
    with pytest.raises(DownloadProblem, match=r"but demo_data_sha256 says 000.*thrown away. Correct it"):
        Fetch(source(server, sha256="0" * 64), target)()
    assert not target.exists()


def test_the_checksum_that_the_hub_tells_on_its_way_has_to_be_right(server, target):
    server.redirects["/resolve"] = "/data.zip"
    server.headers = {"X-Linked-Etag": f'"{SHA256}"', "ETag": '"x"'}
    assert Fetch(source(server, "/resolve"), target)().sha256 == SHA256
    target.write_bytes(CONTENT[::-1])
    with pytest.raises(DownloadProblem, match=r"but the server says .*thrown away. Run the play again"):
        Fetch(source(server, "/resolve"), target)()
    assert not target.exists()


def test_a_full_storage_is_told_before_anything_is_written(server, target, monkeypatch):
    monkeypatch.setattr(_download.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        DownloadProblem, match=r"no room .*: 1,023,000 bytes are missing. Free some, or set demo_data_f"
    ):
        Fetch(source(server), target)()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "no room for .*: Disk quota exceeded"),
        (OSError(errno.EIO, "Input/output error"), "the connection broke"),
        (TimeoutError("timed out"), "the connection broke .timed out."),
        (urllib.error.URLError("it leads from https to http://x"), "no connection .it leads from https to http://x"),
    ],
)
def test_what_goes_wrong_on_the_way_is_told(server, target, error, said):
    def ask(request, timeout):
        raise error

    with pytest.raises(DownloadProblem, match=said):
        Fetch(source(server), target, ask=ask, tries=1)()


def test_a_server_that_answers_with_other_bytes_is_not_believed(server, target):
    server.plays = [100_000]

    def ask(request, timeout):
        response = open_url(request, timeout)
        if response.status == 206:
            response.headers.replace_header("Content-Range", "bytes 5-9/10")
        return response

    with pytest.raises(DownloadProblem, match="other bytes than it was asked for"):
        Fetch(source(server), target, ask=ask, tries=1)()


def test_no_way_leads_from_https_to_http():
    handler = _download._Redirects()
    request = urllib.request.Request("https://safe/x")
    with pytest.raises(urllib.error.URLError, match="from https to http://plain/x"):
        handler.redirect_request(request, None, 302, "", {}, "http://plain/x?signature=1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "ftp://host/x"}, "begins with https://"),
        ({"url": "https://"}, "begins with https://"),
        ({"url": "https://me:secret@host/x"}, "demo_data_url with a password in it, which logs would show"),
        ({"url": "http://host/x", "username": "me", "password": "p"}, "must not travel in clear text"),
        ({"username": "me"}, "demo_username is given without demo_key"),
        ({"password": "p"}, "demo_key is given without demo_username"),
        ({"sha256": "abc"}, "demo_data_sha256 is 'abc': give the 64"),
    ],
)
def test_a_wish_that_cannot_be_is_told(changes, said):
    values = {"name": "demo", "url": "https://host/x", "username": "", "password": "", "sha256": "", "page": ""}
    problems = source_problems(Source(**{**values, **changes}, settings=SETTINGS))
    assert len(problems) == 1
    assert said in problems[0]
    assert "secret" not in problems[0]


def test_an_address_is_told_without_its_signature():
    assert shown("https://me:secret@host:8/path?signature=abc#x") == "https://host:8/path"


class TestCredentialsFile:
    def test_it_is_read(self, tmp_path):
        path = tmp_path / "kaggle.json"
        path.write_text('{"username": "me", "key": "secret"}')
        path.chmod(0o600)
        assert credentials_from_file(str(path)) == ("me", "secret")

    def test_its_absence_is_no_failure(self, tmp_path):
        assert credentials_from_file(str(tmp_path / "kaggle.json")) == ("", "")

    def test_others_must_not_read_it(self, tmp_path):
        path = tmp_path / "kaggle.json"
        path.write_text('{"username": "me", "key": "secret"}')
        path.chmod(0o644)
        with pytest.raises(DownloadProblem, match="mode 0644, so that others can read it: run 'chmod 600"):
            credentials_from_file(str(path))

    @pytest.mark.parametrize("text", ["", "[]", '{"username": "me"}', '{"username": "me", "key": 3}'])
    def test_another_file_is_told(self, tmp_path, text):
        path = tmp_path / "kaggle.json"
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(DownloadProblem, match="not as Kaggle hands it out"):
            credentials_from_file(str(path))
