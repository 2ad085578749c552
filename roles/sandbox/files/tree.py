# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the sandbox's folders, files, links and keys as a specification says. Prints what it changed, with differences.

    tree.py [--plan] < specification

The specification is a JSON list. Each entry has a `path`, an `owner` (a user; its group goes with it) and a `mode`, and

    nothing else                          a folder; with "parents", also those above it, for root
    "content"                             a file with this text; "append" names a file whose text follows it
    "link"                                a symbolic link to this
    "command"                             made by this command, unless the path exists

One program for all of them, because some sixty modules of Ansible would take longer than everything else together.
"""

from __future__ import annotations

import difflib
import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

PLAN = "--plan" in sys.argv[1:]


def say(path: Path, what: str) -> None:
    """Report one change."""
    print(f"{path}: {'would be ' if PLAN else ''}{what}")


def set_owner_and_mode(path: Path, entry: dict) -> None:
    """Give a path the owner, the group and the mode of its entry."""
    try:
        account = pwd.getpwnam(entry.get("owner", "root"))
    except KeyError:
        if PLAN:  # the user will be made before
            return
        raise
    mode = int(entry["mode"], 8)
    status = path.lstat()
    if (status.st_uid, status.st_gid) != (account.pw_uid, account.pw_gid):
        say(path, f"given to {account.pw_name}")
        if not PLAN:
            os.chown(path, account.pw_uid, account.pw_gid)
            status = path.lstat()
    if stat.S_IMODE(status.st_mode) != mode:
        say(path, f"given mode {mode:04o}")
        if not PLAN:
            os.chmod(path, mode)


def make_folder(path: Path, parents: bool) -> None:
    """Make one folder."""
    if not path.is_dir():
        say(path, "made")
        if not PLAN:
            path.mkdir(parents=parents)


def make_link(path: Path, target: str) -> None:
    """Make or turn one symbolic link."""
    if not path.is_symlink() or os.readlink(path) != target:
        say(path, f"linked to {target}")
        if not PLAN:
            path.unlink(missing_ok=True)
            path.symlink_to(target)


def write_file(path: Path, entry: dict) -> None:
    """Write one file under a temporary name, then rename it."""
    new = entry["content"]
    if "append" in entry:
        source = Path(entry["append"])
        new += source.read_text() if source.exists() else ""
    old = path.read_text() if path.exists() else None
    if old == new:
        return
    say(path, "written" if old is None else "changed")
    if int(entry["mode"], 8) & 0o077 and old is not None:
        print("".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "before", "after")), end="")
    if PLAN:
        return
    temporary = path.with_name(f".{path.name}.new")
    temporary.touch(mode=0o600)
    temporary.write_text(new)
    set_quietly(temporary, entry)
    temporary.replace(path)


def set_quietly(path: Path, entry: dict) -> None:
    """Give a new file its owner and mode before it gets its name."""
    account = pwd.getpwnam(entry.get("owner", "root"))
    os.chown(path, account.pw_uid, account.pw_gid)
    os.chmod(path, int(entry["mode"], 8))


def run_command(path: Path, entry: dict) -> None:
    """Run what makes a path that does not exist."""
    if os.path.lexists(path):
        return
    say(path, "made")
    if not PLAN:
        done = subprocess.run(entry["command"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            words = " ".join(entry["command"])
            raise SystemExit(f"{path} cannot be made: {words} answered {done.returncode}: {done.stdout}{done.stderr}")


def main() -> None:
    """Go through the entries in their order."""
    for entry in json.load(sys.stdin):
        path = Path(entry["path"])
        if "link" in entry:
            make_link(path, entry["link"])
            continue
        if "content" in entry:
            write_file(path, entry)
        elif "command" in entry:
            run_command(path, entry)
        else:
            make_folder(path, entry.get("parents", False))
        if "mode" in entry and path.exists():
            set_owner_and_mode(path, entry)


if __name__ == "__main__":
    main()
