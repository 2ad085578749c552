# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The right to make one file or folder on shared storage, held by one process at a time. Private to this collection.

No lock of the kernel is used, for Lustre may lack them. A claim is a folder, prepared under another name and renamed,
so that it is there as a whole or not at all. Its holder touches a file in it every few seconds. It is broken only when
it is provably stale: on the holder's own machine when that process is gone, elsewhere when nothing in it has moved for
a time that the waiting side measures by its own clock, so that clocks need not agree.

A holder that was only frozen may wake up after its claim was broken. So it asks :meth:`Claim.held` before it renames
what it made, and everybody writes under a name of his own: the worst case is that work is done twice.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
import time
import uuid
from typing import Any, Callable

from ansible_collections.dgxc.workloads.plugins.module_utils import _files

BEAT_SECONDS = 5.0
STALE_SECONDS = 120.0
_OWNER = "owner.json"
_BEAT = "beat"


def this_process() -> dict[str, Any]:
    """Return what tells a process from all others on this machine, after it has ended too."""
    return {"kernel": _read("/proc/sys/kernel/random/boot_id"), "namespace": _link("/proc/self/ns/pid"),
            "pid": os.getpid(), "started": _started(os.getpid())}  # fmt: skip


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process was started, in the kernel's count; '' if there is none of that number."""
    # The program's name, in parentheses, may hold blanks.
    fields = _read("/proc/{0}/stat".format(pid)).rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else ""


def gone(owner: dict[str, Any]) -> bool:
    """Tell whether the holder was a process of this very machine that has ended."""
    here = this_process()
    if not owner.get("pid") or not here["kernel"]:
        return False
    if (owner.get("kernel"), owner.get("namespace")) != (here["kernel"], here["namespace"]):
        return False
    pid = int(owner["pid"])
    started = _started(pid)
    return started != owner.get("started") and (bool(started) or not _hidden(pid))


def _hidden(pid: int) -> bool:
    """Tell whether there is a process of which /proc shows us nothing, as where it is mounted with hidepid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


class Claim:
    """A claim on `target`.

    :param by_process: whether this process holds it. Without, the claim outlives the process, which hands the token on.
    """

    def __init__(
        self,
        target: str,
        stale_seconds: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        by_process: bool = True,
    ) -> None:
        folder, name = os.path.split(target)
        self.path = os.path.join(folder, ".{0}.claim".format(name))
        self.token = uuid.uuid4().hex
        self._target = target
        self._stale_seconds = stale_seconds
        self._clock, self._sleep = clock, sleep
        self._by_process = by_process
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        # (what was seen last, since when)
        self._seen: tuple[Any, float] | None = None
        # Whom `stale` has found gone: only that one's claim is broken.
        self._judged: Any = None

    @property
    def beat(self) -> str:
        """The file that a holder touches."""
        return os.path.join(self.path, _BEAT)

    def owner(self) -> dict[str, Any]:
        """Return what the present holder wrote, or an empty dictionary."""
        return _files.read_json_object(os.path.join(self.path, _OWNER)) or {}

    def held(self) -> bool:
        """Tell whether the claim is still ours."""
        return self.owner().get("token") == self.token

    def lost(self) -> str:
        """Return a sentence if the claim is not ours any more, else ''."""
        if self.held():
            return ""
        return "{0} was claimed by somebody else, for this process did not answer for too long: repeat.".format(
            self._target
        )

    def take(self, wait_seconds: float, enough: Callable[[], bool]) -> bool:
        """Take the claim, wait for it, or find that it is not needed any more.

        :param enough: asked while somebody else holds it, whether what we want is there.
        :returns: True if it is ours, False if `enough()` said so.
        :raises TimeoutError: somebody else has held it for `wait_seconds`.
        """
        deadline = self._clock() + wait_seconds
        while not self._create():
            if enough():
                return False
            if self.stale():
                self._break()
                continue
            if self._clock() >= deadline:
                raise TimeoutError(
                    "{0} is being made by {1} (process {2}) for longer than {3:.0f} seconds: wait for it, or end it and"
                    " remove {4}.".format(
                        self._target,
                        self.owner().get("host", "somebody"),
                        self.owner().get("pid", "unknown"),
                        wait_seconds,
                        self.path,
                    )
                )
            self._sleep(min(1.0, max(0.05, wait_seconds / 50)))
        return True

    def _create(self) -> bool:
        fresh = "{0}.{1}".format(self.path, self.token)
        owner: dict[str, Any] = {"token": self.token, "host": socket.gethostname(), "time": time.time()}
        if self._by_process:
            owner.update(this_process())
        os.mkdir(fresh, 0o755)
        try:
            _files.write_text(os.path.join(fresh, _OWNER), _files.pretty_json(owner), lasting=False)
            _files.write_text(os.path.join(fresh, _BEAT), "", lasting=False)
            # A folder with something in it is not replaced.
            os.rename(fresh, self.path)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        if self._by_process:
            self.keep()
        return True

    def keep(self) -> None:
        """Show from now on that the holder works, until the claim is released."""
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                os.utime(self.beat)
            except OSError:
                # Broken by somebody, or a file system that is away for a moment; held() tells in the end.
                continue

    def stale(self) -> bool:
        """Tell whether the present holder is provably gone."""
        owner = self.owner()
        self._judged = owner.get("token")
        if owner and gone(owner):
            return True
        try:
            seen: Any = (owner.get("token"), os.stat(self.beat).st_mtime_ns)
        except OSError:
            seen = (owner.get("token"), 0)
        now = self._clock()
        if self._seen is None or self._seen[0] != seen:
            self._seen = (seen, now)
            return False
        return now - self._seen[1] >= self._stale_seconds

    def _break(self) -> None:
        """Take the claim away that was judged, and no other that stands there by now."""
        if self.owner().get("token") != self._judged:
            return
        aside = "{0}.stale-{1}".format(self.path, uuid.uuid4().hex)
        try:
            os.rename(self.path, aside)
        except OSError:
            return
        moved = _files.read_json_object(os.path.join(aside, _OWNER)) or {}
        if moved.get("token") != self._judged:
            # Somebody broke it first and has a claim of his own by now, which is put back.
            try:
                os.rename(aside, self.path)
                return
            except OSError:
                pass
        shutil.rmtree(aside, ignore_errors=True)
        self._seen = None

    def release(self) -> None:
        """Give the claim up, if it is still ours."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
        if not self.held():
            return
        aside = "{0}.done-{1}".format(self.path, self.token)
        try:
            os.rename(self.path, aside)
        except OSError:
            return
        shutil.rmtree(aside, ignore_errors=True)
