# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the three gates and of the numbers of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils import _gates, _training_log
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import LogFacts, merge_facts, read_log

EXPECT: dict[str, Any] = {
    "nodes": 2,
    "gpus_per_node": 8,
    "ranks": 16,
    "steps": 20,
    "max_time_seconds": 5400,
    "global_batch_size": 512,
    "sequence_length": 2048,
}
JOB: dict[str, Any] = {
    "job_id": "181",
    "state": "COMPLETED",
    "exit_code": 0,
    "signal": 0,
    "verdict": "succeeded",
    "failure_class": None,
    "nodes": ["gpu001", "gpu002"],
    "steps": [
        {"id": "batch", "state": "COMPLETED", "exit_code": 0, "signal": 0, "nodes": 1, "tasks": 1},
        {"id": "extern", "state": "COMPLETED", "exit_code": 0, "signal": 0, "nodes": 2, "tasks": 2},
        {"id": "0", "state": "COMPLETED", "exit_code": 0, "signal": 0, "nodes": 2, "tasks": 16},
    ],
}
STOPPED = "`Trainer.fit` stopped: `max_steps=20` reached.\n"
TIME_UP = "Time limit reached. Elapsed time is 1:30:02. Signaling Trainer to stop.\n"


def progress_bar(step: int, total: int = 20, loss: str = "5.640", batch: int = 512, elapsed: str | None = None) -> str:
    clock = elapsed or f"{step * 13 // 60:02d}:{step * 13 % 60:02d}"
    return (
        f"\rEpoch 0: : {100 * step // total:3d}%|▏         | {step}/{total} [{clock}<00:10, v_num=m9yd, "
        f"reduced_train_loss={loss}, global_step={step - 1}.0, consumed_samples={step * batch}.0, "
        f"train_step_timing in s=13.{step % 2}0]"
    )


def training(last: int = 20, first: int = 1, **options: Any) -> str:
    return "".join(progress_bar(step, **options) for step in range(first, last + 1)) + "\n"


def ranks(world: int = 16, missing: int | None = None) -> str:
    return "".join(
        f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{world}\n"
        for rank in range(world)
        if rank != missing
    )


def facts_of(out: str, err: str = "", log_format: str = "nemo") -> LogFacts:
    return merge_facts([read_log([out.encode()], log_format), read_log([err.encode()], log_format)])


def judge(
    expect: dict[str, Any] | None = None, job: dict[str, Any] | None = None, facts: LogFacts | None = None
) -> _gates.Judgement:
    judgement = _gates.judge(
        {**EXPECT, **(expect or {})},
        {**JOB, **(job or {})},
        facts if facts is not None else facts_of(training(), ranks() + STOPPED),
    )
    json.dumps(judgement.as_dict(), allow_nan=False)
    return judgement


def gate(judgement: _gates.Judgement, name: str) -> _gates.Gate:
    return next(gate for gate in judgement.gates if gate.name == name)


def test_a_good_run() -> None:
    judgement = judge()
    assert [(gate.name, gate.passed) for gate in judgement.gates] == [
        ("slurm", True),
        ("log", True),
        ("topology", True),
    ]
    assert judgement.verdict == "succeeded"
    seconds = judgement.metrics["seconds_per_step"]
    assert (seconds.unit, seconds.count, seconds.first_step, seconds.last_step) == ("s", 18, 3, 20)
    assert seconds.mean == pytest.approx(13.05)
    assert seconds.standard_deviation == pytest.approx(0.0514, abs=1e-3)
    assert seconds.reason is None
    assert "train_step_timing" in seconds.source
    assert judgement.metrics["samples_per_second"].mean == pytest.approx(512 / 13.05)
    tokens = judgement.metrics["tokens_per_second"]
    assert seconds.standard_deviation is not None
    assert tokens.mean == pytest.approx(512 * 2048 / 13.05)
    assert tokens.standard_deviation == pytest.approx(512 * 2048 / 13.05 * seconds.standard_deviation / 13.05)


