# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A clone that stands at one commit, without ever losing anybody's work. Private to this collection.

What git and Ansible's own git module do, and why they are not enough here: ``force: false`` still resets away local
commits, ``force: true`` throws away edits without a word, and neither repairs a clone that was cut off half-way.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
import time
from typing import Callable, Iterator, Mapping, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._claim import Claim
from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    NOT_FOUND,
    TIMED_OUT,
    Finished,
    Run,
    last_line,
)

FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
# A temporary clone or a lock this old belongs to nobody who is still at work.
ABANDONED_CLONE_SECONDS = 24 * 3600
ABANDONED_LOCK_SECONDS = 600
# What is claimed here takes a moment.
CLAIM_SECONDS = 60
CLAIM_WAIT_SECONDS = 300
LOCK_WAIT_SECONDS = 60

# Git must neither ask on a terminal nor follow the variables of an enclosing git command.
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "GCM_INTERACTIVE": "never"}


class GitProblem(Exception):
    """Why a repository cannot be put at its pin; the text is a sentence for the user."""


class Pin(NamedTuple):
    """Which commit of which repository belongs where. ``path`` is absolute, ``commit`` has 40 digits."""

    name: str
    url: str
    commit: str
    path: str


class Standing(NamedTuple):
    """What was found at a path: nothing, something half-made, or a clone with its commit and edits."""

    kind: str  # absent | half-made | foreign | clone
    commit: str
    url: str
    edited: list[str]
    empty_handed: bool  # half-made only: nothing in it that somebody could miss
    under_way: bool = False  # a clean clone was being moved to another commit when that was cut off, or still is


class Outcome(NamedTuple):
    """What was done: ``action`` is unchanged, cloned, repaired, moved or relinked."""

    action: str
    before: dict[str, str | None]
    after: dict[str, str | None]
    set_aside: str | None

    @property
    def changed(self) -> bool:
        return self.action != "unchanged"


def pin_problem(pin: Pin) -> str | None:
    """Return the sentence that says what is wrong with the wish itself, or None."""
    setting = "workspace_repositories[{0}]".format(pin.name or "?")
    if not FULL_COMMIT.fullmatch(pin.commit):
        return (
            "{0}.commit is {1!r}: give the full commit id of 40 digits (0-9, a-f); short ids, tags and branches can"
            " come to mean something else.".format(setting, pin.commit)
        )
    if not pin.url or pin.url.startswith("-") or any(character.isspace() for character in pin.url):
        return "{0}.url is {1!r}: give the address that 'git clone' takes, without blanks.".format(setting, pin.url)
    if not os.path.isabs(pin.path) or os.path.normpath(pin.path) != pin.path:
        return "{0}.path is {1!r}: give an absolute path without '..', '.' or a '/' at its end.".format(
            setting, pin.path
        )
    return None


def same_address(one: str, other: str) -> bool:
    """Tell whether two addresses mean the same repository, but for a trailing slash or ``.git``."""

    def plain(address: str) -> str:
        stripped = address.rstrip("/")
        return stripped[: -len(".git")] if stripped.endswith(".git") else stripped

    return plain(one) == plain(other)


