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
from ansible_collections.dgxc.workloads.plugins.module_utils._trainer_state import TrainerState
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


# What the trainer tells of itself, and what it leaves behind.

TRAINER = (
    "{0}[INFO|trainer.py:1777] >> ***** Running training *****\n"
    "{0}[INFO|trainer.py:1778] >>   Num examples = 15,406\n"
    "{0}[INFO|trainer.py:1781] >>   Total train batch size (w. parallel, distributed & accumulation) = {1}\n"
    "{0}[INFO|trainer.py:1783] >>   Total optimization steps = 64\n"
    "{0}[INFO|trainer.py:1784] >>   Number of trainable parameters = 7,733,248\n"
)
TWO_TASKS = TRAINER.format("0: ", "1,920") + TRAINER.format("1: ", "1,920")


def accelerate(
    text: str = TWO_TASKS, found: _gates.OutputFacts | None = None, **expect: Any
) -> tuple[_gates.Judgement, LogFacts]:
    processes = "".join(f"Process ID: {rank} of 16\n" for rank in range(16))
    facts = facts_of(text + "100%|██████████| 64/64 [13:34<00:00, 12.72s/it]\n", processes, "huggingface")
    wanted = {"nodes": 2, "gpus_per_node": 8, "ranks": 16, "steps": 64, **expect}
    judgement = _gates.judge(wanted, JOB, facts, found)
    json.dumps(judgement.as_dict(), allow_nan=False)
    return judgement, facts


@pytest.mark.parametrize(
    ("expect", "name", "passed", "words"),
    [
        ({"num_examples": 15406, "trainable_parameters": 7733248}, "log", True, "15406, as expected"),
        ({"num_examples": 15405}, "log", False, "15406, but 15405 was expected; check the data"),
        ({"trainable_parameters": 1}, "log", False, "check the model"),
        ({"tasks": 2}, "topology", True, "All tasks 0 to 1"),
        ({"tasks": 3}, "topology", False, "shows the tasks 0-1, but 0 to 2"),
        ({"tasks": 1}, "topology", False, "0 to 0"),
        ({"global_batch_size": 1920}, "log", True, "as expected"),
    ],
)
def test_what_the_trainer_tells(expect: dict[str, Any], name: str, passed: bool, words: str) -> None:
    judgement, _facts = accelerate(**expect)
    assert gate(judgement, name).passed is passed
    assert words in gate(judgement, name).message
    assert judgement.verdict == ("succeeded" if passed else "failed")


@pytest.mark.parametrize(
    ("expect", "name", "words"),
    [
        ({"num_examples": 15406}, "log", "let the trainer log at level info"),
        ({"trainable_parameters": 7733248}, "log", "let the trainer log at level info"),
        ({"tasks": 2}, "topology", "srun --label"),
    ],
)
def test_what_the_trainer_does_not_tell_is_not_known(expect: dict[str, Any], name: str, words: str) -> None:
    judgement, _facts = accelerate("", **expect)
    assert gate(judgement, name).passed is None
    assert words in gate(judgement, name).message
    assert judgement.verdict == "unknown"


def test_tasks_that_train_for_themselves_are_seen() -> None:
    text = TRAINER.format("0: ", "960") + TRAINER.format("1: ", "1,920")
    judgement, _facts = accelerate(text, global_batch_size=1920)
    assert gate(judgement, "log").passed is False
    assert "The tasks disagree about the total train batch size" in gate(judgement, "log").message


def state(**changes: Any) -> _gates.OutputFacts:
    values = {"global_step": 64, "max_steps": 64, "last_epoch": 7.9, "evaluations": 1, "evaluation_loss": 0.5}
    return _gates.OutputFacts(trainer_state=TrainerState(**{**values, **changes}), trainer_state_path="output/x.json")


