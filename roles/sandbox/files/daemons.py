# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, repair, list and stop the sandbox's daemons. Prints one line for each thing it did, nothing if all is well.

    daemons [--plan] ensure NAME...    start what does not run, wake what is frozen, replace what does not answer
    daemons [--plan] stop              end everything that belongs to the sandbox
    daemons status                     one line for each daemon

What is a daemon of the sandbox is told from the processes themselves (their command line or environment names the
sandbox's own configuration file), never from a pid file: those outlive their process, and numbers are used again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_SECONDS = 45  # a cold database on a busy machine
ANSWER_SECONDS = 10  # what a daemon that was just woken gets before it is replaced
PROBE_SECONDS = 5
HELPER_SECONDS = 90
FROZEN, SILENT = "it is frozen", "it does not answer"


def processes() -> dict[int, dict[str, str]]:
    """Return every process that can be read: pid -> name of the program, command line, environment, state, owner.

    Those in containers on this machine, where there may be another sandbox of the same prefix, are not ours.
    """
    found = {}
    ours = os.readlink("/proc/self/ns/pid")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if os.readlink(folder / "ns" / "pid") != ours:
                continue
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            found[int(folder.name)] = {
                "program": os.path.basename(os.readlink(folder / "exe")).removesuffix(" (deleted)"),
                "command": (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                "environment": (folder / "environ").read_bytes().decode(errors="replace"),
                "state": state,
                "uid": str(folder.stat().st_uid),
            }
        except OSError:
            continue  # it ended meanwhile, or is a thread of the kernel
    return found


def answers(spec: dict) -> bool:
    """Tell whether a daemon does its work: a command that succeeds as the daemon's user, or a greeting on a port."""
    probe = spec["probe"]
    if "port" in probe:
        try:
            with socket.create_connection(("127.0.0.1", probe["port"]), timeout=PROBE_SECONDS) as connection:
                if not probe.get("greeting"):
                    return True
                connection.settimeout(PROBE_SECONDS)
                return connection.recv(64).startswith(probe["greeting"].encode())
        except OSError:
            return False
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", probe["shell"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_SECONDS,
            check=False,
            cwd="/",
            user=spec.get("user", "root"),
            extra_groups=[],
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def wait_for(condition, seconds: float) -> bool:
    """Ask until a condition holds, at first often."""
    deadline = time.monotonic() + seconds
    pause = 0.05
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
    return True


def helper(command: list[str]) -> str:
    """Run another program of the sandbox, pass on and return what it says. A leading --plan is for the program."""
    if command[0] == "--plan":
        command = [command[1], "--plan", *command[2:]]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=HELPER_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(command)} did not end within {HELPER_SECONDS} seconds.") from None
    print(done.stdout, end="")
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} answered {done.returncode}: {done.stderr}")
    return done.stdout


