# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of images, from their arguments to their results, over programs that a test plays."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxc.workloads.plugins.module_utils import _bound_process
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest
from ansible_collections.dgxc.workloads.plugins.modules import (
    enroot_credentials,
    enroot_info,
    registry_image,
    squashfs_image,
    squashfs_receive,
)

ABSENT = 0xFFFFFFFFFFFFFFFF
IMAGE = struct.pack(
    "<5I6H8Q", 0x73717368, 2, 0, 131072, 1, 1, 17, 192, 1, 4, 0, 32, 4096, 4088, ABSENT, 4000, 4010, 4020, 4030
).ljust(4096, b"d")  # fmt: skip
ENROOT = """#!/bin/bash
echo "$*" >> {folder}/calls
[ $1 = version ] && echo 4.1.2 && exit
while [ "$1" != --output ]; do shift; done
cp {folder}/made "$2"
"""
SECRET = "s3cr3t-w0rd"


@pytest.fixture
def warnings(monkeypatch):
    """What modules warn of; where the controller's side of Ansible is loaded, it does not come with the result."""
    told = []
    monkeypatch.setattr(squashfs_image.AnsibleModule, "warn", lambda _module, text, **_more: told.append(text))
    return told


@pytest.fixture
def place(tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "made").write_bytes(IMAGE)
    scripts = {"enroot": ENROOT.format(folder=tmp_path), "unsquashfs": "#!/bin/sh\n", "curl": "#!/bin/sh\nexit 7\n"}
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("ENROOT_CONFIG_PATH", "XDG_CONFIG_HOME", "ENROOT_TEMP_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "images").mkdir()
    return tmp_path


def run(module, capsys, check_mode=False, **arguments):
    with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
        module.main()
    text = capsys.readouterr().out
    assert SECRET not in text
    return json.loads(text)


def calls(place):
    path = place / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_an_image_is_made_once(place, capsys):
    given = {"path": str(place / "images" / "x.sqsh"), "source": "dockerd://a:1", "content": "c", "digest": "sha256:i"}
    planned = run(squashfs_image, capsys, check_mode=True, **given)
    assert (planned["changed"], planned["action"], planned["image"]["state"]) == (True, "import", "absent")
    assert planned["diff"]["after"] == {"source": "dockerd://a:1", "content": "c", "digest": "sha256:i"}
    assert calls(place) == []
    made = run(squashfs_image, capsys, **given)
    assert made["changed"]
    assert made["image"]["digest"] == "sha256:i"
    assert made["diff"]["before"]["digest"] == ""
    again = run(squashfs_image, capsys, **given)
    assert (again["changed"], again["action"]) == (False, "unchanged")
    looked = run(squashfs_image, capsys, state="looked", **{**given, "content": "d"})
    assert (looked["changed"], looked["action"]) == (False, "replace")
    proved = run(squashfs_image, capsys, path=given["path"], state="given")
    assert proved["image"]["digest"] == "sha256:i"


@pytest.mark.parametrize("source", ["", "alma:24.01", "dockerd://", "docker://UPPER", "ftp://x"])
def test_a_source_that_is_none(place, capsys, source):
    answer = run(squashfs_image, capsys, path=str(place / "x.sqsh"), source=source)
    assert answer["failed"]
    assert answer["msg"].startswith("source")


def test_what_cannot_be_made_or_proved(place, capsys):
    (place / "made").write_bytes(b"no image")
    answer = run(squashfs_image, capsys, path=str(place / "images" / "x.sqsh"), source="dockerd://a:1")
    assert "is not a squashfs file: repeat" in answer["msg"]
    answer = run(squashfs_image, capsys, path=str(place / "nosuch"), state="given")
    assert "is not there: give the path of a whole .sqsh" in answer["msg"]
    answer = run(squashfs_image, capsys, path=str(place / "nosuch"), state="given", required=False)
    assert (answer["changed"], answer["image"]["state"]) == (False, "absent")
    answer = run(squashfs_image, capsys, path=str(place), state="given")
    assert answer["failed"]
    assert list((place / "images").iterdir()) == []


def test_an_import_goes_on_without_a_registry_that_tells(place, capsys, warnings):
    answer = run(squashfs_image, capsys, path=str(place / "images" / "x.sqsh"), source="docker://r.io#a:1")
    assert answer["action"] == "import"
    assert "does not tell its digest" in warnings[0]


def test_credentials_are_written_with_their_mode(place, capsys):
    given = {"credentials": [{"registry": "nvcr.io", "username": "$oauthtoken", "password": SECRET}]}
    path = place / ".config" / "enroot" / ".credentials"
    assert run(enroot_credentials, capsys, check_mode=True, **given)["changed"]
    assert not path.exists()
    answer = run(enroot_credentials, capsys, **given)
    assert answer["machines"] == ["nvcr.io", "authn.nvidia.com"]
    assert answer["path"] == str(path)
    assert path.read_text().count(SECRET) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not run(enroot_credentials, capsys, **given)["changed"]
    path.chmod(0o644)
    assert run(enroot_credentials, capsys, **given)["changed"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_credentials_that_cannot_be_written(place, capsys):
    entry = {"registry": "r.io", "username": "u", "password": SECRET}
    answer = run(enroot_credentials, capsys, credentials=[{**entry, "password": f"${SECRET}"}], config_path=str(place))
    assert "begins with $" in answer["msg"]
    (place / "elsewhere").touch()
    (place / ".credentials").symlink_to(place / "elsewhere")
    assert "is a link" in run(enroot_credentials, capsys, credentials=[entry], config_path=str(place))["msg"]
    (place / ".credentials").unlink()
    (place / ".credentials").write_bytes(b"\xff\xfe")
    assert "UTF-8" in run(enroot_credentials, capsys, credentials=[entry], config_path=str(place))["msg"]
    answer = run(enroot_credentials, capsys, credentials=[entry], config_path=str(place / "elsewhere" / "x"))
    assert "cannot be written" in answer["msg"]


def test_enroots_are_compared(place, capsys, warnings):
    assert run(enroot_info, capsys)["version"] == "4.1.2"
    run(enroot_info, capsys, other="4.0.1")
    assert "best between equal versions" in warnings[0]
    assert "image_enroot_version_check" in run(enroot_info, capsys, other="3.4.1", other_host="here")["msg"]
    assert "Install Enroot there" in run(enroot_info, capsys, enroot="nosuch")["msg"]


class Played:
    """The Docker Engine and the registry of a module."""

    def __init__(self, *_words):
        self.pushed = False

    def image(self, _name):
        return {"Id": "sha256:i", "Size": 7}

    def tag(self, _name, _reference):
        pass

    def push(self, _reference, user):
        assert user == ("u", SECRET)
        Played.state = Manifest("sha256:m", 300, "sha256:i")

    def manifest(self, _reference, _architecture=""):
        return Played.state


def test_an_image_is_pushed_once(monkeypatch, capsys):
    monkeypatch.setattr(registry_image, "Engine", Played)
    monkeypatch.setattr(registry_image, "Registry", Played)
    Played.state = None
    credentials = [{"registry": "r.io", "username": "u", "password": SECRET}]
    given = {"image": "a:1", "reference": "r.io/a:1", "credentials": credentials}
    assert run(registry_image, capsys, check_mode=True, **given)["action"] == "pushed"
    answer = run(registry_image, capsys, **given)
    assert (answer["changed"], answer["digest"], answer["size"]) == (True, "sha256:m", 300)
    assert not run(registry_image, capsys, **given)["changed"]
    assert run(registry_image, capsys, state="pulled", reference="r.io/a:1")["action"] == "unchanged"


def test_what_cannot_be_pushed(place, capsys):
    answer = run(registry_image, capsys, image="a:1", reference="UPPER")
    assert "reference: 'UPPER' is not" in answer["msg"]
    answer = run(registry_image, capsys, image="a:1", reference="r.io/a:1", docker_host=f"unix://{place}/nosuch")
    assert "image_docker_host" in answer["msg"]


def test_an_image_is_received(place, capsys):
    path = place / "images" / "x.sqsh"
    about = {"path": str(path), "source": "dockerd://a:1", "content": "c", "digest": "sha256:i", "size": len(IMAGE)}
    begun = run(squashfs_receive, capsys, step="begin", **about)["reception"]
    Path(begun["part"]).write_bytes(IMAGE[:100])
    cut = run(squashfs_receive, capsys, step="finish", part=begun["part"], claim=begun["token"], **about)
    assert "has 100 of 4096 bytes" in cut["msg"]
    again = run(squashfs_receive, capsys, step="begin", **about)["reception"]
    assert again["offset"] == 100
    assert run(squashfs_receive, capsys, step="give_up", claim=again["token"], path=str(path))["changed"] is False
    begun = run(squashfs_receive, capsys, step="begin", **about)["reception"]
    Path(begun["part"]).write_bytes(IMAGE)
    answer = run(squashfs_receive, capsys, step="finish", part=begun["part"], claim=begun["token"], **about)
    assert answer["image"]["digest"] == "sha256:i"
    assert run(squashfs_receive, capsys, step="begin", **about)["reception"]["action"] == "unchanged"


def test_a_command_ends_with_its_time_and_its_parent(tmp_path):
    done = _bound_process.run_bound(["sh", "-c", "echo a; echo b >&2; exit 3"], dict(os.environ), None, 60)
    assert done == (3, "a\n", "b\n")
    assert _bound_process.run_bound(["/nosuch/program"], dict(os.environ), None, 60).code == 127
    script = "trap 'echo tidied; exit' TERM; sleep 60 & wait"
    done = _bound_process.run_bound(["bash", "-c", script], dict(os.environ), None, 1)
    assert (done.code, done.out) == (124, "tidied\n")
    assert "longer than 1 seconds" in done.err
