# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the sandbox takes one of its daemons for started with another configuration."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "roles" / "sandbox" / "files" / "daemons.py"
if not SOURCE.exists():
    pytest.skip("needs roles/sandbox", allow_module_level=True)
SPEC: dict[str, Any] = {
    "command": ["/usr/sbin/slurmd", "-N", "gpu001"],
    "environment": {"SLURM_CONF": "/a/slurm.conf", "ENROOT_DATA_PATH": "/a/data"},
}


@pytest.fixture(scope="module")
def daemons() -> Any:
    specification = importlib.util.spec_from_file_location("sandbox_daemons", SOURCE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def fingerprint(daemons: Any, spec: dict[str, Any], prefix: Path) -> str:
    return daemons.Daemon({"prefix": str(prefix), "daemons": {"slurmd-gpu001": spec}}, "slurmd-gpu001").fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"command": ["/usr/sbin/slurmd", "-N", "gpu002"]},
        {"environment": {"SLURM_CONF": "/b/slurm.conf", "ENROOT_DATA_PATH": "/a/data"}},
        {"environment": {"SLURM_CONF": "/a/slurm.conf"}},
        {"environment": {}},
    ],
)
def test_a_change_of_what_it_is_started_with_is_seen(daemons: Any, tmp_path: Path, change: dict[str, Any]) -> None:
    assert fingerprint(daemons, SPEC, tmp_path) != fingerprint(daemons, {**SPEC, **change}, tmp_path)


def test_the_order_of_the_variables_is_none(daemons: Any, tmp_path: Path) -> None:
    turned = {**SPEC, "environment": dict(reversed(SPEC["environment"].items()))}
    assert fingerprint(daemons, SPEC, tmp_path) == fingerprint(daemons, turned, tmp_path)


def test_a_changed_file_that_it_reads_is_seen(daemons: Any, tmp_path: Path) -> None:
    read = tmp_path / "slurm.conf"
    spec = {**SPEC, "reads": [str(read), str(tmp_path / "missing")]}
    found = []
    for content in ("one", "one", "two"):
        read.write_text(content)
        found.append(fingerprint(daemons, spec, tmp_path))
    assert found[0] == found[1] != found[2]
