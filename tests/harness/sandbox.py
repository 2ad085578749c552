# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A handle on the sandbox, for tests that break it: its Slurm, its daemons, and playbooks that run meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = Path("/opt/dgxc-sandbox")
USER = "demo-user"
RUNS = PREFIX / "shared" / USER / "runs"
CONF = PREFIX / "etc" / "slurm" / "slurm.conf"
PLAY = Path(__file__).with_name("run.yml")
BIN = Path(sys.executable).parent


def wait_until(condition: Any, seconds: float, what: str) -> Any:
    """The first true value of `condition()`, asked ten times a second."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    pytest.fail(f"{what} did not happen within {seconds} s")


class Play:
    """A playbook that runs in the background, in a process group of its own."""

    def __init__(self, log: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self.log = log
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                arguments,
                cwd=CHECKOUT,
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # Lines have to come when they are said on a machine where this is not set as well.
                env=dict(os.environ, ANSIBLE_CONFIG=str(CHECKOUT / "ansible.cfg"), PYTHONUNBUFFERED="", **environment),
            )

    @property
    def output(self) -> str:
        return self.log.read_text()

    def says(self, words: str, seconds: float = 60) -> None:
        wait_until(lambda: words in self.output or self.process.poll() is not None, seconds, f"{words!r}")
        assert words in self.output, self.output

    def ends(self, seconds: float = 120) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the playbook did not end within {seconds} s:\n{self.output}")

    def succeeds(self, seconds: float = 120) -> str:
        assert self.ends(seconds) == 0, self.output
        return self.output

    def fails(self, seconds: float = 120) -> str:
        assert self.ends(seconds) != 0, self.output
        return self.output

    def kill(self) -> None:
        """kill -9 of the playbook and all its children on this side."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def changed(self) -> int:
        return sum(int(number) for number in re.findall(r"changed=(\d+)", self.output))


class Sandbox:
    """The sandbox's Slurm as its administrator sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plays: list[Play] = []
        self.name = "f" + uuid.uuid4().hex[:8]

    # --- playbooks ---

    def play(self, script: str = "sleep 1", directives: str = "", inventory: str = "sandbox", **variables: Any) -> Play:
        """Start the run role on one run; `variables` are extra variables."""
        names = {"fault_name": self.name, "fault_script": script, "fault_directives": directives}
        log = self.folder / f"play-{len(self.plays)}.log"
        arguments = [str(BIN / "ansible-playbook"), str(PLAY), "-i", f"inventories/{inventory}"]
        play = Play(log, [*arguments, "-e", json.dumps({**names, **variables})], {})
        self.plays.append(play)
        return play

    # --- Slurm ---

    def command(self, *arguments: str, check: bool = True) -> str:
        """The output of one of Slurm's commands, run as root."""
        done = subprocess.run(
            [str(PREFIX / "bin" / arguments[0]), *arguments[1:]], text=True, capture_output=True, check=False
        )
        if check and done.returncode:
            pytest.fail(f"{' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def as_user(self, command: str) -> str:
        """The output of a command of the ordinary user in a login shell with Slurm's module."""
        return subprocess.run(
            ["su", "-", USER, "-c", f"module load slurm; {command}"], text=True, capture_output=True, check=True
        ).stdout

    def run_folder(self) -> Path:
        """The folder of this test's run."""
        (folder,) = (RUNS / "fault").glob(f"{self.name}-*")
        return folder

    def jobs(self) -> list[tuple[str, str]]:
        """(id, state) of every job that this test's run ever had, from the queue and the accounting together."""
        found: dict[str, str] = {}
        queue = self.command("squeue", "-h", "-a", "-t", "all", "-o", "%A|%T|%Z", check=False)
        accounting = self.command(
            "sacct", "-a", "-X", "-n", "-P", "-S", "now-2hours", "-o", "JobIDRaw,State,WorkDir", check=False
        )
        for line in [*accounting.splitlines(), *queue.splitlines()]:
            job_id, state, folder = line.split("|", 2)
            if f"/{self.name}-" in folder:
                found[job_id] = state
        return sorted(found.items())

    def one_job(self) -> str:
        """The id of the only job of this test's run."""
        jobs = self.jobs()
        assert len(jobs) == 1, jobs
        return jobs[0][0]

    def record(self) -> dict[str, Any]:
        return json.loads((self.run_folder() / "record.json").read_text())

    # --- daemons ---

    def pids(self, daemon: str) -> list[int]:
        """The processes of a daemon, as the sandbox's own tool names them."""
        status = subprocess.run(
            [str(PREFIX / "libexec" / "daemons"), "status"], text=True, capture_output=True, check=False
        )
        for line in status.stdout.splitlines():
            if line.split()[0] == daemon:
                return [int(number) for number in re.findall(r"\d+", line.partition("[")[2])]
        pytest.fail(f"no daemon {daemon}: {status.stdout}")

    def signal(self, daemon: str, number: int) -> None:
        for pid in self.pids(daemon):
            os.kill(pid, number)

    def repair(self, *daemons: str) -> None:
        """Start what does not run, wake what is frozen."""
        subprocess.run([str(PREFIX / "libexec" / "daemons"), "ensure", *daemons], check=True, capture_output=True)

    def configure(self, *lines: str, restart: bool = False) -> None:
        """Change slurm.conf: each line replaces the one of its name, or comes to the end; `Name=` takes it away."""
        names = {line.split("=", 1)[0] for line in lines if not line.startswith("PartitionName")}
        kept = [line for line in CONF.read_text().splitlines() if line.split("=", 1)[0] not in names]
        CONF.write_text("\n".join([*kept, *(line for line in lines if not line.endswith("="))]) + "\n")
        self.reread(restart)

    def reread(self, restart: bool) -> None:
        if restart:
            self.signal("slurmctld", signal.SIGTERM)
            wait_until(lambda: not self.pids("slurmctld"), 30, "the end of slurmctld")
            # Not through the sandbox's tool, which registers the cluster with slurmdbd first: a test may have none.
            # It is started as the tool would start it, so that the tool knows it for its own.
            subprocess.run(
                ["/usr/sbin/slurmctld", "-f", str(CONF)],
                check=True,
                cwd=PREFIX / "log" / "slurm",
                user="slurm",
                group="slurm",
                extra_groups=[],
                env={
                    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                    "SLURM_CONF": str(CONF),
                    "DGXC_SANDBOX_DAEMON": f"{PREFIX}:slurmctld",
                },
            )
            wait_until(lambda: "UP" in self.command("scontrol", "ping", check=False), 30, "the start of slurmctld")
        self.command("scontrol", "reconfigure")
