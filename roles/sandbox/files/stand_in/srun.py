# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for srun with the Pyxis plug-in: takes the container options, gives all others to the real srun.

With a container, the command that the real srun starts on each task is container_task.py, which enters the container
and turns into the command. Messages and rules follow Pyxis 0.24; the texts of the help are our own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

REAL_SRUN = "/usr/bin/srun"
BAD_OPTION = 255  # srun's exit code for an option that it or a plug-in refuses
HERE = Path(__file__).resolve().parent

# Options of srun that stand alone; all other long ones take a value, after "=" or as the next word.
ALONE = {
    "allocate-only", "contiguous", "disable-status", "exact", "exclusive", "external-launcher", "get-user-env",
    "hold", "immediate", "interactive-step", "kill-on-bad-exit", "kill-on-invalid-dep", "label", "mpi-combine",
    "nice", "no-allocate", "no-kill", "no-shell", "overcommit", "overlap", "oversubscribe", "preserve-env",
    "propagate", "pty", "quiet", "quit-on-interrupt", "reboot", "requeue", "send-libs", "spread", "spread-job",
    "stepmgr", "test-only", "unbuffered", "use-min-nodes", "verbose", "wait-all-nodes", "whole", "x11",
}  # fmt: skip
SHORT_WITH_VALUE = set("AabBcCdDeFgGiJLmMnNopqrStTwWx")

WITH_VALUE = ("image", "mounts", "workdir", "name", "save", "env", "unshare")
SWITCHES = {  # option -> (setting, value)
    "mount-home": ("mount_home", True),
    "no-mount-home": ("mount_home", False),
    "remap-root": ("remap_root", True),
    "no-remap-root": ("remap_root", False),
    "entrypoint": ("entrypoint", True),
    "no-entrypoint": ("entrypoint", False),
    "entrypoint-log": ("entrypoint_log", True),
    "writable": ("writable", True),
    "readonly": ("writable", False),
}
CONFLICTS = {
    "mount_home": "--container-mount-home and --no-container-mount-home",
    "remap_root": "--container-remap-root and --no-container-remap-root",
    "entrypoint": "--container-entrypoint and --no-container-entrypoint",
    "writable": "--container-writable and --container-readonly",
}
IGNORED = (  # setting -> how it is called when neither an image nor a name is given
    ("mounts", "--container-mounts"),
    ("workdir", "--container-workdir"),
    ("save", "--container-save"),
    ("mount_home", "--[no-]container-mount-home"),
    ("remap_root", "--[no-]container-remap-root"),
    ("entrypoint", "--[no-]container-entrypoint"),
    ("entrypoint_log", "--container-entrypoint-log"),
)
HELP = """
Options provided by plugins:
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
                              [pyxis] image of the container: an Enroot URI, or
                              the path of a squashfs file (it begins with / or .)
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
                              [pyxis] what to mount in the container; several
                              flags are joined by "+", as in "ro+rprivate"
      --container-workdir=PATH
                              [pyxis] working directory in the container
      --container-name=NAME   [pyxis] keep the container's file system under this
                              name on each node, or use the one kept there
      --container-save=PATH   [pyxis] save the container's file system (not
                              supported by this stand-in)
      --container-mount-home, --no-container-mount-home
                              [pyxis] mount the home directory, or do not
      --container-remap-root, --no-container-remap-root
                              [pyxis] seem to be root in the container, or do not
      --container-entrypoint, --no-container-entrypoint
                              [pyxis] run the image's entry point, or do not
      --container-entrypoint-log
                              [pyxis] print what the entry point says
      --container-writable, --container-readonly
                              [pyxis] make the file system writable, or read-only
      --container-env=NAME[,NAME...]
                              [pyxis] variables whose value is the host's even
                              where the image sets one
      --container-unshare=NS[,NS...]
                              [pyxis] namespaces of its own: net, ipc, uts (not
                              supported by this stand-in)
"""


class Refused(Exception):
    """An option that the plug-in refuses; the lines are what it says."""


def parse_mounts(text: str) -> list[list[str]]:
    """Read `SRC:DST[:FLAGS],...` into [source, target, flags]. Raises Refused as Pyxis does."""
    mounts: list[list[str]] = []
    for item in text.split(","):
        source, _colon, rest = item.partition(":")
        target, colon, flags = rest.partition(":")
        if not source or (not target and ":" in item):
            raise Refused(f"--container-mounts: invalid format: {item}")
        target = target or source
        problem = None
        if source[0] not in "./" and source not in ("tmpfs", "umount"):
            problem = 'mount source must be a relative path, an absolute path, "tmpfs" or "umount"'
        elif target[0] not in "./":
            problem = "mount target must be a relative path or an absolute path"
        if problem:
            raise Refused(f"{problem}\ncould not add mount entry: {source}:{target}")
        mount = [source, target, flags.replace("+", ",") if colon else ""]
        if mount not in mounts:
            mounts.append(mount)
    return mounts


def parse_name(text: str) -> list[str]:
    """Read `NAME[:FLAG]`."""
    name, _colon, flag = text.partition(":")
    if not name:
        raise Refused("--container-name: empty name")
    if (flag or "auto") not in ("auto", "create", "exec", "no_exec"):
        raise Refused('--container-name: flag must be "auto", "create", "exec" or "no_exec"')
    return [name, flag or "auto"]