class PinnedClone:
    """Looks at one path and brings it to its pin. Everything outside comes in through the constructor."""

    def __init__(
        self,
        run: Run,
        environment: Mapping[str, str],
        discard: bool = False,
        timeout: float = 1800,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run = run
        self._environment = dict(environment)
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            self._environment.pop(name, None)
        self._environment.update(_QUIET)
        self._discard = discard
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self, path: str) -> Standing:
        """Say what stands at the path, without changing anything and without the network.

        :raises GitProblem: git is missing or refuses to read the clone (for example because it belongs to someone
            else).
        """
        if not os.path.lexists(path):
            return Standing("absent", "", "", [], True)
        if not os.path.isdir(path):
            raise GitProblem("{0} is a file where a clone should be: move it away or choose another path.".format(path))
        content = [entry for entry in os.listdir(path) if entry != ".git"]
        if not os.path.exists(os.path.join(path, ".git")):
            return Standing("foreign" if content else "absent", "", "", [], not content)
        # Without a HEAD, git would look further up and answer for a repository that happens to lie above.
        head = self._git(path, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if "dubious ownership" in head.err:
            raise GitProblem(
                "git does not trust {0} because it belongs to another user: use a path of your own, or run 'git config"
                " --global --add safe.directory {0}' on the login node.".format(path)
            )
        if head.code == NOT_FOUND:
            raise GitProblem(
                "There is no 'git' on this host: install it, or add the environment module that brings it to"
                " dgxc_environment_modules."
            )
        if head.code != 0 or not os.path.exists(os.path.join(path, ".git", "index")):
            return Standing("half-made", head.out.strip(), "", [], not content and not self._has_references(path))
        url = self._git(path, "config", "--get", "remote.origin.url").out.strip()
        return Standing("clone", head.out.strip(), url, self._edited(path), False, os.path.exists(_marker(path)))

    def _has_references(self, path: str) -> bool:
        listing = self._git(path, "for-each-ref", "--count=1")
        return listing.code == 0 and bool(listing.out.strip())

    def _edited(self, path: str) -> list[str]:
        """Return the tracked files that differ from HEAD. New files of other names are nobody's loss and left out."""
        status = self._git(
            path, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--no-renames", "-z"
        )
        if status.code != 0:
            raise GitProblem("'git status' fails in {0}: {1}.".format(path, last_line(status.err)))
        return [entry[3:] for entry in status.out.split("\0") if entry]

    def _local_commits(self, path: str) -> int:
        """Count the commits of HEAD that no remote branch and no tag holds."""
        answer = self._git(path, "rev-list", "--count", "HEAD", "--not", "--remotes", "--tags")
        return int(answer.out.strip() or 0) if answer.code == 0 else 0

    # --- deciding ----------------------------------------------------------------------------------------------------

    def ensure(self, pin: Pin, check_mode: bool = False) -> Outcome:
        """Bring the path to the pin and prove it. In check mode, say what would be done by the same decisions.

        :raises GitProblem: it cannot be done, or would cost somebody's work.
        """
        standing = self.look(pin.path)
        before: dict[str, str | None] = {
            "path": pin.path if standing.kind != "absent" else None,
            "commit": standing.commit or None,
            "url": standing.url or None,
        }
        action = self._decide(pin, standing)
        after: dict[str, str | None] = (
            dict(before)
            if action == "unchanged"
            else {
                "path": pin.path,
                "commit": pin.commit,
                "url": pin.url,
            }
        )
        if action == "unchanged" or check_mode:
            return Outcome(action, before, after, None)
        set_aside = None
        if standing.kind != "clone":
            set_aside = self._clone(pin)
        else:
            self._move(pin)
        self._prove(pin)
        return Outcome(action, before, after, set_aside)

    def _decide(self, pin: Pin, standing: Standing) -> str:
        if standing.kind == "absent":
            return "cloned"
        if standing.kind == "half-made":
            return "repaired"
        if standing.kind == "foreign":
            raise GitProblem(
                "{0} holds files but is not a clone: move the folder away or choose another path for {1}.".format(
                    pin.path, pin.name
                )
            )
        if standing.under_way:
            # The edits are git's own: the tree was clean when the marker was written.
            return "repaired"
        if standing.edited and not self._discard:
            raise GitProblem(
                "{0} has local changes ({1}), so what runs would not be commit {2}: keep them with 'git -C {0} stash'"
                " or 'git -C {0} diff > my.patch', or give them up with workspace_discard_local_changes: true.".format(
                    pin.path, _some(standing.edited), pin.commit[:12]
                )
            )
        here = standing.commit == pin.commit
        linked = same_address(standing.url, pin.url)
        if here and not standing.edited:
            return "unchanged" if linked else "relinked"
        if not here and not self._discard:
            count = self._local_commits(pin.path)
            if count:
                raise GitProblem(
                    "{0} stands on {1} local commit{2} that no remote has: push or keep them with 'git -C {0} branch"
                    " mine', then move the folder away or check out a commit of the remote, or leave them behind with"
                    " workspace_discard_local_changes: true.".format(pin.path, count, "" if count == 1 else "s")
                )
            if not linked:
                raise GitProblem(
                    "{0} is a clone of {1}, not of {2}: move the folder away, choose another path for {3}, or turn the"
                    " clone over with workspace_discard_local_changes: true.".format(
                        pin.path, standing.url or "no remote", pin.url, pin.name
                    )
                )
        return "moved"

    # --- doing -------------------------------------------------------------------------------------------------------

    def _clone(self, pin: Pin) -> str | None:
        """Clone beside the path and rename: at no moment does a half-made clone carry the name that others look for."""
        parent = os.path.dirname(pin.path)
        os.makedirs(parent, exist_ok=True)
        self._sweep(pin.path)
        temporary = tempfile.mkdtemp(prefix=_temporary_prefix(pin.path), dir=parent)
        try:
            fresh = os.path.join(temporary, "clone")
            self._must(
                pin,
                None,
                "-c",
                "http.lowSpeedLimit=1000",
                "-c",
                "http.lowSpeedTime=60",
                "clone",
                "--progress",
                "--no-checkout",
                "--origin",
                "origin",
                "--",
                pin.url,
                fresh,
            )
            self._fetch_if_missing(pin, fresh)
            self._must(pin, fresh, "checkout", "--quiet", "--detach", pin.commit)
            return self._put_in_place(pin, fresh)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _put_in_place(self, pin: Pin, fresh: str) -> str | None:
        """Rename the new clone to its path, unless somebody else was faster and theirs is as good."""
        with self._claim(pin.path):
            # What was half-made before the clone began may have been repaired since.
            standing = self.look(pin.path)
            if standing.kind == "clone":
                return None
            set_aside = None
            if standing.kind == "half-made":
                now = time.strftime("%Y%m%dT%H%M%S", time.gmtime(self._clock()))
                set_aside = "{0}.interrupted-{1}".format(pin.path, now)
                os.rename(pin.path, set_aside)
            os.rename(fresh, pin.path)
        if set_aside and standing.empty_handed:
            shutil.rmtree(set_aside, ignore_errors=True)
            return None
        return set_aside

    @contextlib.contextmanager
    def _claim(self, path: str) -> Iterator[None]:
        """Let one at a time put a clone in place, which takes a moment."""
        claim = Claim(path, CLAIM_SECONDS, sleep=self._sleep)
        try:
            claim.take(CLAIM_WAIT_SECONDS, lambda: False)
        except TimeoutError as problem:
            raise GitProblem(str(problem)) from None
        try:
            yield
        finally:
            claim.release()

    def _move(self, pin: Pin) -> None:
        """Move a clone to the pin. A marker says that any edits seen meanwhile are git's, should this be cut off."""
        self._wait_for_lock(pin.path)
        # Whoever held the lock may have done the work, or may have been a person with an editor.
        standing = self.look(pin.path)
        if self._decide(pin, standing) == "unchanged":
            return
        if not same_address(standing.url, pin.url):
            self._must(pin, pin.path, "remote", "set-url" if standing.url else "add", "origin", pin.url)
        if standing.commit == pin.commit and not standing.edited and not standing.under_way:
            return
        self._fetch_if_missing(pin, pin.path)
        with open(_marker(pin.path), "w", encoding="utf-8") as marker:
            marker.write(pin.commit + "\n")
        if standing.edited:
            self._must(pin, pin.path, "reset", "--quiet", "--hard")
        # A branch keeps its commits: only HEAD moves.
        self._must(pin, pin.path, "checkout", "--quiet", "--detach", pin.commit)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_marker(pin.path))

    def _fetch_if_missing(self, pin: Pin, folder: str) -> None:
        if self._git(folder, "cat-file", "-e", pin.commit + "^{commit}").code == 0:
            return
        limits = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
        self._git(folder, *limits, "fetch", "--progress", "--tags", "origin")
        if self._git(folder, "cat-file", "-e", pin.commit + "^{commit}").code == 0:
            return
        # Not on any branch: ask for it by name, and hold it by a reference that counts as the remote's.
        kept = "+{0}:refs/remotes/origin/pinned-{1}".format(pin.commit, pin.commit[:12])
        answer = self._git(folder, *limits, "fetch", "--progress", "origin", kept)
        if answer.code != 0:
            raise GitProblem(
                "{0} has no commit {1} that can be fetched ({2}): correct the commit or the url of {3}.".format(
                    pin.url, pin.commit, last_line(answer.err) or "no message", pin.name
                )
            )

    def _wait_for_lock(self, path: str) -> None:
        """Give another git at work its time; take away the lock that a dead one left."""
        lock = os.path.join(path, ".git", "index.lock")
        waited = 0.0
        while True:
            try:
                age = self._clock() - os.stat(lock).st_mtime
            except OSError:
                return
            if age > ABANDONED_LOCK_SECONDS:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(lock)
                return
            if waited >= LOCK_WAIT_SECONDS:
                raise GitProblem(
                    "Another git seems to be at work in {0}: its lock {1} is {2:.0f} s old. Run again when it is done;"
                    " if no git runs there, remove that file.".format(path, lock, age)
                )
            self._sleep(1)
            waited += 1

    def _sweep(self, path: str) -> None:
        """Remove the temporary clones that killed runs left behind, once they are old enough to be nobody's."""
        parent = os.path.dirname(path)
        for entry in os.listdir(parent):
            candidate = os.path.join(parent, entry)
            if entry.startswith(_temporary_prefix(path, host=False)):
                try:
                    if self._clock() - os.stat(candidate).st_mtime > ABANDONED_CLONE_SECONDS:
                        shutil.rmtree(candidate, ignore_errors=True)
                except OSError:
                    continue

    def _prove(self, pin: Pin) -> None:
        found = self.look(pin.path)
        if found.kind != "clone" or found.commit != pin.commit:
            raise GitProblem(
                "{0} should stand at {1} but stands at {2}: somebody else moved it meanwhile; run again.".format(
                    pin.path, pin.commit, found.commit or "no commit"
                )
            )
        if found.edited:
            raise GitProblem(
                "{0} differs from commit {1} straight after its checkout ({2}): look at the filters and line endings"
                " that git applies on this host ('git -C {0}"
                " status').".format(pin.path, pin.commit[:12], _some(found.edited))
            )

    # --- git ---------------------------------------------------------------------------------------------------------

    def _git(self, folder: str | None, *arguments: str) -> Finished:
        environment = self._environment
        place: list[str] = []
        if folder is not None:
            place = ["-C", folder]
            # The ceiling keeps git from answering for a repository further up.
            environment = dict(environment, GIT_CEILING_DIRECTORIES=os.path.dirname(folder))
        return self._run(["git", *place, *arguments], environment, None, self._timeout)

    def _must(self, pin: Pin, folder: str | None, *arguments: str) -> None:
        answer = self._git(folder, *arguments)
        if answer.code == 0:
            return
        if answer.code == NOT_FOUND:
            raise GitProblem(
                "There is no 'git' on this host: install it, or add the environment module that brings it to"
                " dgxc_environment_modules."
            )
        verb = next(word for word in arguments if word in ("clone", "checkout", "reset", "remote"))
        if answer.code == TIMED_OUT:
            raise GitProblem(
                "'git {0}' of {1} took longer than {2:.0f} s: check the network of the login node, or raise"
                " workspace_timeout.".format(verb, pin.url, self._timeout)
            )
        if "dubious ownership" in answer.err:
            raise GitProblem(
                "'git {0}' refuses {1}, because the repository belongs to another user: let your user on the login node"
                " own it, or run there 'git config --global --add safe.directory <its folder>'.".format(verb, pin.url)
            )
        raise GitProblem(
            "'git {0}' for {1} ({2}) failed: {3}.".format(verb, pin.path, pin.url, _reason(answer.err) or "no message")
        )


def _marker(path: str) -> str:
    return os.path.join(path, ".git", "dgxc-workloads-moving")


def _temporary_prefix(path: str, host: bool = True) -> str:
    prefix = ".{0}.clone-".format(os.path.basename(path))
    return prefix + "{0}-".format(socket.gethostname().split(".")[0]) if host else prefix


def _reason(text: str) -> str:
    """Return git's own first complaint: the lines after it explain, the last one is often only advice."""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("fatal:", "error:")):
            return stripped.rstrip(".")
    return last_line(text).rstrip(".")


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else "{0} and {1} more".format(shown, len(names) - most)
