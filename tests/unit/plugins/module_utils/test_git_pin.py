# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clones at their pins, with a real git and repositories of a few commits."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._git_pin import (
    GitProblem,
    Pin,
    PinnedClone,
    pin_problem,
    same_address,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished, run

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "someone",
    "GIT_AUTHOR_EMAIL": "someone@example.com",
    "GIT_COMMITTER_NAME": "someone",
    "GIT_COMMITTER_EMAIL": "someone@example.com",
}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], env=ENVIRONMENT, check=True, capture_output=True, text=True
    ).stdout.strip()


class Origin:
    """A repository with three commits on a branch, and one that no branch holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch", "main")
        git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
        self.commits = [self.commit(str(number)) for number in range(3)]
        git(folder, "checkout", "--quiet", "--detach")
        self.aside = self.commit("aside")
        git(folder, "update-ref", "refs/hidden/aside", self.aside)
        git(folder, "checkout", "--quiet", "main")

    def commit(self, text: str) -> str:
        for name in ("one.txt", "two.txt"):
            (self.folder / name).write_text(f"{name} {text}\n" * 50)
        git(self.folder, "add", ".")
        git(self.folder, "commit", "--quiet", "--message", text)
        return git(self.folder, "rev-parse", "HEAD")


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "clone"


def wish(origin: Origin, path: Path, commit: str | None = None) -> Pin:
    return Pin("launcher", f"file://{origin.folder}", commit or origin.commits[1], str(path))


def clone(discard: bool = False, now: float | None = None, slept: list[float] | None = None) -> PinnedClone:
    return PinnedClone(
        run,
        ENVIRONMENT,
        discard=discard,
        clock=(lambda: now) if now is not None else time.time,
        sleep=(slept if slept is not None else []).append,
    )


def test_a_clone_is_made_at_the_pin_and_then_left_alone(origin: Origin, path: Path) -> None:
    outcome = clone().ensure(wish(origin, path))
    assert (outcome.action, outcome.changed) == ("cloned", True)
    assert outcome.before["commit"] is None
    assert outcome.after["commit"] == origin.commits[1]
    assert git(path, "rev-parse", "HEAD") == origin.commits[1]
    assert [entry.name for entry in path.parent.iterdir()] == ["clone"]
    # No network at all: the origin may be gone.
    shutil.rmtree(origin.folder)
    again = clone().ensure(wish(origin, path))
    assert (again.action, again.changed, again.before) == ("unchanged", False, again.after)


def test_an_unchanged_clone_costs_only_local_commands(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    asked = []

    def listening(command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float) -> Finished:
        asked.append([word for word in command if not word.startswith("-")])
        return run(command, environment, folder, limit)

    PinnedClone(listening, ENVIRONMENT).ensure(wish(origin, path))
    assert len(asked) == 3
    assert not any(word in command for command in asked for word in ("fetch", "clone", "ls-remote", "checkout"))


def test_check_mode_says_and_does_not(origin: Origin, path: Path) -> None:
    outcome = clone().ensure(wish(origin, path), check_mode=True)
    assert outcome.action == "cloned"
    assert not path.parent.exists()
    clone().ensure(wish(origin, path))
    moved = clone().ensure(wish(origin, path, origin.commits[2]), check_mode=True)
    assert (moved.action, moved.after["commit"]) == ("moved", origin.commits[2])
    assert git(path, "rev-parse", "HEAD") == origin.commits[1]


def test_the_clone_moves_to_a_new_pin_and_back(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    later = origin.commit("later")
    for commit in (later, origin.commits[0]):
        assert clone().ensure(wish(origin, path, commit)).action == "moved"
        assert git(path, "rev-parse", "HEAD") == commit
    assert not (path / ".git" / "dgxc-workloads-moving").exists()


def test_a_commit_that_no_branch_holds_is_fetched_by_its_name(origin: Origin, path: Path) -> None:
    assert clone().ensure(wish(origin, path, origin.aside)).action == "cloned"
    # It counts as the remote's, not as a local commit that could be lost.
    assert clone().ensure(wish(origin, path)).action == "moved"


def test_a_commit_that_does_not_exist_is_named_and_leaves_nothing(origin: Origin, path: Path) -> None:
    with pytest.raises(GitProblem, match=f"no commit {'0' * 40}.*correct the commit or the url of launcher"):
        clone().ensure(wish(origin, path, "0" * 40))
    assert list(path.parent.iterdir()) == []


def test_an_address_that_does_not_answer_is_named(origin: Origin, path: Path) -> None:
    shutil.rmtree(origin.folder)
    with pytest.raises(GitProblem, match=r"'git clone' for .*/clone .*origin.*failed: fatal: .*"):
        clone().ensure(wish(origin, path))
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("commit_index", [1, 2])
def test_local_changes_are_refused_and_kept(origin: Origin, path: Path, commit_index: int) -> None:
    clone().ensure(wish(origin, path))
    (path / "one.txt").write_text("edited")
    pin = wish(origin, path, origin.commits[commit_index])
    with pytest.raises(GitProblem, match=r"has local changes \(one.txt\).*workspace_discard_local_changes: true"):
        clone().ensure(pin)
    assert (path / "one.txt").read_text() == "edited"
    assert clone(discard=True).ensure(pin).action == "moved"
    assert git(path, "status", "--porcelain") == ""
    assert git(path, "rev-parse", "HEAD") == pin.commit


def test_new_files_are_left_alone(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    (path / "mine.yaml").write_text("mine")
    assert clone().ensure(wish(origin, path)).action == "unchanged"
    assert clone().ensure(wish(origin, path, origin.commits[2])).action == "moved"
    assert (path / "mine.yaml").read_text() == "mine"


def test_local_commits_are_refused_and_never_lost(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    git(path, "checkout", "--quiet", "-b", "mine")
    (path / "one.txt").write_text("mine")
    git(path, "commit", "--quiet", "--all", "--message", "mine")
    mine = git(path, "rev-parse", "HEAD")
    with pytest.raises(GitProblem, match=r"1 local commit that no remote has.*workspace_discard_local_changes: true"):
        clone().ensure(wish(origin, path))
    assert git(path, "rev-parse", "HEAD") == mine
    assert clone(discard=True).ensure(wish(origin, path)).action == "moved"
    assert git(path, "rev-parse", "mine") == mine


def test_another_origin_is_noticed(origin: Origin, path: Path, tmp_path: Path) -> None:
    clone().ensure(wish(origin, path))
    mirror = Pin("launcher", f"file://{tmp_path}/mirror", origin.commits[1], str(path))
    # The commit is the same, so the content is: only the address is put right.
    assert clone().ensure(mirror).action == "relinked"
    assert git(path, "remote", "get-url", "origin") == mirror.url
    with pytest.raises(GitProblem, match=r"is a clone of file://.*/mirror, not of file://.*/origin"):
        clone().ensure(wish(origin, path, origin.commits[2]))


def test_a_half_made_clone_with_nothing_in_it_is_made_again(origin: Origin, path: Path) -> None:
    (path / ".git" / "objects").mkdir(parents=True)
    outcome = clone().ensure(wish(origin, path))
    assert (outcome.action, outcome.set_aside) == ("repaired", None)
    assert git(path, "rev-parse", "HEAD") == origin.commits[1]
    assert [entry.name for entry in path.parent.iterdir()] == ["clone"]


def test_a_clone_cut_off_in_its_checkout_is_set_aside_with_all_that_is_in_it(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    (path / ".git" / "index").rename(path / ".git" / "index.lock")
    (path / "one.txt").write_text("one.txt 1\nhalf of")
    (path / "precious").write_text("mine")
    outcome = clone().ensure(wish(origin, path))
    assert outcome.action == "repaired"
    assert outcome.set_aside is not None
    assert (Path(outcome.set_aside) / "precious").read_text() == "mine"
    assert git(path, "status", "--porcelain") == ""


def test_a_repository_further_up_is_not_taken_for_the_clone(origin: Origin, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    path = tmp_path / "clone"
    (path / ".git").mkdir(parents=True)
    assert clone().look(str(path)).kind == "half-made"
    (path / ".git").rmdir()
    (path / "file").touch()
    with pytest.raises(GitProblem, match="holds files but is not a clone"):
        clone().ensure(wish(origin, path))


def test_an_empty_folder_is_as_good_as_none(origin: Origin, path: Path) -> None:
    path.mkdir(parents=True)
    assert clone().ensure(wish(origin, path)).action == "cloned"


def test_a_move_cut_off_half_way_is_finished(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    # As a killed checkout leaves it: our marker, some files new, HEAD and index old.
    (path / ".git" / "dgxc-workloads-moving").write_text("x")
    (path / "one.txt").write_text("one.txt 2\n" * 50)
    (path / "two.txt").unlink()
    assert clone().ensure(wish(origin, path, origin.commits[2])).action == "repaired"
    assert git(path, "rev-parse", "HEAD") == origin.commits[2]
    assert git(path, "status", "--porcelain") == ""


def test_a_dead_lock_is_removed_and_a_fresh_one_respected(origin: Origin, path: Path) -> None:
    clone().ensure(wish(origin, path))
    lock = path / ".git" / "index.lock"
    lock.touch()
    # Nothing is to be done, so the lock does not matter.
    assert clone().ensure(wish(origin, path)).action == "unchanged"
    slept: list[float] = []
    with pytest.raises(GitProblem, match=r"Another git seems to be at work.*remove that file"):
        clone(slept=slept).ensure(wish(origin, path, origin.commits[2]))
    assert len(slept) == 60
    assert clone(now=lock.stat().st_mtime + 601).ensure(wish(origin, path, origin.commits[2])).action == "moved"


def test_old_temporary_clones_are_swept_and_young_ones_kept(origin: Origin, path: Path) -> None:
    for name in (".clone.clone-host-old", ".clone.clone-host-young", ".other.clone-host-old"):
        (path.parent / name).mkdir(parents=True)
    long_ago = 10_000
    for name in (".clone.clone-host-old", ".other.clone-host-old"):
        os.utime(path.parent / name, (long_ago, long_ago))
    clone().ensure(wish(origin, path))
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        ".clone.clone-host-young",
        ".other.clone-host-old",
        "clone",
    ]


def _ensure(pin: Pin) -> str:
    return PinnedClone(run, ENVIRONMENT).ensure(pin).action


@pytest.mark.parametrize("half_made", [False, True])
def test_several_at_once_do_not_disturb_each_other(origin: Origin, path: Path, half_made: bool) -> None:
    if half_made:
        (path / ".git").mkdir(parents=True)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        actions = pool.map(_ensure, [wish(origin, path)] * 4)
    assert set(actions) <= {"cloned", "repaired", "unchanged"}
    assert git(path, "rev-parse", "HEAD") == origin.commits[1]
    assert [entry.name for entry in path.parent.iterdir()] == ["clone"]


def test_the_claim_of_a_dead_process_is_broken(origin: Origin, path: Path) -> None:
    claim = path.parent / ".clone.claim"
    claim.mkdir(parents=True)
    os.utime(claim, (10_000, 10_000))
    assert clone().ensure(wish(origin, path)).action == "cloned"
    assert not claim.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"commit": "51df3f3"}, "full commit id of 40 digits"),
        ({"commit": "master"}, "full commit id of 40 digits"),
        ({"commit": "A" * 40}, "full commit id of 40 digits"),
        ({"url": ""}, "address that 'git clone' takes"),
        ({"url": "--upload-pack=x"}, "address that 'git clone' takes"),
        ({"url": "a b"}, "address that 'git clone' takes"),
        ({"path": "relative"}, "absolute path"),
        ({"path": "/a/../b"}, "absolute path"),
    ],
)
def test_nonsense_is_told_in_a_sentence(change: dict[str, str], said: str) -> None:
    pin = Pin("launcher", "https://example.com/x", "5" * 40, "/a/b")
    assert pin_problem(pin) is None
    problem = pin_problem(pin._replace(**change))
    assert problem is not None
    assert problem.startswith("workspace_repositories[launcher].")
    assert said in problem


def test_missing_git_is_named(origin: Origin, path: Path) -> None:
    environment = {"PATH": "/nonexistent"}
    with pytest.raises(GitProblem, match="no 'git' on this host"):
        PinnedClone(run, environment).ensure(wish(origin, path))


def test_addresses_are_compared_without_their_endings() -> None:
    assert same_address("https://x/y.git", "https://x/y/")
    assert not same_address("https://x/y", "https://x/z")