@pytest.mark.parametrize(
    ("wanted", "found", "passed", "words"),
    [
        ({"files": ["output/a*"]}, _gates.OutputFacts({"output/a*": ["output/ab"]}), True, "There is output/a*"),
        ({"files": ["output/a*"]}, _gates.OutputFacts({"output/a*": []}), False, "No file with content matches"),
        ({"trainer_state": "output/x.json"}, state(), True, "step 64, as asked"),
        ({"trainer_state": "output/x.json"}, state(global_step=63), False, "step 63, but 64"),
        ({"trainer_state": "x", "last_epoch": 7}, state(), True, "The last epoch is 7"),
        ({"trainer_state": "x", "last_epoch": 8}, state(), False, "7.9, but 8 was expected"),
        ({"trainer_state": "x", "last_epoch": 0}, state(last_epoch=None), False, "None, but 0"),
        ({"trainer_state": "x", "evaluation": True}, state(), True, "loss is 0.5"),
        ({"trainer_state": "x", "evaluation": True}, state(evaluation_loss=None), False, "has no eval_loss"),
        ({"trainer_state": "x"}, _gates.OutputFacts(trainer_state_problem="x is empty."), False, "x is empty."),
        ({"files": ["a"]}, None, None, "Nobody looked"),
        ({"files": []}, _gates.OutputFacts(), True, "No output was expected"),
    ],
)
def test_the_output(wanted: dict[str, Any], found: _gates.OutputFacts | None, passed: bool | None, words: str) -> None:
    judgement, _facts = accelerate(found=found, output=wanted)
    assert [one.name for one in judgement.gates] == ["slurm", "log", "topology", "output"]
    assert gate(judgement, "output").passed is passed
    assert words in gate(judgement, "output").message
    assert judgement.verdict == {True: "succeeded", False: "failed", None: "unknown"}[passed]


def test_output_that_nobody_expected_is_no_gate() -> None:
    judgement, _facts = accelerate(output={})
    assert [one.name for one in judgement.gates] == ["slurm", "log", "topology"]


def test_losses_are_numbers_of_a_run() -> None:
    judgement, facts = accelerate(TWO_TASKS + "{'loss': 2.5, 'epoch': 1.0}\n{'eval_loss': 0.75, 'epoch': 8.0}\n")
    loss, evaluation = judgement.metrics["training_loss"], judgement.metrics["evaluation_loss"]
    assert (loss.mean, loss.count, loss.last_step, loss.source) == (2.5, 1, 64, "log: the last loss")
    assert (evaluation.mean, evaluation.reason) == (0.75, None)
    judged = _gates.judge({"output": {"trainer_state": "x"}}, JOB, facts, state(losses=[(10, 2.0), (60, 1.5)]))
    assert judged.metrics["training_loss"].mean == 1.5
    assert "trainer_state.json" in judged.metrics["training_loss"].source
    assert judged.metrics["evaluation_loss"].mean == 0.5
    judgement, _facts = accelerate()
    assert judgement.metrics["training_loss"].reason == "the log shows no loss"
    assert judgement.metrics["evaluation_loss"].reason == "no evaluation was made"


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ({"nodes": 2, "output": {"files": ["a"]}, "steps": None}, []),
        ({}, []),
        ({"output": None}, []),
        ({"node": 2}, ["'node'; did you mean 'nodes'?"]),
        ({"zzz": 2}, ["it may have nodes"]),
        ({"steps": "many", "ranks": True, "nodes": -1}, ["steps", "ranks", "nodes"]),
        ({"output": []}, ["must be a dictionary"]),
        ({"output": {"file": []}}, ["did you mean 'files'?"]),
        ({"output": {"files": "a"}}, ["must be a list"]),
        ({"output": {"files": ["/a", "../b"]}}, ["'/a' leads out", "'../b' leads out"]),
        ({"output": {"last_epoch": 0}}, ["read in trainer_state"]),
    ],
)
def test_expectations_that_make_no_sense(expect: dict[str, Any], words: list[str]) -> None:
    problems = _gates.expectation_problems(expect)
    assert len(problems) == len(words)
    for problem, word in zip(problems, words, strict=True):
        assert word in problem


# The likeliest cause.


