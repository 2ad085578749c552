# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What run_result puts on record beside the verdict: output, cause, curves, versions, hours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.modules import run_result

from .test_slurm_modules import Site, finished, job, run

STATE = (
    '{"global_step": 10, "max_steps": 10, "log_history": [{"epoch": 1.5, "step": 10, "loss": 0.5}, {"eval_loss": 0.4}]}'
)
BARS = "".join(f"\r{10 * step:3d}%|██   | {step}/10 [00:{5 * step:02d}<00:00,  5.00s/it]" for step in range(11))
EXPECT = {
    "nodes": 2, "gpus_per_node": 8, "steps": 10,
    "output": {"files": ["output/a*"], "trainer_state": "output/trainer_state.json", "last_epoch": 1, "evaluation": True},
}  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def judge(site: Site, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    told = run(
        run_result, capsys, run_dirs=[job(site)["run_dir"]], slurm_bin_dir=str(site.bin), log_timeout=0,
        fail_unless_succeeded=False,
    )  # fmt: skip
    found: dict[str, Any] = told["runs"][0]
    return found


def test_output_is_a_gate_of_its_own(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(finished(site, capsys, expect=EXPECT, log_format="huggingface"))
    (folder / "slurm-12.out").write_text(BARS)
    (folder / "output").mkdir()
    (folder / "output" / "adapter.bin").write_text("x")
    (folder / "output" / "trainer_state.json").write_text(STATE)
    (folder / "environment.json").write_text('{"driver": "535.129.03"}')
    site.says("sinfo", "slurm 24.05.2\n")
    told = judge(site, capsys)
    assert [(gate["name"], gate["passed"]) for gate in told["gates"]] == [
        ("slurm", True), ("log", True), ("topology", True), ("output", True),
    ]  # fmt: skip
    assert (told["verdict"], told["cause"], told["gpu_hours"]) == ("succeeded", None, round(2 * 8 * 5 / 3600, 6))
    result = json.loads((folder / "result.json").read_text())
    assert result["versions"]["slurm"] == "24.05.2"
    assert result["environment"] == {"driver": "535.129.03"}
    assert result["output"]["trainer_state"]["last_epoch"] == 1.5
    assert "losses" not in result["output"]["trainer_state"]
    assert result["log"]["last_step"] == 10
    assert result["metrics"]["training_loss"]["mean"] == 0.5
    series = json.loads((folder / "series.json").read_text())
    assert series["points"][-1] == [10.0, None, 0.5]
    # A result on record is told without a question, also of versions.
    asked = len(site.calls("sinfo"))
    assert judge(site, capsys)["verdict"] == "succeeded"
    assert len(site.calls("sinfo")) == asked


def test_missing_output_fails_a_run_that_slurm_and_the_log_call_good(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(finished(site, capsys, expect=EXPECT, log_format="huggingface"))
    (folder / "slurm-12.out").write_text(BARS)
    told = judge(site, capsys)
    assert (told["verdict"], told["failure_class"]) == ("failed", "output_gate")
    assert "No file with content matches output/a*" in told["message"]
    assert "There is no output/trainer_state.json" in told["message"]
    assert all(metric["mean"] is None for metric in told["metrics"].values())


def test_the_cause_is_on_record(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(finished(site, capsys, "FAILED", "1:0", expect={"nodes": 2}, log_format="huggingface"))
    (folder / "slurm-12.out").write_text(
        "0: bash: /attempt/launch.sh: No such file or directory\nsrun: error: gpu001: task 0: Exited with exit code 127\n"
    )
    told = judge(site, capsys)
    assert told["verdict"] == "failed"
    assert told["cause"]["name"] == "container_not_entered"
    assert "launch.sh" in told["cause"]["evidence"]
    assert json.loads((folder / "result.json").read_text())["cause"] == told["cause"]
