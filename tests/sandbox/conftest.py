# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to a sandbox that is up (playbooks/sandbox.yml).

It is the one at /opt/dgxc-sandbox, as the inventory has it. For another one, DGXC_SANDBOX_PREFIX names its prefix and
DGXC_SANDBOX_VARIABLES a file with the variables it was made with.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


class Sandbox:
    """The sandbox as its user and as root see it."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        specification = prefix / "etc" / "daemons.json"
        if not specification.exists():
            pytest.exit(f"There is no sandbox at {prefix}: run playbooks/sandbox.yml first.", returncode=1)
        self.specification = json.loads(specification.read_text())
        self.user = self.specification["user"]
        self.image = prefix / "shared" / self.user / "images" / "nemo-sandbox.sqsh"
        self.shared = prefix / "shared" / self.user
        self.home = prefix / "home" / self.user
        self.root = [] if os.geteuid() == 0 else ["sudo", "-n"]

    def ssh(self, script: str, login: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a script as the user, as on a login node; with `login` the commands of Slurm are there."""
        ssh = self.prefix / "etc" / "ssh"
        command = [
            "ssh", "-F", "/dev/null", "-o", f"UserKnownHostsFile={ssh}/known_hosts", "-o", "StrictHostKeyChecking=yes",
            "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-i", f"{ssh}/client_ed25519",
            "-p", str(self.specification["daemons"]["sshd"]["probe"]["port"]), f"{self.user}@127.0.0.1",
        ]  # fmt: skip
        if login:
            # srun would read the rest of the script as its input.
            script = f"exec 3<&0 < /dev/null; module add slurm; cd; {script}"
            command.append(f"bash -l -c {quote(script)}")
        else:
            command.append(script)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def as_root(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.root, *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def daemons(self, *words: str) -> str:
        done = self.as_root(str(self.prefix / "libexec" / "daemons"), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pids(self, name: str) -> list[str]:
        return re.findall(r"\d+", self.daemons("status", name).rpartition("[")[2])

    def commands(self, *words: str) -> str:
        """Run one of the sandbox's Slurm commands as root."""
        done = self.as_root(str(self.prefix / "bin" / words[0]), *words[1:])
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def playbook(self, *words: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ.get("DGXC_SANDBOX_VARIABLES")
        command = ["ansible-playbook", "playbooks/sandbox.yml", "-i", "inventories/sandbox"]
        return subprocess.run(
            [*command, *(["-e", f"@{variables}"] if variables else []), *words],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        )


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return Sandbox(Path(os.environ.get("DGXC_SANDBOX_PREFIX", "/opt/dgxc-sandbox")))