def set_value(settings: dict, option: str, value: str) -> None:
    """Take one container option that has a value."""
    if not value:
        raise Refused(f"--container-{option}: argument required")
    parsed: object = value
    if option == "mounts":
        parsed = settings.get("mounts", []) + parse_mounts(value)
    elif option == "name":
        parsed = parse_name(value)
    elif option == "env":
        parsed = value.split(",")
        if "" in parsed:
            raise Refused(f"--container-env: invalid format: {value}")
        parsed = settings.get("env", []) + parsed
    elif option == "save" and value.endswith("/"):
        raise Refused("--container-save: target is a directory")
    elif option == "unshare":
        for part in value.split(","):
            if part not in ("net", "ipc", "uts"):
                raise Refused(
                    f"--container-unshare: unknown namespace '{part}'"
                    if part
                    else "--container-unshare: empty namespace argument"
                )
    if option in settings and option not in ("mounts", "env", "unshare") and settings[option] != parsed:
        raise Refused(f"--container-{option} specified multiple times")
    settings[option] = parsed


def set_switch(settings: dict, option: str) -> None:
    """Take one container option that stands alone. Raises Refused."""
    setting, value = SWITCHES[option]
    if setting in CONFLICTS and settings.get(setting, value) != value:
        raise Refused(f"both {CONFLICTS[setting]} were specified")
    settings[setting] = value


def container_option(word: str) -> str | None:
    """Return an option's name without `container-`, if it is one of the plug-in's."""
    name = word[2:].partition("=")[0]
    if name.startswith("container-"):
        name = name[len("container-") :]
    elif name.startswith("no-container-"):
        name = "no-" + name[len("no-container-") :]
    else:
        return None
    return name if name in WITH_VALUE or name in SWITCHES else None


def misused(problem: str) -> NoReturn:
    """Leave as the real one does when it cannot read its command line."""
    print(f"{REAL_SRUN}: {problem}", file=sys.stderr)
    print('Try "srun --help" for more information', file=sys.stderr)
    raise SystemExit(BAD_OPTION)


def complain(problem: Refused) -> None:
    """Say why an option is refused: all lines are the plug-in's but those after a tab, which are srun's."""
    for line in str(problem).splitlines():
        print("srun: error: " + (line[1:] if line.startswith("\t") else f"pyxis: {line}"), file=sys.stderr)


def split(words: list[str], settings: dict) -> tuple[list[str], list[str]]:
    """Divide a command line into options for the real srun and the command; container options go into settings."""
    options: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            place -= 1
            break
        option = container_option(word) if word.startswith("--") else None
        if option is not None:
            typed, has_value, value = word.partition("=")
            if option in SWITCHES:
                if has_value:
                    misused(f"option '{typed}' doesn't allow an argument")
                value = "(null)"
            elif not has_value:
                if place == len(words):
                    misused(f"option '{typed}' requires an argument")
                value = words[place]
                place += 1
            try:
                if option in SWITCHES:
                    set_switch(settings, option)
                else:
                    set_value(settings, option, value)
            except Refused as problem:
                raise Refused(f"{problem}\n\tInvalid {typed} argument: {value}") from None
            continue
        options.append(word)
        if word.startswith("--"):
            name = word[2:]
            takes_next = "=" not in name and name not in ALONE and not name.startswith(("help", "usage", "vers"))
        else:
            takes_next = False
            for index, letter in enumerate(word[1:], 1):
                if letter in SHORT_WITH_VALUE:
                    takes_next = index == len(word) - 1
                    break
        if takes_next and place < len(words):
            options.append(words[place])
            place += 1
    return options, words[place:]


def from_environment(settings: dict) -> None:
    """Take what is not on the command line from PYXIS_CONTAINER_* variables; a bad one is named and does nothing."""
    for option in WITH_VALUE:
        value = os.environ.get(f"PYXIS_CONTAINER_{option.upper()}")
        if value is not None and option not in settings:
            try:
                set_value(settings, option, value)
            except Refused as problem:
                complain(problem)
    truth = {"1": True, "yes": True, "y": True, "true": True, "t": True,
             "0": False, "no": False, "n": False, "false": False, "f": False}  # fmt: skip
    for setting in ("mount_home", "remap_root", "entrypoint", "entrypoint_log", "writable"):
        value = truth.get(os.environ.get(f"PYXIS_CONTAINER_{setting.upper()}", "").lower())
        if value is not None:
            settings.setdefault(setting, value)
    value = truth.get(os.environ.get("PYXIS_CONTAINER_READONLY", "").lower())
    if value is not None:
        settings.setdefault("writable", not value)


def warn_of_ignored(settings: dict) -> None:
    """Say which container options do nothing because there is no container."""
    names = [name for setting, name in IGNORED if setting in settings]
    if "writable" in settings:
        names.append("--container-writable" if settings["writable"] else "--container-readonly")
    for name in names:
        print(
            f"srun: error: pyxis: ignoring {name} because neither --container-image nor --container-name is set",
            file=sys.stderr,
        )


def main() -> None:
    """Turn into the real srun."""
    sandbox = json.loads((HERE / "settings.json").read_text())
    os.environ["SLURM_CONF"] = sandbox["slurm_conf"]
    settings: dict = {}
    try:
        options, command = split(sys.argv[1:], settings)
        from_environment(settings)
    except Refused as problem:
        complain(problem)
        raise SystemExit(BAD_OPTION) from None
    if any(word in ("--help", "-h") for word in options):
        sys.stdout.flush()
        status = os.spawnv(os.P_WAIT, REAL_SRUN, [REAL_SRUN, "--help"])
        print(HELP, end="")
        raise SystemExit(status)
    if not settings.keys() & {"image", "name"} or not command:
        warn_of_ignored(settings)
        os.execv(REAL_SRUN, [REAL_SRUN, *options, *(["--", *command] if command else [])])
    if not any(word.startswith(("--job-name", "-J")) for word in options):
        options.append(f"--job-name={os.path.basename(command[0])}")
    os.execv(REAL_SRUN, [REAL_SRUN, *options, "--", str(HERE / "container_task.py"), json.dumps(settings), *command])


if __name__ == "__main__":
    main()
