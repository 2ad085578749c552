# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what a result keeps beside the verdict: output, hours, versions, curves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record, _run_result
from ansible_collections.dgxc.workloads.plugins.module_utils._trainer_state import OutputFacts, TrainerState
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import LogFacts


@pytest.mark.parametrize(
    ("job", "expect", "hours"),
    [
        ({"nodes": ["a", "b"], "elapsed": 5400}, {"gpus_per_node": 8}, 24.0),
        ({"nodes": ["a"], "elapsed": 10}, {"gpus_per_node": 1}, 0.002778),
        ({"nodes": ["a"], "elapsed": 0}, {"gpus_per_node": 8}, 0.0),
        ({"nodes": [], "elapsed": 5400}, {"gpus_per_node": 8}, None),
        ({"nodes": ["a"], "elapsed": None}, {"gpus_per_node": 8}, None),
        ({"nodes": ["a"], "elapsed": 5400}, {}, None),
        ({}, {"gpus_per_node": 8}, None),
    ],
)
def test_gpu_hours(job: dict[str, Any], expect: dict[str, Any], hours: float | None) -> None:
    assert _run_result.gpu_hours(job, expect) == hours


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"torch": "2.2.1", "driver": "535.129.03"}', {"torch": "2.2.1", "driver": "535.129.03"}),
        ('{"torch": NaN}', None),
        ('{"torch"', None),
        ("[]", None),
        (None, None),
        ('{"a": "%s"}' % ("x" * _run_result.ENVIRONMENT_LIMIT), None),
    ],
)
def test_the_containers_own_words(tmp_path: Path, text: str | None, found: dict[str, Any] | None) -> None:
    if text is not None:
        (tmp_path / "environment.json").write_text(text)
    assert _run_result.read_environment(str(tmp_path)) == found


def test_output_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (tmp_path / "x.bin").write_text("x")

    wanted = {"files": ["x.bin"]}
    assert _run_result._read_output(str(tmp_path), wanted, 60.0, sleep).files == {"x.bin": ["x.bin"]}
    assert waits == [1.0, 2.0]
    (tmp_path / "x.bin").unlink()
    waits.clear()
    assert _run_result._read_output(str(tmp_path), wanted, 0.0, sleep).files == {"x.bin": []}
    assert waits == []


def test_the_trainers_own_losses_beat_those_of_the_log() -> None:
    facts = LogFacts("huggingface", series=[[10.0, 2.5, None], [12.0, None, 1.0], [20.0, 2.4, 1.5]])
    assert _run_result._series(facts, None)["points"] == facts.series
    state = OutputFacts(trainer_state=TrainerState(20, 20, 1.0, losses=[(15, 0.5), (20, 0.4)]))
    series = _run_result._series(facts, state)
    assert series["columns"] == ["step", "seconds_per_step", "loss"]
    assert series["points"] == [[10.0, 2.5, None], [15.0, None, 0.5], [20.0, 2.4, None], [20.0, None, 0.4]]
    many = OutputFacts(trainer_state=TrainerState(1, 1, 1.0, losses=[(step, 1.0) for step in range(2000)]))
    assert len(_run_result._series(None, many)["points"]) == 400
    assert _run_result._series(None, None)["points"] == []


def test_facts_on_record_leave_the_curves_to_their_file() -> None:
    told = _run_result._recorded_facts(LogFacts("nemo", last_step=5, series=[[1.0, 1.0, 1.0]]))
    assert told is not None
    assert (told["last_step"], "series" in told) == (5, False)
    json.dumps(told, allow_nan=False)
    assert _run_result._recorded_facts(None) is None


def test_whose_run_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_number: int) -> None:
        raise KeyError

    monkeypatch.setattr(_run_record.pwd, "getpwuid", unknown)
    assert _run_record.user_of(str(tmp_path)) == str(os.getuid())