def test_the_documents_numbers() -> None:
    line = (
        "Epoch 0: :   2%|▏         | 180/10050 [40:46<37:16:04, v_num=m9yd, reduced_train_loss=5.640, "
        "global_step=179.0, consumed_samples=92160.0, train_step_timing in s=13.40]"
    )
    judgement = judge({"steps": 180}, facts=facts_of(line, ranks()))
    assert gate(judgement, "log").passed is True
    judgement = judge({"steps": 180, "global_batch_size": 256}, facts=facts_of(line, ranks()))
    assert gate(judgement, "log").passed is False
    assert "(global_step + 1) x 256" in gate(judgement, "log").message


# Slurm.


@pytest.mark.parametrize(
    ("job", "passed", "words"),
    [
        ({}, True, "without an error"),
        ({"verdict": None}, None, "no verdict"),
        ({"state": None}, None, "sacct -j 181"),
        ({"state": ""}, None, "sacct -j 181"),
        ({"verdict": "active"}, None, "not finished"),
        ({"verdict": "unknown"}, None, "does not know"),
        ({"state": "TIMEOUT", "verdict": None}, False, "TIMEOUT, not COMPLETED"),
        ({"state": "TIMEOUT"}, False, "TIMEOUT, not COMPLETED"),
        (
            {"verdict": "failed", "failure_class": "timeout", "message": "The job reached its time limit."},
            False,
            "The job reached its time limit. (timeout)",
        ),
        ({"exit_code": 1}, False, "exit code 1"),
        ({"signal": 9}, False, "signal 9"),
        ({"exit_code": None}, None, "no exit code"),
        (
            {
                "steps": [{"id": "0", "state": "FAILED", "exit_code": 1, "nodes": 2, "tasks": 16}],
                "message": "steps 0 failed, which was asked to be tolerated",
            },
            True,
            "completed",
        ),
    ],
)
def test_the_gate_of_slurm(job: dict[str, Any], passed: bool | None, words: str) -> None:
    slurm = gate(judge(job=job), "slurm")
    assert slurm.passed is passed
    assert words in slurm.message
    assert "181" in slurm.evidence


# The log.


@pytest.mark.parametrize(
    ("out", "err", "expect", "passed", "words"),
    [
        (training(), STOPPED, {}, True, "last step is 20"),
        (training(), "", {}, True, "last step is 20"),
        (training(19), "", {"max_time_seconds": None}, False, "step 19 of 20"),
        (training(19), "", {}, False, "step 19 of 20"),
        (training(21, total=30), "", {}, False, "beyond the 20"),
        (training(19), TIME_UP, {}, True, "step 19 by max_time"),
        (training(19), TIME_UP, {"max_time_seconds": None}, False, "no max_time was expected"),
        (training(19), TIME_UP, {"max_time_seconds": 7200}, False, "after 5402 seconds"),
        (training(19) + progress_bar(20, total=40, elapsed="1:29:59"), "", {"steps": 40}, True, "by max_time"),
        (training(19) + progress_bar(20, total=40, elapsed="1:20:59"), "", {"steps": 40}, False, "step 20 of 40"),
        (training(), "`Trainer.fit` stopped: `max_steps=30` reached.\n", {}, False, "max_steps 30"),
        (training(19, loss="nan.0") + progress_bar(20, loss="nan.0"), "", {}, False, "NaN (20 times)"),
        (training(19) + progress_bar(20, loss="inf.0"), "", {}, False, "infinite (1 times)"),
        (training(batch=256), "", {}, False, "(global_step + 1) x 512"),
        (training(batch=256), "", {"global_batch_size": None}, True, "last step is 20"),
        (training(first=11, batch=512), "Restored all states from the checkpoint\n", {}, True, "grew by 512"),
        ("", STOPPED, {}, None, "no loss"),
        ("hello\n", "", {}, None, "no training progress"),
        (training() + "Traceback (most recent call last):\n", "", {}, False, "Python exception"),
        (training(), STOPPED + "OSError: [Errno 28] No space left on device\n", {}, False, "file system is full"),
        (training(), "OSError: [Errno 28] No space left on device\n" + STOPPED, {}, True, "last step is 20"),
        (training(10) + "\nTraceback (most recent call last):\n" + training(first=11), "", {}, True, "last step is 20"),
        (training(), "", {"steps": None}, True, "20 of 20"),
        (training(19), "", {"steps": None}, False, "step 19 of 20"),
        (training(19), STOPPED, {"steps": None}, True, "complete"),
    ],
)
def test_the_gate_of_the_log(out: str, err: str, expect: dict[str, Any], passed: bool | None, words: str) -> None:
    log = gate(judge(expect, facts=facts_of(out, ranks() + err)), "log")
    assert (log.passed, words in log.message) == (passed, True), log


