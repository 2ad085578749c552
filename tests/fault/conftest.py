# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox, whole again after each test."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.sandbox import CONF, RUNS, Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """The sandbox, whole again after the test, without the test's jobs."""
    before = CONF.read_text()
    handle = Sandbox(tmp_path)
    yield handle
    for play in handle.plays:
        play.kill()
    changed = CONF.read_text() != before
    if changed:
        CONF.write_text(before)
        handle.signal("slurmctld", signal.SIGKILL)
    handle.repair("munged", "mariadbd", "sshd", "slurmdbd", "slurmctld", *(f"slurmd-gpu00{n}" for n in (1, 2, 3, 4)))
    if changed:
        handle.command("scontrol", "reconfigure")
    for job_id, _state in handle.jobs():
        handle.command("scancel", job_id, check=False)
    for node in ("gpu001", "gpu002", "gpu003", "gpu004"):
        handle.command("scontrol", "update", f"nodename={node}", "state=resume", check=False)
    shutil.rmtree(RUNS / "fault", ignore_errors=True)
