# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot_credentials as credentials
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_credentials import Entry

NGC = [Entry("nvcr.io", "$oauthtoken", "key"), Entry("authn.nvidia.com", "$oauthtoken", "key")]
NGC_TEXT = "machine nvcr.io login $oauthtoken password key\nmachine authn.nvidia.com login $oauthtoken password key\n"


@pytest.mark.parametrize(
    ("registry", "machines"),
    [
        ("nvcr.io", ["nvcr.io", "authn.nvidia.com"]),
        ("docker.io", ["registry-1.docker.io", "auth.docker.io"]),
        ("", ["registry-1.docker.io", "auth.docker.io"]),
        ("registry.example.com:5000", ["registry.example.com"]),
        ("registry.gitlab.com", ["registry.gitlab.com", "gitlab.com"]),
    ],
)
def test_a_registry_gets_the_entries_it_needs(registry, machines):
    assert [entry.machine for entry in credentials.entries(registry, "user", "word")] == machines


def test_hosts_of_tokens_can_be_told():
    found = credentials.entries("registry.example.com", "user", "word", ["login.example.com"])
    assert [entry.machine for entry in found] == ["registry.example.com", "login.example.com"]


@pytest.mark.parametrize("password", ["", "two words", "$(date)", 'quo"te', "it's", "back\\slash", "a#b", "line\n"])
def test_what_the_file_cannot_carry_is_refused_without_telling_it(password):
    with pytest.raises(credentials.NotExpressible) as refused:
        credentials.entries("nvcr.io", "user", password)
    assert not password.strip() or password not in str(refused.value)
    assert "use an access token instead" in str(refused.value)


def test_a_user_that_cannot_stand_there_is_refused():
    with pytest.raises(credentials.NotExpressible, match=r"The user for nvcr\.io"):
        credentials.entries("nvcr.io", "", "word")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", NGC_TEXT),
        (NGC_TEXT, NGC_TEXT),
        ("# mine\r\n\tmachine  x login a password b", "# mine\r\n\tmachine  x login a password b\n" + NGC_TEXT),
        (NGC_TEXT.replace("key", "old"), NGC_TEXT),
        # Spelt otherwise, and the same.
        (NGC_TEXT.replace("machine ", "machine\t"), NGC_TEXT.replace("machine ", "machine\t")),
        # Another user's entry stays, behind ours, since the first one counts.
        (
            "machine a login b password c\nmachine nvcr.io login other password z\n",
            "machine a login b password c\nmachine nvcr.io login $oauthtoken password key\n"
            "machine nvcr.io login other password z\nmachine authn.nvidia.com login $oauthtoken password key\n",
        ),
        (
            "machine nvcr.io login other password z\n" + NGC_TEXT,
            "machine nvcr.io login $oauthtoken password key\nmachine nvcr.io login other password z\n"
            "machine authn.nvidia.com login $oauthtoken password key\n",
        ),
        # One over several lines is somebody's, and curl reads it.
        ("machine nvcr.io\n  login x\n  password y\n", "machine nvcr.io login $oauthtoken password key\n"
         "machine nvcr.io\n  login x\n  password y\nmachine authn.nvidia.com login $oauthtoken password key\n"),
    ],
)  # fmt: skip
def test_entries_are_put_in_and_all_else_stays(before, after):
    assert credentials.updated(before, NGC) == after
    assert credentials.updated(after, NGC) == after


def test_entries_are_taken_away():
    assert credentials.updated(NGC_TEXT + "machine a login b password c\n", [], ["nvcr.io"]) == (
        "machine authn.nvidia.com login $oauthtoken password key\nmachine a login b password c\n"
    )


def test_an_entry_is_looked_up():
    text = (
        NGC_TEXT + "machine h login one password 1\nmachine h login two password 2\nmachine g login x password $(y)\n"
    )
    assert credentials.lookup(text, "nvcr.io") == ("$oauthtoken", "key")
    assert credentials.lookup(text, "h") == ("one", "1")
    assert credentials.lookup(text, "h", "two") == ("two", "2")
    assert credentials.lookup(text, "h", "three") is None
    assert credentials.lookup(text, "g") is None
    assert credentials.lookup("machine\n\nmachine h login", "h") is None


def test_variables_become_one_list():
    given = {
        "ngc_api_key": "k", "dockerhub_username": "u", "dockerhub_password": "p", "registry": "r.io:5/team",
        "registry_username": "v", "registry_password": "q",
        "credentials": [{"registry": "x.io", "username": "w", "password": "z"}],
    }  # fmt: skip
    found = credentials.from_variables(given)
    assert [(item["registry"], item["username"], item["password"]) for item in found] == [
        ("nvcr.io", "$oauthtoken", "k"), ("docker.io", "u", "p"), ("r.io:5", "v", "q"), ("x.io", "w", "z"),
    ]  # fmt: skip
    assert credentials.from_variables({"registry": "r.io", "registry_password": "", "credentials": None}) == []
    assert credentials.user_for(found, "registry-1.docker.io") == ("u", "p")
    assert credentials.user_for(found, "x.io:443") == ("w", "z")
    assert credentials.user_for(found, "r.io:6") is None