def test_without_a_log_nothing_is_known() -> None:
    judgement = _gates.judge(EXPECT, JOB, None)
    assert (judgement.verdict, gate(judgement, "log").passed) == ("unknown", None)
    assert judgement.metrics["seconds_per_step"].mean is None
    assert gate(judge(facts=facts_of("")), "log").passed is None


def test_samples_within_the_printed_precision() -> None:
    line = (
        "Epoch 0: : 100%|█| 795/795 [9:07:58<00:00, reduced_train_loss=3.090, global_step=794.0, consumed_samples={}]"
    )
    for printed, passed in (("1.63e+6", True), ("1.62e+6", False), ("1.64e+6", False)):
        judgement = judge({"steps": 795, "global_batch_size": 2048}, facts=facts_of(line.format(printed), ranks()))
        assert gate(judgement, "log").passed is passed
    rounded = line.replace("794.0", "2e+3").replace("795/795", "2000/2000").format("1.02e+6")
    assert gate(judge({"steps": 2000}, facts=facts_of(rounded, ranks())), "log").passed is True


def test_a_batch_size_that_the_log_does_not_show() -> None:
    line = "Epoch 0: : 100%|█| 20/20 [07:58<00:00, reduced_train_loss=3.090, global_step=19.00]"
    log = gate(judge(facts=facts_of(line, ranks())), "log")
    assert log.passed is None
    assert "global batch size 512 is not proved" in log.message


def test_a_resumed_training_with_another_batch_size() -> None:
    text = "Restored all states from the checkpoint\n" + training(first=11, batch=256)
    log = gate(judge(facts=facts_of(text, ranks())), "log")
    assert log.passed is False
    assert "did not grow by 512" in log.message


def test_the_format_none_checks_crash_text_only() -> None:
    expect = {"steps": None, "global_batch_size": None, "ranks": None, "max_time_seconds": None}
    assert judge(expect, facts=facts_of("hello\n", log_format="none")).verdict == "succeeded"
    assert judge(expect, facts=facts_of("Segmentation fault\n", log_format="none")).verdict == "failed"
    assert judge({**expect, "steps": 5}, facts=facts_of("hello\n", log_format="none")).verdict == "unknown"


# The topology.


@pytest.mark.parametrize(
    ("err", "expect", "job", "passed", "words"),
    [
        (ranks(), {}, {}, True, "All ranks 0 to 15"),
        (ranks(8), {}, {}, False, "8 ranks, but 16"),
        (ranks(missing=7), {}, {}, False, "Only 15 of 16"),
        (ranks(missing=7) + "Starting with 16 processes\n", {}, {}, True, "All 16 processes registered"),
        (ranks() + ranks(8), {}, {}, False, "disagree"),
        (ranks(1) * 16, {}, {}, False, "16 processes each trained alone"),
        ("Starting with 16 processes\n", {}, {}, True, "16 processes"),
        ("Starting with 8 processes\n", {}, {}, False, "8 processes"),
        ("", {}, {}, True, "the log names no ranks"),
        ("", {}, {"steps": []}, None, "Neither the log nor Slurm"),
        ("", {"ranks": 32}, {}, False, "16 tasks, but 32"),
        ("", {}, {"steps": [{"id": "0", "state": "COMPLETED", "nodes": 2, "tasks": 2}]}, None, "one task a node"),
        (ranks(), {}, {"nodes": ["gpu001"]}, False, "1 nodes, but 2"),
        (ranks(), {}, {"nodes": ["gpu001", "gpu001"]}, False, "1 nodes, but 2"),
        (ranks(), {}, {"nodes": []}, None, "does not tell the nodes"),
        (
            ranks(),
            {},
            {"steps": [{"id": "181.0", "state": "COMPLETED", "nodes": 1, "tasks": 16}]},
            False,
            "step used 1",
        ),
        (ranks(), {"nodes": None, "ranks": None}, {"nodes": []}, True, "none were checked"),
    ],
)
def test_the_gate_of_the_topology(
    err: str, expect: dict[str, Any], job: dict[str, Any], passed: bool | None, words: str
) -> None:
    topology = gate(judge(expect, job, facts_of(training(), err + STOPPED)), "topology")
    assert (topology.passed, words in topology.message) == (passed, True), topology


