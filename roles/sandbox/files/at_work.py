# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let one playbook at a time make, repair or remove a sandbox.

    at_work.py take|leave FILE

The file names the playbook that is at work, by its process and when that was started; of one that has ended it says
nothing any more, however it ended. Fails with a sentence while another one is at work. `leave` takes the file away.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from pathlib import Path
from typing import IO


def stat_of(process: int) -> tuple[int, str]:
    """Parent of a process and when it was started, in the kernel's count; (0, "") if there is none."""
    try:
        # The program's name, in parentheses, may hold blanks.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, ""
    return (0, "") if fields[0] in ("Z", "X") else (int(fields[1]), fields[19])


def playbook() -> int:
    """The outermost process above this one that is an ansible-playbook; 0 if there is none."""
    found, process = 0, os.getppid()
    while process > 1:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            if any(os.path.basename(word) == b"ansible-playbook" for word in words[:3]):
                found = process
        process = stat_of(process)[0]
    return found


def locked(path: Path) -> IO[str]:
    """The file, locked for the moment in which it is read and written, not for the work."""
    while True:
        stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+")
        fcntl.flock(stream, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == os.fstat(stream.fileno()).st_ino:
                return stream
        # Who had it took the file away.
        stream.close()


def main() -> None:
    """Take or leave."""
    what, path = sys.argv[1], Path(sys.argv[2])
    mine = playbook()
    if not mine:
        # Somebody calls the role in another way, who then has to see to it.
        return
    with locked(path) as stream:
        try:
            there = json.load(stream)
        except ValueError:
            there = {}
        other = int(there.get("process") or 0)
        if other not in (0, mine) and stat_of(other)[1] == there.get("started"):
            raise SystemExit(
                f"Another playbook (process {other}) is at work on the sandbox: wait for it, or end it. {path} names"
                " it."
            )
        if what == "leave":
            path.unlink()
            return
        stream.seek(0)
        stream.truncate()
        json.dump({"process": mine, "started": stat_of(mine)[1]}, stream)


if __name__ == "__main__":
    main()