class Daemon:
    """One daemon, as the specification describes it."""

    def __init__(self, sandbox: dict, name: str) -> None:
        self.spec = sandbox["daemons"][name]
        self.name = name
        self.sandbox = sandbox
        self.stamp = Path(sandbox["prefix"]) / "run" / "daemons" / name

    def fingerprint(self) -> str:
        """Return what this daemon was started with: command, environment, and the files it reads at its start."""
        digest = hashlib.sha256(json.dumps([self.spec["command"], self.environment()], sort_keys=True).encode())
        for name in self.spec.get("reads", []):
            if os.path.exists(name):
                digest.update(Path(name).read_bytes())
        return digest.hexdigest()

    def environment(self) -> dict[str, str]:
        """Return the whole environment that this daemon is started with."""
        return {
            "PATH": f"{self.sandbox['prefix']}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": "/",
            "DGXC_SANDBOX_DAEMON": f"{self.sandbox['prefix']}:{self.name}",
            **self.spec.get("environment", {}),
        }

    def pids(self) -> list[int]:
        """Return the processes that are this daemon, oldest first."""
        program = os.path.basename(os.path.realpath(self.spec["command"][0]))
        marker = f"DGXC_SANDBOX_DAEMON={self.sandbox['prefix']}:{self.name}\0"
        title = self.spec.get("title")
        return sorted(
            pid
            for pid, process in processes().items()
            if process["program"] == program
            and (title in process["command"] if title else marker in process["environment"])
        )

    def start(self) -> None:
        """Start it and wait until it answers. Raises SystemExit with the end of its log if it does not."""
        for path in map(Path, self.spec.get("makes", [])):
            if not path.is_dir():
                path.mkdir(mode=0o755)
                with open(self.stamp.parent / "made-folders", "a") as made:
                    made.write(f"{path}\n")
        self.prepare()
        log = Path(self.spec["log"])
        account = pwd.getpwnam(self.spec.get("user", "root"))
        with open(log.with_suffix(".start"), "wb") as output:
            process = subprocess.Popen(
                self.spec["command"],
                cwd=self.spec.get("directory", "/"),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=[],
            )
        background = self.spec.get("stays_in_foreground", False)

        def settled() -> bool:
            ended = process.poll()
            if ended is not None and (background or ended != 0):
                self.fail(f"ended at once with code {ended}")
            return answers(self.spec)

        if not wait_for(settled, START_SECONDS):
            self.fail(f"does not answer {START_SECONDS} seconds after its start")
        self.stamp.write_text(self.fingerprint())

    def prepare(self) -> None:
        """Make what the daemon needs once, before its first start."""
        prepare = self.spec.get("prepare")
        if prepare and not os.path.exists(prepare["creates"]):
            done = subprocess.run(
                prepare["command"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd="/"
            )
            if done.returncode != 0:
                raise SystemExit(f"{self.name}: {prepare['command'][0]} answered {done.returncode}: {done.stderr}")

    def fail(self, why: str) -> None:
        """Leave, with the last words of the daemon."""
        lines = []
        for name in (Path(self.spec["log"]), Path(self.spec["log"]).with_suffix(".start")):
            if name.exists():
                lines += name.read_text(errors="replace").splitlines()[-8:]
        raise SystemExit(f"{self.name} {why}; see {self.spec['log']}. Its last lines:\n" + "\n".join(lines))

    def kill(self, pids: list[int]) -> None:
        """End processes for certain."""
        for number in pids:
            for name in (signal.SIGKILL, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, name)
        if not wait_for(lambda: not set(pids) & set(self.pids()), ANSWER_SECONDS):
            raise SystemExit(f"{self.name}: the processes {pids} do not end after SIGKILL.")

    def ensure(self) -> None:
        """Make it run, answer, and have been started with today's configuration."""
        if self.spec.get("before"):
            helper(self.spec["before"])
        pids, why = self.trouble()
        if not why:
            return
        if why == FROZEN:
            print(f"{self.name}: woken, it was frozen")
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            self.ensure()
            return
        if why == SILENT and wait_for(lambda: answers(self.spec), ANSWER_SECONDS):
            return
        print(f"{self.name}: {f'replaced, {why}' if pids else 'started'}")
        self.kill(pids)
        self.start()

    def plan(self, ask: bool) -> bool:
        """Say what ensure() would do, and return whether all is well.

        Without `ask` only its process is looked at: what it depends on is down, so it cannot be expected to answer.
        """
        pids, why = self.trouble(ask)
        if why:
            what = "woken" if why == FROZEN else f"replaced, {why}" if pids else "started"
            print(f"{self.name}: would be {what}")
        elif ask and self.spec.get("before"):
            return not helper(["--plan", *self.spec["before"]])
        return not why

    def trouble(self, ask: bool = True) -> tuple[list[int], str]:
        """Return its processes, and what is wrong with it or nothing."""
        pids = self.pids()
        known = processes()
        if not pids:
            return pids, "it does not run"
        if any(known.get(pid, {}).get("state") == "T" for pid in pids):
            return pids, FROZEN
        if not self.stamp.exists() or self.stamp.read_text() != self.fingerprint():
            return pids, "its configuration changed"
        return pids, SILENT if ask and not answers(self.spec) else ""


def belonging(sandbox: dict) -> list[int]:
    """Return all processes of the sandbox: its daemons, their children, and everything its user runs."""
    prefix = sandbox["prefix"]
    try:
        user = str(pwd.getpwnam(sandbox["user"]).pw_uid)
    except KeyError:
        user = "none"
    titles = [spec["title"] for spec in sandbox["daemons"].values() if "title" in spec]
    relatives, pid = set(), os.getpid()
    while pid > 1:  # this program and those who called it
        relatives.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return [
        pid
        for pid, process in processes().items()
        if pid not in relatives
        and (
            process["uid"] == user
            or f"DGXC_SANDBOX_DAEMON={prefix}:" in process["environment"]
            or any(title in process["command"] for title in titles if process["program"] == "sshd")
        )
    ]


def stop(sandbox: dict, plan: bool) -> None:
    """End everything, more than once, for a process may have started another one meanwhile."""
    if plan:
        for pid in belonging(sandbox):
            print(f"process {pid} would be ended")
        return
    ended: set[int] = set()

    def gone() -> bool:
        left = belonging(sandbox)
        for pid in left:
            ended.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    if not wait_for(gone, 20):
        raise SystemExit(f"These processes of the sandbox do not end: {belonging(sandbox)}.")
    if ended:
        print(f"{len(ended)} processes ended")
    made = Path(sandbox["prefix"]) / "run" / "daemons" / "made-folders"
    for path in made.read_text().splitlines() if made.exists() else []:
        if os.path.isdir(path) and not any(process["program"] == "sshd" for process in processes().values()):
            os.rmdir(path)
            print(f"{path} removed")


def main() -> None:
    """Read the command line, then do it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", action="store_true", help="say what would be done, do nothing")
    parser.add_argument("--specification", default=str(Path(__file__).resolve().parent.parent / "etc" / "daemons.json"))
    parser.add_argument("action", choices=["ensure", "stop", "status"])
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    sandbox = json.loads(Path(options.specification).read_text())
    plan = ["--plan"] if options.plan else []
    daemons = [Daemon(sandbox, name) for name in options.names or sandbox["daemons"]]
    if options.action == "stop":
        stop(sandbox, options.plan)
        for command in sandbox.get("at_stop", []):
            helper([*plan, *command])
    elif options.action == "status":
        for daemon in daemons:
            print(f"{daemon.name:14} {'answers' if answers(daemon.spec) else 'DOWN':8} {daemon.pids()}")
    else:
        well = True
        for daemon in daemons:
            if options.plan:
                well = daemon.plan(ask=well) and well
            else:
                daemon.ensure()
        if well and not options.names:
            for command in sandbox.get("after", []):
                helper([*plan, *command])


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