HF_SETTINGS = (
    "[INFO|trainer.py:1780] x >>   Instantaneous batch size per device = 12\n"
    "[INFO|trainer.py:1781] x >>   Total train batch size (w. parallel, distributed & accumulation) = {}\n"
    "[INFO|trainer.py:1782] x >>   Gradient Accumulation steps = 10\n"
    "[INFO|trainer.py:1783] x >>   Total optimization steps = 64\n"
)


@pytest.mark.parametrize(("batch", "log", "topology"), [("1,920", True, True), ("960", False, False)])
def test_hugging_face_tells_its_processes_by_its_batch_sizes(batch: str, log: bool, topology: bool) -> None:
    expect = {"steps": 64, "global_batch_size": 1920, "max_time_seconds": None}
    text = HF_SETTINGS.format(batch) + "100%|██████████| 64/64 [13:34<00:00, 12.72s/it]\n"
    job = {"steps": [{"id": "0", "state": "COMPLETED", "nodes": 2, "tasks": 2}]}
    judgement = judge(expect, job, facts_of(text, log_format="huggingface"))
    assert (gate(judgement, "log").passed, gate(judgement, "topology").passed) == (log, topology)


# Verdict and metrics.


def test_a_run_that_did_not_reach_its_end_has_no_number() -> None:
    judgement = judge(facts=facts_of(training(19), ranks()))
    assert judgement.verdict == "failed"
    for metric in judgement.metrics.values():
        assert metric.mean is None
        assert metric.count == 0
        assert "log" in (metric.reason or "")


def test_reasons_for_missing_numbers() -> None:
    one = judge({"steps": 1}, facts=facts_of(progress_bar(1, total=1), ranks())).metrics["seconds_per_step"]
    assert (one.mean, one.reason) == (None, "the log shows no step time after the warm-up")
    tokens = judge({"sequence_length": None}).metrics
    assert tokens["tokens_per_second"].mean is None
    assert "sequence length" in (tokens["tokens_per_second"].reason or "")
    assert tokens["samples_per_second"].mean is not None


def test_nonsense_is_named() -> None:
    with pytest.raises(ValueError, match="steps is 'many', but must be a whole number"):
        judge({"steps": "many"})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "", None]),
            "exit_code": st.sampled_from([0, 1, None]),
            "signal": st.sampled_from([0, 9, None]),
            "nodes": st.lists(st.sampled_from(["gpu001", "gpu002"]), max_size=3),
            "verdict": st.sampled_from(["succeeded", "failed", "active", "unknown", None]),
            "steps": st.just([]),
        },
    ),
    st.sampled_from([training(), training(19), "", "x\n", training(loss="nan.0")]),
    st.sampled_from([ranks(), ranks(8), "", STOPPED, TIME_UP, ranks() + STOPPED]),
)
def test_success_needs_every_gate(job: dict[str, Any], out: str, err: str) -> None:
    judgement = _gates.judge(EXPECT, job, facts_of(out, err))
    json.dumps(judgement.as_dict(), allow_nan=False)
    passed = [gate.passed for gate in judgement.gates]
    assert (judgement.verdict == "succeeded") == (passed == [True, True, True])
    assert (judgement.verdict == "failed") == (False in passed)
    assert (judgement.metrics["seconds_per_step"].mean is None) == (judgement.verdict != "succeeded")
    assert all(gate.message for gate in judgement.gates)


