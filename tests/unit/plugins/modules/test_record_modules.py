# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the modules that read records and logs and pack runs, from their arguments to their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxc.workloads.plugins.modules import run_archive, run_records_info, training_log_info

from ..report_rows import write_run


def run(module: Any, capsys: pytest.CaptureFixture[str], check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
        module.main()

    def no_constant(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    found: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    return found


def test_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, "a", {"verdict": "succeeded"})
    assert [row["name"] for row in run(run_records_info, capsys, root=str(tmp_path))["runs"]] == ["a"]
    assert run(run_records_info, capsys, root=str(tmp_path / "x"))["failed"] is True


def test_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path, "a", {"verdict": "succeeded"})
    planned = run(run_archive, capsys, True, run_dir=str(folder), dest=str(tmp_path))
    assert (planned["changed"], list(tmp_path.glob("*.tar.gz"))) == (True, [])
    assert run(run_archive, capsys, run_dir=str(folder), dest=str(tmp_path))["changed"] is True
    assert run(run_archive, capsys, run_dir=str(folder), dest=str(tmp_path))["changed"] is False
    assert run(run_archive, capsys, run_dir=str(tmp_path / "x"), dest=str(tmp_path))["failed"] is True


BAR = "\r100%|██████████| 64/64 [13:34<00:00, 12.72s/it]"
SETTINGS = (
    "0: [INFO|trainer.py:1778] >>   Num examples = 15,406\n1: [INFO|trainer.py:1778] >>   Num examples = 15,406\n"
)


def test_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err, out, state = tmp_path / "x.err", tmp_path / "x.out", tmp_path / "trainer_state.json"
    err.write_text(SETTINGS + BAR)
    out.write_bytes(b"{'loss': nan, 'epoch': 0.5}\nRuntimeError: CUDA out of memory. Tried\n\xe2")
    state.write_text('{"global_step": 64, "max_steps": 64, "log_history": [{"epoch": 7.9, "step": 64, "loss": 1.5}]}')
    paths = [str(err), str(out), str(tmp_path / "absent")]
    told = run(training_log_info, capsys, paths=paths, log_format="huggingface", trainer_state=str(state), lines=1)
    assert [log["found"] for log in told["logs"]] == [True, True, False]
    assert told["logs"][1]["tail"] == ["�"]
    facts = told["facts"]
    assert (facts["last_step"], facts["tasks"], facts["settings"]["num_examples"]) == (64, "0-1", 15406)
    assert (facts["nan_count"], facts["printed_loss"], "series" in facts) == (1, "nan", False)
    assert told["cause"]["name"] == "cuda_out_of_memory"
    assert told["trainer_state"]["last_epoch"] == 7.9
    told = run(training_log_info, capsys, paths=paths, log_format="huggingface", series=True)
    assert told["trainer_state"] is None
    assert isinstance(told["facts"]["series"], list)


def test_a_log_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(training_log_info, capsys, paths=[str(tmp_path / "a.out"), str(tmp_path / "a.err")])
    assert (told["failed"], f"look into {tmp_path}" in told["msg"]) == (True, True)
    told = run(training_log_info, capsys, paths=[str(tmp_path)])
    assert "directory" in told["msg"]
    log = tmp_path / "a.out"
    log.write_text("hello\n")
    (tmp_path / "state.json").write_text('{"global_step": 1, "log_history": [{"loss": NaN}]}')
    told = run(training_log_info, capsys, paths=[str(log)], trainer_state=str(tmp_path / "state.json"))
    assert "holds NaN" in told["msg"]
    told = run(training_log_info, capsys, paths=[str(log)], trainer_state=str(tmp_path / "absent.json"))
    assert "absent.json" in told["msg"]
