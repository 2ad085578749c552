# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is read of a training's output: its files, and the state of Hugging Face's Trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _trainer_state
from ansible_collections.dgxc.workloads.plugins.module_utils._trainer_state import (
    StateError,
    matching_files,
    parse_trainer_state,
    pattern_problem,
    read_output,
)

# The shape and the numbers of the guide's example for one GPU.
STATE: dict[str, Any] = {
    "best_metric": 1.0,
    "epoch": 1.5,
    "global_step": 150,
    "max_steps": 150,
    "num_train_epochs": 9223372036854775807,
    "log_history": [
        {"epoch": 0.07, "grad_norm": 14.36, "learning_rate": 3.3e-05, "loss": 2.4146, "step": 10},
        {"epoch": 1.5, "grad_norm": 0.6468, "learning_rate": 0.0, "loss": 0.0889, "step": 150},
        {"epoch": 1.5, "eval_accuracy": 1.0, "eval_loss": 0.0483, "eval_runtime": 14.0177, "step": 150},
        {"epoch": 1.5, "step": 150, "train_loss": 0.5026, "train_runtime": 150.2643, "total_flos": 1.5e18},
    ],
}


def test_the_guides_state() -> None:
    state = parse_trainer_state(json.dumps(STATE))
    assert (state.global_step, state.max_steps, state.last_epoch) == (150, 150, 1.5)
    assert (state.evaluations, state.evaluation_loss) == (1, 0.0483)
    assert state.losses == [(10, 2.4146), (150, 0.0889)]
    assert state.runtime_seconds == 150.2643


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(STATE)[:-30], "is cut or damaged"),
        ("", "is cut or damaged"),
        ("[" * 100_000, "is cut or damaged"),
        (json.dumps(STATE).replace("2.4146", "NaN"), "holds NaN, which is no number"),
        (json.dumps(STATE).replace("2.4146", "-Infinity"), "holds -Infinity"),
        ("[]", "no log_history"),
        ('{"log_history": {}, "global_step": 1}', "no log_history"),
        ('{"log_history": []}', "no global_step"),
        ('{"log_history": [], "global_step": true}', "no global_step"),
        ('{"log_history": [], "global_step": -1}', "no global_step"),
    ],
)
def test_what_is_no_whole_state_is_told(text: str, words: str) -> None:
    with pytest.raises(StateError, match=words):
        parse_trainer_state(text)


def test_values_that_are_none_are_left_out() -> None:
    text = (
        '{"global_step": 3, "log_history": [7, {"loss": "1", "step": 1}, {"epoch": 1e999, "step": 2}, {"loss": true}]}'
    )
    state = parse_trainer_state(text)
    assert (state.losses, state.last_epoch, state.max_steps) == ([], None, None)


@pytest.mark.parametrize("norm", ["NaN", "Infinity"])
def test_a_step_that_the_scaler_of_fp16_left_out_is_no_lost_loss(norm: str) -> None:
    text = '{"global_step": 1, "log_history": [{"loss": 2.5, "grad_norm": %s, "step": 1}]}' % norm
    assert parse_trainer_state(text).losses == [(1, 2.5)]


@pytest.mark.parametrize("name", ["loss", "eval_loss", "train_loss"])
def test_a_loss_that_is_no_number_is_told(name: str) -> None:
    with pytest.raises(StateError, match="the loss was lost"):
        parse_trainer_state('{"global_step": 1, "log_history": [{"%s": 1e999, "step": 1}]}' % name)


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("output/adapter_model.bin", False),
        ("output/**/*.safetensors", False),
        ("output/..data/x", False),
        ("/etc/passwd", True),
        ("../other/x", True),
        ("output/../../x", True),
        ("", True),
        (7, True),
        (None, True),
        ("a\0b", True),
    ],
)
def test_paths_stay_below_the_folder(pattern: object, wrong: bool) -> None:
    assert bool(pattern_problem(pattern)) is wrong


def test_files_count_when_they_have_content(tmp_path: Path) -> None:
    folder = tmp_path / "attempt-1 [a]"
    (folder / "output" / "deep").mkdir(parents=True)
    (folder / "output" / "adapter_model.bin").write_bytes(b"x")
    (folder / "output" / "deep" / "model.bin").write_bytes(b"x")
    (folder / "output" / "empty.bin").touch()
    (folder / "output" / "folder.bin").mkdir()
    (folder / "output" / "lost.bin").symlink_to(tmp_path / "nothing")
    assert matching_files(str(folder), "output/*.bin") == ["output/adapter_model.bin"]
    assert matching_files(str(folder), "output/**/*.bin") == ["output/adapter_model.bin", "output/deep/model.bin"]
    assert matching_files(str(folder), "output/empty.bin") == []
    assert matching_files(str(folder / "absent"), "*") == []
    facts = read_output(str(folder), {"files": ["output/*.bin", "../*"]})
    assert facts.files == {"output/*.bin": ["output/adapter_model.bin"], "../*": []}
    assert facts.is_complete() is False


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "There is no output/trainer_state.json"),
        (b"", "is empty"),
        (b"\xff\xfe{", "is cut or damaged"),
        (json.dumps(STATE).encode()[:100], "is cut or damaged"),
        (json.dumps(STATE).encode(), ""),
    ],
)
def test_a_state_is_read_or_its_fault_is_told(tmp_path: Path, content: bytes | None, words: str) -> None:
    (tmp_path / "output").mkdir()
    if content is not None:
        (tmp_path / "output" / "trainer_state.json").write_bytes(content)
    facts = read_output(str(tmp_path), {"trainer_state": "output/trainer_state.json"})
    assert words in facts.trainer_state_problem
    assert (facts.trainer_state is None) is bool(words)
    assert facts.is_complete() is not bool(words)


def test_a_state_elsewhere_or_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "leads out" in read_output(str(tmp_path), {"trainer_state": "../x.json"}).trainer_state_problem
    (tmp_path / "folder.json").mkdir()
    assert "cannot be read" in read_output(str(tmp_path), {"trainer_state": "folder.json"}).trainer_state_problem
    (tmp_path / "x.json").write_text(json.dumps(STATE))
    monkeypatch.setattr(_trainer_state, "STATE_LIMIT_BYTES", 100)
    assert "more than 100 bytes" in read_output(str(tmp_path), {"trainer_state": "x.json"}).trainer_state_problem
