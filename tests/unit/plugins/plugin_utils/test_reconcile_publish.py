# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_publish import (
    Answer,
    PublishError,
    call_git,
    publish,
)

AUTHOR = ("Reconciler", "reconciler@example.org")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ana", "-c", "user.email=ana@example.org", *arguments]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout.strip()


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = tmp_path / "server.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
    return folder


def person_pushes(server: Path, folder: Path, name: str) -> None:
    """Somebody commits a file to the branch."""
    if not folder.exists():
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    if git(server, "branch", "--list", "status"):
        git(folder, "fetch", "--quiet", str(server), "status")
        git(folder, "reset", "--quiet", "--hard", "FETCH_HEAD")
    (folder / name).write_text(name)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", name)
    git(folder, "push", "--quiet", str(server), "HEAD:status")


def put(server: Path, **options: object) -> dict[str, object]:
    arguments = {"files": {"a/b.md": "text\n"}, "sleep": lambda seconds: None, **options}
    return publish(f"file://{server}", "status", message="Status", author=AUTHOR, **arguments)


def test_a_branch_is_made_and_left_alone_when_it_is_so(server: Path):
    first = put(server)
    assert first["changed"]
    assert git(server, "show", "status:a/b.md") == "text"
    assert git(server, "log", "-1", "--format=%an %ae", "status") == "Reconciler reconciler@example.org"
    assert put(server) == {"changed": False, "commit": first["commit"], "tries": 1}


def test_check_mode_pushes_nothing(server: Path):
    assert put(server, check_mode=True)["changed"]
    assert git(server, "branch", "--list") == ""


def test_what_people_have_there_stays(server: Path, tmp_path: Path):
    person_pushes(server, tmp_path / "ana", "notes.md")
    put(server)
    assert git(server, "ls-tree", "-r", "--name-only", "status").split() == ["a/b.md", "notes.md"]
    assert len(git(server, "rev-list", "status").split()) == 2


def test_a_push_in_between_is_built_upon_and_never_forced(server: Path, tmp_path: Path):
    put(server, files={"a/b.md": "old\n"})
    pushed = []

    def slow_git(arguments: Sequence[str], text: str, environment: Mapping[str, str]) -> Answer:
        if "push" in arguments:
            assert not any("force" in word or word.startswith("+") for word in arguments)
            if len(pushed) < 2:
                pushed.append(f"note-{len(pushed)}")
                person_pushes(server, tmp_path / "ana", pushed[-1])
        return call_git(arguments, text, environment)

    assert put(server, git=slow_git)["tries"] == 3
    assert git(server, "ls-tree", "-r", "--name-only", "status").split() == ["a/b.md", "note-0", "note-1"]
    assert git(server, "show", "status:a/b.md") == "text"


def test_others_that_are_always_faster_are_said(server: Path):
    def late(arguments: Sequence[str], text: str, environment: Mapping[str, str]) -> Answer:
        return (
            Answer(1, "", "! [rejected] (fetch first)")
            if "push" in arguments
            else call_git(arguments, text, environment)
        )

    slept: list[float] = []
    with pytest.raises(PublishError, match="others pushed to status before each of 6 tries"):
        put(server, git=late, sleep=slept.append)
    assert slept == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_refusal_for_another_reason_is_not_tried_again(server: Path):
    hook = server / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho protected >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PublishError, match=r"does not take a push to status: .*protected"):
        put(server)


def test_an_address_that_cannot_be_reached_is_no_empty_branch(tmp_path: Path):
    with pytest.raises(PublishError, match="cannot be read"):
        put(tmp_path / "nowhere.git")


def test_a_password_in_the_address_is_not_told():
    def refuse(arguments: Sequence[str], text: str, environment: Mapping[str, str]) -> Answer:
        if "ls-remote" in arguments:
            return Answer(128, "", "fatal: unable to access 'https://bot:secret@git.example.org/runs.git'")
        return call_git(arguments, text, environment)

    with pytest.raises(PublishError) as told:
        publish("https://bot:secret@git.example.org/runs.git", "status", {"a": "b"}, "m", AUTHOR, print, git=refuse)
    assert "secret" not in str(told.value)
    assert "https://git.example.org/runs.git" in str(told.value)
