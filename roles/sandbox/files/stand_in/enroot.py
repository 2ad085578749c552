# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for enroot: version, import, create, list and remove, with Enroot's rules and messages."""

from __future__ import annotations

import getopt
import json
import os
import signal
import sys
from pathlib import Path

from images import EnrootError, check_squashfs, import_image, remove_tree, unpack

HERE = Path(__file__).resolve().parent
COMMANDS = {  # command -> (short options, long options, how it is called)
    "create": ("n:fh", ["name=", "force", "help"], "create [-n|--name NAME] [-f|--force] [--] IMAGE"),
    "import": ("a:o:h", ["arch=", "output=", "help"], "import [-a|--arch ARCH] [-o|--output FILE] [--] URI"),
    "list": ("fh", ["fancy", "help"], "list [-f|--fancy]"),
    "remove": ("fh", ["force", "help"], "remove [-f|--force] [--] NAME..."),
    "version": ("", [], "version"),
}
UNSUPPORTED = ("batch", "bundle", "digest", "exec", "export", "info", "load", "start")


def say(line: str) -> None:
    """Write to the person."""
    print(line, file=sys.stderr, flush=True)


def usage(command: str, status: int) -> None:
    """Say how a command, or all of them, are called, and leave."""
    lines = [COMMANDS[command][2]] if command in COMMANDS else [text for _short, _long, text in COMMANDS.values()]
    print("\n".join(f"Usage: enroot {line}" for line in lines))
    raise SystemExit(status)


def data_folder() -> Path:
    """Return where this user's containers are kept."""
    path = Path(os.environ.get("ENROOT_DATA_PATH") or os.path.expanduser("~/.local/share/enroot"))
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def container_path(name: str) -> Path:
    """Return the folder of a container. Raises EnrootError."""
    if not name or "/" in name:
        raise EnrootError("Invalid argument" + (f": {name}" if name else ""))
    return data_folder() / name


def create(image: str, name: str, force: bool) -> None:
    """Unpack an image as a container."""
    if not image:
        raise EnrootError("Invalid argument")
    path = check_squashfs(image)
    base = os.path.basename(path)
    place = container_path(name or (base[:-5] if base.endswith(".sqsh") else base))
    if place.exists():
        if not force:
            raise EnrootError(f"File already exists: {place}")
        remove_tree(place)
    say("[INFO] Extracting squashfs filesystem...")
    unpack(path, place)


def remove(name: str, force: bool) -> None:
    """Remove a container, after a question unless forced."""
    place = container_path(name)
    if not place.is_dir():
        raise EnrootError(f"No such file or directory: {place}")
    if force or confirmed(f"Do you really want to delete {place}? [y/N] "):
        remove_tree(place)


def confirmed(question: str) -> bool:
    """Ask on standard error, if a person is there to read it. Leaves with code 1 when no line comes."""
    if sys.stdin.isatty():
        print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise SystemExit(1)
    return line.strip() in ("y", "Y")


def list_containers(fancy: bool) -> None:
    """Print the containers."""
    names = sorted(path.name for path in data_folder().iterdir())
    if fancy:
        print("NAME  PID  COMM  STATE  STARTED  TIME  MNTNS  USERNS  COMMAND")
    for name in names:
        print(name)


def main() -> None:
    """Read the command line, then do it."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in UNSUPPORTED:
        raise EnrootError(f"The sandbox's stand-in for enroot has no command {command}")
    if command not in COMMANDS:
        usage("", 0 if command == "help" else 1)
    sandbox = json.loads((HERE / "settings.json").read_text())
    if command == "version":  # whatever follows
        print(sandbox["enroot_version"])
        return
    short, long, _text = COMMANDS[command]
    try:
        pairs, words = getopt.getopt(sys.argv[2:], short, long)
    except getopt.GetoptError:
        usage(command, 1)
    options = {name.lstrip("-")[0]: value for name, value in pairs}
    if "h" in options:
        usage(command, 0)
    count = len(words)
    if (
        (command in ("create", "import") and count != 1)
        or (command == "remove" and not count)
        or (command == "list" and count)
    ):
        usage(command, 1)
    force = "f" in options or os.environ.get("ENROOT_FORCE_OVERRIDE", "no").lower() in ("y", "yes", "t", "true")
    if command == "import":
        import_image(words[0], options.get("o", ""), sandbox, say, options.get("a", ""))
    elif command == "create":
        create(words[0], options.get("n", ""), force)
    elif command == "list":
        list_containers("f" in options)
    else:
        for name in words:
            remove(name, force)


def terminated(_number: int, _frame: object) -> None:
    """Leave at a SIGTERM, with what has to be tidied up."""
    raise SystemExit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, terminated)
    try:
        main()
    except EnrootError as problem:
        for line in problem.lines:
            say(line)
        raise SystemExit(problem.code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
