# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put files on a Git branch that people and other reconcilers push to as well.

This file is private to the collection. There is no checkout that could conflict: each try takes the branch as it is
now, replaces these files in its tree, commits on top, and pushes. Whoever pushes in between makes the push fail, and
the next try begins with what they pushed. Nothing is ever forced.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

#: What Git says when somebody else was faster; any other failure of a push is not tried again.
_FASTER = ("fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref", "incorrect old value")


class PublishError(Exception):
    """The branch could not be written; the message says why."""


class Answer(NamedTuple):
    """What a call of Git said."""

    code: int
    out: str
    err: str


Git = Callable[[Sequence[str], str, Mapping[str, str]], Answer]


def call_git(arguments: Sequence[str], text: str, environment: Mapping[str, str]) -> Answer:
    """Call Git, which never asks at a terminal."""
    settings = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **environment}
    try:
        done = subprocess.run(
            ["git", *arguments], input=text, text=True, capture_output=True, timeout=300, check=False,
            env={**os.environ, **settings},
        )  # fmt: skip
    except FileNotFoundError:
        raise PublishError("git is not installed on this machine.") from None
    except subprocess.TimeoutExpired:
        return Answer(124, "", "no answer within 300 s")
    return Answer(done.returncode, done.stdout.strip(), done.stderr.strip())


def publish(
    repository: str,
    branch: str,
    files: Mapping[str, str],
    message: str,
    author: tuple[str, str],
    sleep: Callable[[float], None],
    check_mode: bool = False,
    git: Git = call_git,
    tries: int = 6,
) -> dict[str, Any]:
    """Make the files of a branch so. Returns `changed`, `commit` (of the branch after it) and `tries`.

    :param author: name and mail address of the commit.
    :raises PublishError: when the repository cannot be reached or does not take the push.
    """
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        _ask(git, ["init", "--quiet", "--bare", folder])
        for attempt in range(1, tries + 1):
            tip = _fetch(git, folder, repository, branch)
            tree = _tree(git, folder, tip, files)
            if tip and _ask(git, ["-C", folder, "rev-parse", f"{tip}^{{tree}}"]) == tree:
                return {"changed": False, "commit": tip, "tries": attempt}
            if check_mode:
                return {"changed": True, "commit": tip, "tries": attempt}
            commit = _commit(git, folder, tree, tip, message, author)
            answer = git(["-C", folder, "push", "--quiet", repository, f"{commit}:refs/heads/{branch}"], "", {})
            if answer.code == 0:
                return {"changed": True, "commit": commit, "tries": attempt}
            if not any(words in answer.err for words in _FASTER):
                raise PublishError(
                    f"{_shown(repository)} does not take a push to {branch}: {_said(answer, repository)}"
                )
            sleep(min(0.5 * 2.0**attempt, 8.0))
    raise PublishError(f"others pushed to {branch} before each of {tries} tries; the next call tries again.")


def _fetch(git: Git, folder: str, repository: str, branch: str) -> str:
    """The commit that the branch is at, with its files at hand; '' when there is no such branch yet."""
    # A listing tells an absent branch from a repository that cannot be reached.
    listing = git(["-C", folder, "ls-remote", "--heads", repository, f"refs/heads/{branch}"], "", {})
    if listing.code != 0:
        raise PublishError(f"{_shown(repository)} cannot be read: {_said(listing, repository)}")
    if not listing.out:
        return ""
    refspec = f"+refs/heads/{branch}:refs/heads/tip"
    fetched = git(["-C", folder, "fetch", "--quiet", "--no-tags", "--depth=1", repository, refspec], "", {})
    if fetched.code != 0:
        raise PublishError(f"{branch} of {_shown(repository)} cannot be fetched: {_said(fetched, repository)}")
    return _ask(git, ["-C", folder, "rev-parse", "refs/heads/tip"])


def _tree(git: Git, folder: str, tip: str, files: Mapping[str, str]) -> str:
    """The tree of the branch with these files in it."""
    index = {"GIT_INDEX_FILE": os.path.join(folder, "index-of-this-try")}
    _ask(git, ["-C", folder, "read-tree", tip] if tip else ["-C", folder, "read-tree", "--empty"], "", index)
    for path, content in sorted(files.items()):
        blob = _ask(git, ["-C", folder, "hash-object", "-w", "--stdin"], content)
        _ask(git, ["-C", folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}"], "", index)
    return _ask(git, ["-C", folder, "write-tree"], "", index)


def _commit(git: Git, folder: str, tree: str, tip: str, message: str, author: tuple[str, str]) -> str:
    name, mail = author
    people = {
        "GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail,
    }  # fmt: skip
    return _ask(git, ["-C", folder, "commit-tree", tree, *(["-p", tip] if tip else []), "-F", "-"], message, people)


def _ask(git: Git, arguments: Sequence[str], text: str = "", environment: Mapping[str, str] | None = None) -> str:
    answer = git(arguments, text, environment or {})
    if answer.code != 0:
        raise PublishError(f"git {' '.join(arguments[:4])}: {answer.err or answer.out}")
    return answer.out


def _said(answer: Answer, repository: str) -> str:
    """What Git said, without a password that stands in the address."""
    return (answer.err or answer.out or "no reason given").replace(repository, _shown(repository))


def _shown(repository: str) -> str:
    """The address without what stands before its `@`."""
    scheme, separator, rest = repository.partition("://")
    if not separator:
        return repository
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"
