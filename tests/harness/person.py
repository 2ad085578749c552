# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Somebody at the keyboard, for tests that use the playbooks on the sandbox as a person does."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.harness.sandbox import BIN, PREFIX, USER, Play

SHARED = PREFIX / "shared" / USER
IMAGE = SHARED / "images" / "nemo-sandbox.sqsh"


class Person:
    """Somebody whose shared storage is a folder of its own, and whose plays leave their output in another one."""

    def __init__(self, logs: Path, root: Path) -> None:
        self.logs, self.root = logs, root
        self.plays: list[Play] = []

    def start(self, playbook: str, *arguments: str, environment: dict[str, str] | None = None, **given: object) -> Play:
        """Start a playbook of this name on the sandbox; what is given are extra variables."""
        inventory = [] if "-i" in arguments else ["-i", "inventories/sandbox"]
        command = [str(BIN / "ansible-playbook"), f"playbooks/{playbook}.yml", *inventory, *arguments]
        log = self.logs / f"{len(self.plays)}.log"
        self.plays.append(Play(log, [*command, "-e", json.dumps(given)], environment or {}))
        return self.plays[-1]

    def play(self, playbook: str, *arguments: str, **given: object) -> Play:
        """Start a playbook with this person's storage and the sandbox's image."""
        values = {"sandbox_shared_root": str(self.root), "sandbox_image_path": str(IMAGE)}
        return self.start(playbook, *arguments, **{**values, **given})

    def files(self) -> dict[str, int]:
        """Every file below the person's folder with its time of change."""
        return {str(path): path.lstat().st_mtime_ns for path in self.root.rglob("*") if "/.git/" not in str(path)}

    def runs(self, workload: str) -> list[Path]:
        """The folders of a workload's runs."""
        return sorted((self.root / "runs" / workload).glob("*"))

    def jobs(self) -> list[str]:
        """The ids of all jobs that were ever submitted below the person's folder."""
        done = subprocess.run(
            [str(PREFIX / "bin" / "sacct"), "-a", "-X", "-n", "-P", "-S", "now-2hours", "-o", "JobIDRaw,WorkDir"],
            text=True, capture_output=True, check=True,
        )  # fmt: skip
        return [
            line.split("|")[0] for line in done.stdout.splitlines() if line.split("|")[1].startswith(f"{self.root}/")
        ]


Somebody = TypeVar("Somebody", bound=Person)


@contextlib.contextmanager
def at_the_keyboard(name: str, make: Callable[[Path], Somebody]) -> Iterator[Somebody]:
    """Somebody, made with a folder of this name on shared storage; in the end nothing of theirs runs or is left."""
    root = SHARED / f"{name}-{os.getpid()}"
    root.mkdir()
    shutil.chown(root, USER, USER)
    someone = make(root)
    try:
        yield someone
    finally:
        for play in someone.plays:
            play.kill()
        for job_id in someone.jobs():
            subprocess.run([str(PREFIX / "bin" / "scancel"), job_id], check=False)
        shutil.rmtree(root, ignore_errors=True)