@pytest.mark.parametrize(
    ("lines", "name", "first"),
    [
        (
            "[rank1]:[E ProcessGroupNCCL.cpp:537] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(Seq\n"
            "[rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
            "Traceback (most recent call last):\n"
            "srun: error: gpu001: task 0: Exited with exit code 1\n"
            "slurmstepd: error: *** STEP 181.0 ON gpu001 CANCELLED AT 2024-03-12T01:36:28 ***\n",
            "cuda_out_of_memory",
            "A GPU ran out of memory",
        ),
        (
            "0: bash: /attempt/launch.sh: No such file or directory\nsrun: error: gpu001: task 0: Exited with exit code 127\n",
            "container_not_entered",
            "The command ran outside the container",
        ),
        (
            "slurmstepd: error: pyxis: child 95267 failed with error code: 6\n"
            "slurmstepd: error: pyxis: failed to import docker image\n"
            "slurmstepd: error: pyxis:     curl: (6) Could not resolve host: registry-1.docker.io\n"
            "slurmstepd: error: pyxis: couldn't start container\n",
            "registry_unreachable",
            "A node could not reach the registry",
        ),
    ],
)
def test_the_likeliest_cause_is_told_first(lines: str, name: str, first: str) -> None:
    facts = facts_of(training(5), ranks() + lines)
    cause = _gates.likely_cause(facts)
    assert cause is not None
    assert cause.name == name
    crash = judge(facts=facts_of(training(), ranks() + lines))
    assert gate(crash, "log").message.startswith(first)
    assert crash.verdict == "failed"


def test_a_failure_that_was_survived_is_no_cause() -> None:
    text = "CUDA out of memory\nRuntimeError: CUDA out of memory. Tried\n" + training()
    assert _gates.likely_cause(read_log([text.encode()], "nemo")) is None
    assert _gates.likely_cause(None) is None
    # A hint is a cause only where nothing worse is seen.
    hint = read_log([b"fatal: detected dubious ownership in repository at '/x'\n"], "none")
    found = _gates.likely_cause(hint)
    assert found is not None
    assert found.name == "git_ownership"


def test_a_clock_of_whole_seconds_that_is_too_coarse_is_no_measurement() -> None:
    bars = "".join(f"\r{25 * step:3d}%|█   | {step}/4 [00:0{step // 3}<00:00,  2.50it/s]" for step in range(5))
    expect = {"steps": 4, "global_batch_size": 8}
    facts = read_log([bars.encode()], "huggingface")
    found = _gates.judge(expect, JOB, facts).metrics["seconds_per_step"]
    assert (found.mean, "too few and too short" in (found.reason or "")) == (None, True)
    told = read_log([(bars + "\n{'train_runtime': 1.5, 'train_loss': 0.67, 'epoch': 1.5}\n").encode()], "huggingface")
    found = _gates.judge(expect, JOB, told).metrics["seconds_per_step"]
    assert (found.mean, found.standard_deviation, found.count) == (0.375, None, 4)
    assert found.source == "trainer: train_runtime / steps, warm-up included"
    state = _gates.OutputFacts(trainer_state=TrainerState(4, 4, 1.0, runtime_seconds=2.0))
    metrics = _gates.judge({**expect, "output": {"trainer_state": "x"}}, JOB, facts, state).metrics
    assert metrics["seconds_per_step"].mean == 0.5
    assert metrics["samples_per_second"].mean == 16.0
    told.resumed = True
    assert _gates.judge(expect, JOB, told).metrics["seconds_per_step"].mean is None


def test_the_exception_says_more_than_the_traceback() -> None:
    text = (
        "0: Traceback (most recent call last):\n0: OSError: [Errno 5] odd: '/home/x/.cache'\n"
        "0: torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nsrun: error: gpu001: task 0: Terminated\n"
    )
    facts = read_log([text.encode()], "huggingface")
    cause = _gates.likely_cause(facts)
    assert cause is not None
    assert (cause.name, cause.first_line) == ("python_exception", "0: OSError: [Errno 5] odd: '/home/x/.cache'")
    log = gate(_gates.judge({"steps": 5}, JOB, facts), "log")
    assert "OSError: [Errno 5] odd" in log.evidence


@pytest.mark.parametrize(("loss", "words"), [("nan", "the loss became NaN"), ("inf", "the loss became infinite")])
def test_a_loss_that_is_no_number_is_the_cause_unless_something_crashed(loss: str, words: str) -> None:
    bars = training(5) + progress_bar(6, loss=loss) + progress_bar(7) + "\n"
    cause = _gates.likely_cause(read_log([bars.encode()], "nemo"))
    assert cause is not None
    assert (cause.name, cause.cause, cause.count) == ("loss_not_finite", words, 1)
    assert loss in cause.first_line
    crashed = bars + "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n"
    cause = _gates.likely_cause(read_log([crashed.encode()], "nemo"))
    assert cause is not None
    assert cause.name == "loss_diverged"