# Logs that a real Slurm job of the sandbox's trainer left behind. A progress bar writes carriage returns; in the
# repository, where no line may end in one, U+240D stands for each of them.

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"


def real_log(name: str) -> bytes:
    return (LOGS / name).read_bytes().replace("\u240d".encode(), b"\r")


@pytest.fixture
def real_facts(tmp_path: Path) -> Callable[[str], LogFacts]:
    def read(name: str) -> LogFacts:
        paths = [tmp_path / f"{name}.{stream}" for stream in ("out", "err")]
        for path in paths:
            path.write_bytes(real_log(path.name))
        facts = _training_log.read_log_files([str(path) for path in paths], "nemo")
        assert facts is not None
        return facts

    return read


def test_the_real_logs_hold_carriage_returns() -> None:
    assert b"\r" in real_log("nemo_complete.out")
    assert not any(b"\r" in path.read_bytes() for path in LOGS.iterdir())


def test_a_real_complete_run(real_facts: Callable[[str], LogFacts]) -> None:
    facts = real_facts("nemo_complete")
    judgement = judge({"steps": 120}, facts=facts)
    assert judgement.verdict == "succeeded", judgement
    assert (facts.first_step, facts.last_step, facts.total_steps, facts.resumed) == (1, 120, 120, False)
    assert (facts.loss_count, facts.nan_count, facts.attempts) == (120, 0, 1)
    assert facts.validation_count == 2
    assert facts.last_validation_loss == 3.95
    seconds = judgement.metrics["seconds_per_step"]
    assert (seconds.count, seconds.first_step, seconds.last_step) == (110, 11, 120)


def test_a_real_stop_by_max_time(real_facts: Callable[[str], LogFacts]) -> None:
    facts = real_facts("nemo_max_time")
    assert (facts.stop_reason, facts.stop_elapsed_seconds, facts.last_step) == ("max_time", 4.0, 201)
    assert judge({"steps": 10050, "max_time_seconds": 4}, facts=facts).verdict == "succeeded"
    assert judge({"steps": 10050, "max_time_seconds": None}, facts=facts).verdict == "failed"
    # Two thirds of the message's time were asked for at most: the run used other settings.
    assert judge({"steps": 10050, "max_time_seconds": 6}, facts=facts).verdict == "failed"


def test_a_real_crash_of_one_rank(real_facts: Callable[[str], LogFacts]) -> None:
    facts = real_facts("nemo_crashed_rank")
    judgement = judge({"steps": 20100}, facts=facts)
    log = gate(judgement, "log")
    assert (judgement.verdict, log.passed, gate(judgement, "topology").passed) == ("failed", False, True)
    assert "step 146 of 20100" in log.message
    names = {failure.name for failure in facts.failures}
    assert {"traceback", "task_failed"} <= names
    progress = _training_log.tail_progress(real_log("nemo_crashed_rank.out")[-4096:], "nemo")
    assert progress is not None
    assert (progress.step, progress.total, progress.loss) == (146, 20100, 2.85)


def test_what_an_earlier_run_of_a_requeued_job_left_in_its_log_is_no_crash() -> None:
    line = (
        "slurmstepd-gpu004: error: *** JOB 181 ON gpu004 CANCELLED AT 2026-12-01T07:54:08 DUE TO PREEMPTION ***\nend\n"
    )
    facts = read_log([line.encode()], "none")
    job = {
        "job_id": "181",
        "state": "COMPLETED",
        "verdict": "succeeded",
        "exit_code": 0,
        "signal": 0,
        "nodes": ["gpu004"],
    }
    assert _gates.judge({}, {**job, "restarts": 1}, facts).verdict == "succeeded"
    assert _gates.judge({}, {**job, "restarts": 0}, facts).verdict == "failed"
