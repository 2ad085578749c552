# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the log reader: real lines of the frameworks, broken in many ways."""

from __future__ import annotations

import itertools
import json
import statistics
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils import _training_log as reader
from ansible_collections.dgxc.workloads.plugins.module_utils import _training_log_attempt, _training_log_reader

DOCUMENT_LINE = (
    "Epoch 0: :   2%|▏         | 180/10050 [40:46<37:16:04, v_num=m9yd, reduced_train_loss=5.640, "
    "global_step=179.0, consumed_samples=92160.0, train_step_timing in s=13.40]"
)


def number(value: float) -> str:
    """Print as tqdm and Lightning do."""
    short = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    printed = short if len(short) < len(str(value)) else str(value)
    if "e" not in printed:
        if "." not in printed and len(printed) < 5:
            try:
                float(printed)
            except ValueError:
                return printed
            printed += "."
        printed += "0" * (5 - len(printed))
    return printed


def clock(seconds: int) -> str:
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute:02d}:{second:02d}"


def progress_bar(
    step: int,
    total: int = 2000,
    *,
    shown: int | None = None,
    loss: float | None = None,
    timing: float = 13.4,
    elapsed: int | None = None,
    batch: int = 512,
    extra: str = "",
    epoch: int = 0,
) -> str:
    """Return one drawing of NeMo's bar for a step, with the values of the step ``shown``."""
    at = step if shown is None else shown
    begin = f"Epoch {epoch}: : {100 * step // total:3d}%|▏         | {step}/{total} ["
    times = clock(step * 13 if elapsed is None else elapsed) + "<37:16:04"
    if at == 0:
        return begin + "00:00<?]"
    value = 10.0 / at if loss is None else loss
    return (
        f"{begin}{times}, v_num=m9yd, reduced_train_loss={number(value)}, global_step={number(float(at - 1))}, "
        f"consumed_samples={number(float(at * batch))}, train_step_timing in s={number(timing)}{extra}]"
    )


def training(steps: int, total: int = 2000, first: int = 1) -> str:
    """Return what Lightning draws for these steps: each one twice, first with the values of the one before."""
    parts = [progress_bar(0, total)]
    for step in range(first, steps + 1):
        parts.append(progress_bar(step, total, shown=step - 1 if step > first else 0, elapsed=(step - first + 1) * 13))
        parts.append(progress_bar(step, total, elapsed=(step - first + 1) * 13, timing=13.0 + step % 7 / 10))
    return "\r".join(parts)


def read(text: str | bytes, log_format: str = "nemo") -> reader.LogFacts:
    data = text.encode() if isinstance(text, str) else text
    facts = reader.read_log([data], log_format)
    json.dumps(facts.as_dict(), allow_nan=False)
    return facts


def ranks(world: int, *, only: range | None = None) -> str:
    return "".join(
        f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{world}\n" for rank in only or range(world)
    )


# The document's line.


def test_the_documents_line() -> None:
    facts = read(DOCUMENT_LINE)
    assert (facts.last_step, facts.total_steps, facts.epoch) == (180, 10050, 0)
    assert facts.last_loss == 5.64
    assert facts.consumed_samples == {"value": 92160.0, "half_width": 0.5, "text": "92160.0"}
    assert facts.global_step == {"value": 179.0, "half_width": 0.5, "text": "179.0"}
    assert facts.last_step_seconds == 13.4
    assert facts.elapsed_seconds == 2446.0
    assert facts.remaining_seconds == 134164.0
    assert facts.resumed is None
    assert facts.last_progress_line == DOCUMENT_LINE


def test_the_loggers_version_is_never_a_loss() -> None:
    facts = read("Epoch 0: :   2%|▏| 180/10050 [40:46<37:16:04, v_num=5.64]")
    assert facts.loss_count == 0
    assert facts.last_loss is None
    assert facts.last_step == 180


@pytest.mark.parametrize("prefix", ["", "0: ", "00: ", " 3: ", "\x1b[A", "noise before it\r", "junk\n"])
@pytest.mark.parametrize("suffix", ["", "\n", "\r", "[NeMo I 2024-06-17 08:36:41 nlp_overrides:480] x\n", "\x1b[A\n"])
def test_what_may_stand_around_a_bar(prefix: str, suffix: str) -> None:
    assert read(prefix + DOCUMENT_LINE + suffix).last_step == 180


@pytest.mark.parametrize(
    ("line", "step", "total", "loss", "timing"),
    [
        (  # a public report of a training of months
            "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, "
            "reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]",
            795,
            77225,
            3.09,
            41.36,
        ),
        (
            "Epoch 0: :  47%|████▋     | 7/15 [06:19<07:13, reduced_train_loss=11.50, global_step=5.000, "
            "consumed_samples=12288.0, train_step_timing in s=49.50]",
            7,
            15,
            11.5,
            49.5,
        ),
        (
            "Epoch 0: : 100%|██████████| 2000/2000 [43:24:54<00:00, reduced_train_loss=0.139, global_step=2e+3, "
            "consumed_samples=2.56e+5, train_step_timing in s=68.70, val_loss=0.212]",
            2000,
            2000,
            0.139,
            68.7,
        ),
        (  # a resumed training: the step is beyond the bar's own total, which tqdm then forgets
            "Epoch 0: :   0%|          | 1001/? [00:20<?, v_num=m9yd, reduced_train_loss=2.5, global_step=1e+3, "
            "consumed_samples=5.13e+5, train_step_timing in s=13.4]",
            1001,
            None,
            2.5,
            13.4,
        ),
        (
            "Epoch 1: : 1it [00:04,  4.36s/it, v_num=d3c7, reduced_train_loss=0.674, global_step=1.000, "
            "consumed_samples=128.0, train_step_timing in s=3.370, batch_time=4.400, samples/sec=14.60]     2025-12-17",
            1,
            None,
            0.674,
            3.37,
        ),
        (
            "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | "
            "global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106\n",
            121,
            150,
            1.233,
            0.03146,
        ),
    ],
)
def test_lines_of_public_reports(line: str, step: int, total: int | None, loss: float, timing: float) -> None:
    facts = read(line)
    assert (facts.last_step, facts.total_steps, facts.last_loss, facts.last_step_seconds) == (step, total, loss, timing)
    progress = reader.tail_progress(line.encode(), "nemo")
    assert progress is not None
    assert (progress.step, progress.total, progress.loss, progress.seconds_per_step) == (step, total, loss, timing)


def test_nan_in_lightnings_padding() -> None:
    facts = read(
        "Epoch 0: :   3%|▎         | 9000/301500 [1:42:42<55:37:46, v_num=0-56, reduced_train_loss=nan.0, "
        "global_step=9e+3, consumed_samples=6.3e+5, train_step_timing in s=0.615, val_loss=7.040]"
    )
    assert (facts.nan_count, facts.inf_count, facts.loss_count) == (1, 0, 1)
    assert facts.printed_loss == "nan.0"
    assert facts.last_loss is None
    assert facts.last_validation_loss == 7.04
    assert "nan.0" in (facts.first_nonfinite_line or "")


@pytest.mark.parametrize(
    "fragment",
    [
        DOCUMENT_LINE[:-1],
        DOCUMENT_LINE[: DOCUMENT_LINE.index("train_step")],
        DOCUMENT_LINE[DOCUMENT_LINE.index("/10050") :],
        DOCUMENT_LINE[DOCUMENT_LINE.index("180/") :],
        "Epoch 0: :   2%|▏         | 180/100",
        "Epoch 0: :   2%|▏         | 18[rank1] hello0/10050 [40:46<37:16:04]",
        DOCUMENT_LINE.replace(", global_step", "\n, global_step"),
        DOCUMENT_LINE.replace("180/10050 [", "180/10050 ["[:-1]),
        "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:04<00:00,  2.20s/it]",
        "Running tokenizer on train dataset:  50%|█████     | 180/10050 [00:46<00:16]",
        "loss: 1.2\n34",
    ],
)
def test_fragments_give_no_number(fragment: str) -> None:
    facts = read(fragment)
    assert facts.last_step is None
    assert facts.loss_count == 0
    assert reader.tail_progress(fragment.encode(), "nemo") is None


def test_a_bar_written_into_a_bar() -> None:
    facts = read(DOCUMENT_LINE[:60] + "\r" + progress_bar(181) + "\n")
    assert facts.last_step == 181
    facts = read(DOCUMENT_LINE[:60] + progress_bar(181) + "\n")
    # Without a line break the name of the bar is still before its percent sign.
    assert facts.last_step == 181
    assert facts.loss_count == 1


# Whole trainings.


def test_each_step_counts_once_with_its_own_values() -> None:
    facts = read(training(200))
    expected = [round(13.0 + step % 7 / 10, 3) for step in range(11, 201)]
    timing = facts.step_timing
    assert timing is not None
    assert (timing.count, timing.first_step, timing.last_step, timing.warmup_steps) == (190, 11, 200, 10)
    assert timing.mean == pytest.approx(statistics.mean(expected))
    assert timing.standard_deviation == pytest.approx(statistics.stdev(expected))
    assert timing.half_width == pytest.approx(0.05)
    assert facts.loss_count == 200
    assert facts.minimum_loss == 0.05
    assert (facts.first_step, facts.last_step, facts.resumed) == (1, 200, False)
    assert facts.first_consumed_samples == {"value": 512.0, "half_width": 0.5, "text": "512.0"}
    assert facts.series[0] == [1.0, 13.1, 10.0]
    assert facts.thinned if hasattr(facts, "thinned") else not timing.thinned


@pytest.mark.parametrize(("total", "warmup"), [(None, 10), (1, 1), (10, 1), (20, 2), (50, 5), (100, 10), (2000, 10)])
def test_the_warm_up_rule(total: int | None, warmup: int) -> None:
    assert _training_log_attempt.warmup_steps(total) == warmup


def test_a_step_whose_second_drawing_is_lost_is_not_counted_with_old_values() -> None:
    text = "\r".join(
        [
            progress_bar(1),
            progress_bar(2, shown=1),
            progress_bar(2),
            progress_bar(3, shown=2),
            progress_bar(4, shown=3),
            progress_bar(4),
        ]
    )
    facts = read(text)
    assert facts.last_step == 4
    assert facts.loss_count == 3 + 0
    assert facts.last_loss == 2.5


def test_a_single_step_has_no_spread() -> None:
    facts = read("\r".join(progress_bar(step, 12) for step in (1, 2)))
    assert facts.step_timing is not None
    assert facts.step_timing.count == 1
    assert facts.step_timing.standard_deviation is None


def test_validations_are_counted_and_their_bars_are_no_progress() -> None:
    validation = "\r".join(
        f"Validation DataLoader 0: {50 * step:3d}%|█████     | {step}/2 [00:0{step}<00:01,  1.00s/it]"
        for step in range(3)
    )
    text = (
        training(3)
        + "\n"
        + validation
        + "\r"
        + progress_bar(3, extra=", val_loss=7.040")
        + "\r"
        + validation
        + "\r"
        + progress_bar(4)
    )
    facts = read(text)
    assert facts.validation_count == 2
    assert facts.last_step == 4
    facts = read(text + "\r" + progress_bar(5, extra=", val_loss=6.500"))
    assert facts.last_validation_loss == 6.5


@pytest.mark.parametrize(
    ("line", "reason", "steps", "seconds"),
    [
        ("`Trainer.fit` stopped: `max_steps=2000` reached.", "max_steps", 2000, None),
        ("Trainer.fit stopped: max_steps=20 reached", "max_steps", 20, None),
        ("Time limit reached. Elapsed time is 1:30:02. Signaling Trainer to stop.", "max_time", None, 5402.0),
        ("Time limit reached. Elapsed time is 1 day, 0:00:03. Signaling Trainer to stop.", "max_time", None, 86403.0),
        (
            "v_num=0, loss=0.Time limit reached. Elapsed time is 0:00:30. Signaling Trainer to stop.",
            "max_time",
            None,
            30.0,
        ),
        ("`Trainer.fit` stopped: `max_epochs=1` reached.", "max_epochs", None, None),
        ("`Trainer.fit` stopped: No training batches.", "no_batches", None, None),
        ("Monitored metric val_loss did not improve. Signaling Trainer to stop.", "early_stop", None, None),
    ],
)
def test_why_the_trainer_stopped(line: str, reason: str, steps: int | None, seconds: float | None) -> None:
    facts = read(training(3) + line + "\n")
    assert (facts.stop_reason, facts.stop_steps, facts.stop_elapsed_seconds) == (reason, steps, seconds)


# Ranks.


def test_all_ranks() -> None:
    text = ranks(16) + "All distributed processes registered. Starting with 16 processes\n" + training(3)
    facts = read(text)
    assert (facts.ranks, facts.rank_count, facts.world_sizes, facts.process_counts) == ("0-15", 16, [16], [16])
    assert facts.attempts == 1


def test_processes_that_train_alone() -> None:
    facts = read("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1\nStarting with 1 processes\n" * 16)
    assert (facts.ranks, facts.rank_count, facts.world_sizes, facts.rank_lines) == ("0", 1, [1], 16)


def test_older_words_and_mixed_rank_lines() -> None:
    facts = read(
        "initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/2Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n\n"
        "All DDP processes registered. Starting ddp with 2 processes\n"
    )
    assert (facts.ranks, facts.process_counts) == ("0-1", [2])


@pytest.mark.parametrize(
    "line", ["GLOBAL_RANK: 0, MEMBER: 1/1", "GLOBAL_RANK: 0, MEM", "GLOBAL_RANK: 9, MEMBER: 10/2\n"]
)
def test_a_cut_or_impossible_rank_line_says_nothing(line: str) -> None:
    assert read(line).world_sizes == []


def test_hosts_of_nccl() -> None:
    facts = read(
        "gpu001:12:34 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "1: gpu002:12:34 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n"
    )
    assert facts.hosts == ["gpu001", "gpu002"]


# Attempts.


@pytest.mark.parametrize(
    "between",
    [
        "\n",
        "\nslurmstepd: error: *** JOB 5 ON gpu001 CANCELLED AT 2024-03-12T01:36:28 DUE TO JOB REQUEUE ***\n",
        "\n[NeMo I 2024-03-12 megatron_gpt_pretraining:34] ************** Experiment configuration ***********\n",
    ],
)
def test_facts_are_those_of_the_last_attempt(between: str) -> None:
    first = (
        ranks(8) + training(150) + "\nRuntimeError: CUDA out of memory. Tried\nsrun: error: gpu001: task 3: Killed\n"
    )
    facts = read(first + between + ranks(16) + training(20, 30))
    assert facts.attempts == 2
    assert (facts.last_step, facts.total_steps, facts.first_step) == (20, 30, 1)
    assert (facts.world_sizes, facts.ranks) == ([16], "0-15")
    assert facts.failures == []
    assert facts.step_timing is not None
    assert facts.step_timing.count == 17


def test_an_attempt_in_a_file_that_has_only_bars() -> None:
    assert read(training(150) + "\n" + training(20)).last_step == 20
    resumed = "\r".join(progress_bar(step, elapsed=(step - 150) * 13) for step in range(151, 160))
    facts = read(training(150) + "\n" + resumed)
    assert (facts.attempts, facts.first_step, facts.last_step, facts.resumed) == (2, 151, 159, True)


def test_a_new_epoch_and_another_ranks_bar_are_no_new_attempt() -> None:
    text = training(20) + "\r" + progress_bar(0, epoch=1) + "\r" + progress_bar(21, epoch=1, elapsed=13)
    # The clock of a new epoch starts anew, and its number is higher.
    facts = read(text)
    assert facts.last_step == 21
    two_ranks = "\n".join(
        f"{rank}: {progress_bar(step, elapsed=step + rank)}" for step in range(1, 30) for rank in (0, 1)
    )
    assert read(two_ranks).attempts == 1


def test_a_resumed_training() -> None:
    text = "Restored all states from the checkpoint at /results/x.ckpt\n" + "\r".join(
        progress_bar(step, elapsed=(step - 100) * 13) for step in range(101, 130)
    )
    facts = read(text)
    assert facts.resumed is True
    assert facts.step_timing is not None
    assert facts.step_timing.first_step == 111


def test_a_bar_drawn_every_ten_steps_is_fresh() -> None:
    assert read("\r".join(progress_bar(step) for step in (10, 20, 30))).resumed is False
    assert read("\r".join(progress_bar(step) for step in (110, 120, 130))).resumed is True


# Failures.


def test_failures_before_and_after_progress() -> None:
    trouble = "Traceback (most recent call last):\n  File\nValueError: no\n"
    survived = read(training(5) + "\n" + trouble + progress_bar(6) + "\n")
    assert [failure.after_progress for failure in survived.failures] == [False, False]
    crashed = read(training(5) + trouble)
    assert {failure.name: failure.after_progress for failure in crashed.failures} == {
        "traceback": True,
        "python_exception": True,
    }
    # tqdm draws the bar once more when the program ends with an exception.
    assert all(
        failure.after_progress for failure in read(training(5) + "\n" + trouble + "\r" + progress_bar(5)).failures
    )


def test_a_failure_keeps_its_first_and_last_line() -> None:
    facts = read("".join(f"srun: error: gpu00{n}: task {n}: Exited with exit code 1\n" for n in range(1, 6)))
    failure = facts.failures[0]
    assert (failure.name, failure.count) == ("task_failed", 5)
    assert "task 1" in failure.first_line
    assert "task 5" in failure.last_line
    long = read("RuntimeError: CUDA error: " + "x" * 5000 + "\n").failures[0]
    assert len(long.first_line) <= _training_log_reader.EVIDENCE_CHARACTERS


def test_failures_deep_in_a_large_log() -> None:
    filler = b"gpu001:4000:4100 [3] NCCL INFO Channel 00/0 : 11[3] -> 3[3] [receive] via NET/IB/0\n" * 12000

    def chunks(early: bytes = b"", late: bytes = b"") -> Iterator[bytes]:
        yield from [filler] * 20
        yield early
        yield from [filler] * 5
        yield late

    killed = b"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0.\nsrun: error: gpu001: task 3: Killed\n"
    named = reader.read_log(chunks(killed), "nemo")
    assert {failure.name for failure in named.failures} == {"host_memory", "task_failed"}
    # A line that names the cause is found beside the traceback.
    beside = b"x NCCL WARN Bootstrap : no socket interface found\nTraceback (most recent call last):\n"
    names = {failure.name for failure in reader.read_log(chunks(beside), "nemo").failures}
    assert names == {"nccl_interface", "traceback"}
    last = reader.read_log(chunks(late=b"bash: line 1: 55 Segmentation fault\n"), "nemo")
    assert [failure.name for failure in last.failures] == ["crash_signal"]
    stop = reader.read_log(chunks(early=b"`Trainer.fit` stopped: `max_steps=20` reached.\n"), "nemo")
    assert stop.stop_steps == 20


# Hugging Face.

ALMA = """0: [INFO|trainer.py:1777] 2024-03-12 01:36:28,535 >> ***** Running training *****
0: [INFO|trainer.py:1778] 2024-03-12 01:36:28,535 >>   Num examples = 15,406
0: [INFO|trainer.py:1779] 2024-03-12 01:36:28,535 >>   Num Epochs = 8
0: [INFO|trainer.py:1780] 2024-03-12 01:36:28,535 >>   Instantaneous batch size per device = 12
0: [INFO|trainer.py:1781] 2024-03-12 01:36:28,535 >>   Total train batch size (w. parallel, distributed & accumulation) = 960
0: [INFO|trainer.py:1782] 2024-03-12 01:36:28,535 >>   Gradient Accumulation steps = 10
0: [INFO|trainer.py:1783] 2024-03-12 01:36:28,535 >>   Total optimization steps = 128
0: [INFO|trainer.py:1784] 2024-03-12 01:36:28,537 >>   Number of trainable parameters =  7,733,248
"""


def hf_bars(steps: int, total: int, seconds: float) -> str:
    return "".join(
        f"\r{100 * step // total:3d}%|███       | {step}/{total} [{clock(int(step * seconds))}<00:00, {seconds:5.2f}s/it]"
        for step in range(steps + 1)
    )


def test_the_documents_alma_log() -> None:
    text = (
        ALMA
        + hf_bars(128, 128, 12.72)
        + (
            "[INFO|trainer.py:2044] 2024-03-12 02:03:37,121 >>\n\n"
            "Training completed. Do not forget to share your model on huggingface.co/models =)\n\n"
        )
    )
    facts = read(text, "huggingface")
    assert facts.settings == {
        "num_examples": 15406,
        "epochs": 8,
        "batch_size_per_device": 12,
        "global_batch_size": 960,
        "gradient_accumulation_steps": 10,
        "steps": 128,
        "trainable_parameters": 7733248,
    }
    assert (facts.last_step, facts.total_steps, facts.stop_reason) == (128, 128, "completed")
    assert facts.step_timing is not None
    assert facts.step_timing.mean == pytest.approx(12.72, abs=facts.step_timing.half_width)
    assert facts.elapsed_seconds == 1628.0
    assert facts.failures == []


def test_evaluation_bars_of_hugging_face_are_no_progress() -> None:
    text = hf_bars(20, 150, 2.0) + "\n" + hf_bars(38, 38, 0.1) + "\n" + hf_bars(0, 38, 1.0)
    facts = read(text, "huggingface")
    assert (facts.last_step, facts.total_steps, facts.attempts) == (20, 150, 1)
    progress = reader.tail_progress(text.encode(), "huggingface", 150)
    assert progress is not None
    assert (progress.step, progress.total) == (20, 150)


def test_dictionaries_of_the_trainer() -> None:
    text = (
        "{'loss': 2.3026, 'grad_norm': 1.5, 'learning_rate': 3.3e-05, 'epoch': 0.07}\n"
        "{'loss': nan, 'learning_rate': 1e-05, 'epoch': 0.5}{'eval_loss': 1.25, 'eval_accuracy': 0.5, 'epoch': 1.5}\n"
        "{'train_runtime': 150.2643, 'train_samples_per_second': 3.993, 'train_steps_per_second': 0.998, "
        "'train_loss': 0.67, 'epoch': 1.5}\n"
    )
    facts = read(text, "huggingface")
    assert (facts.loss_count, facts.nan_count, facts.last_loss) == (2, 1, 2.3026)
    assert (facts.validation_count, facts.last_validation_loss) == (1, 1.25)
    assert facts.summary == {
        "train_runtime": 150.2643,
        "train_samples_per_second": 3.993,
        "train_steps_per_second": 0.998,
        "train_loss": 0.67,
    }
    assert facts.stop_reason == "completed"


def test_stdout_and_stderr_together() -> None:
    out = reader.read_log([b"{'loss': 2.5, 'epoch': 0.07}\n"], "huggingface")
    err = reader.read_log([(ALMA + hf_bars(128, 128, 12.72)).encode()], "huggingface")
    facts = reader.merge_facts([out, err])
    assert (facts.last_step, facts.last_loss, facts.settings["steps"]) == (128, 2.5, 128)
    nemo_out = reader.read_log([training(20).encode()], "nemo")
    nemo_err = reader.read_log([(ranks(16) + "`Trainer.fit` stopped: `max_steps=20` reached.\n").encode()], "nemo")
    facts = reader.merge_facts([nemo_out, nemo_err])
    assert (facts.last_step, facts.stop_steps, facts.ranks) == (20, 20, "0-15")
    assert facts.bytes_read == nemo_out.bytes_read + nemo_err.bytes_read
    with pytest.raises(ValueError, match="at least one log"):
        reader.merge_facts([])


def test_the_format_without_progress() -> None:
    facts = read(training(5) + ranks(2) + "Traceback (most recent call last):\n", "none")
    assert facts.last_step is None
    assert facts.ranks == "0-1"
    assert [failure.name for failure in facts.failures] == ["traceback"]
    assert reader.tail_progress(DOCUMENT_LINE.encode(), "none") is None


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="log_format is 'x', but must be one of nemo, huggingface, none"):
        reader.read_log([], "x")


# Properties.

PIECES = [
    DOCUMENT_LINE,
    training(3),
    progress_bar(5),
    progress_bar(0),
    ranks(2),
    ranks(1),
    "\r",
    "\n",
    "\r\n",
    " ",
    "\x1b[A",
    "\x1b[",
    "Epoch 0: :",
    "%|",
    "[",
    "]",
    "x" * 300,
    "Traceback (most recent call last):",
    "Time limit reached. Elapsed time is 1:30:02. Signaling",
    "Trainer",
    "{'loss': nan, 'epoch': 1}",
    ALMA,
    hf_bars(2, 4, 1.0),
    "\x00",
    "▏",
    "7it [00:31, 4.36s/it]",
    "error",
    "100%",
]


@given(
    st.lists(st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=40)), max_size=30),
    st.sampled_from(reader.LOG_FORMATS),
)
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_and_give_strict_json(pieces: list[bytes], log_format: str) -> None:
    data = b"".join(pieces)
    facts = reader.read_log([data], log_format)
    json.dumps(facts.as_dict(), allow_nan=False)
    assert facts.bytes_read == len(data)
    reader.tail_progress(data, log_format)
    assert all(len(line) <= _training_log_reader.EVIDENCE_CHARACTERS for line in reader.tail_lines(data, 5))


@given(st.lists(st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=40)), max_size=60), st.data())
@settings(max_examples=150, deadline=None)
def test_how_the_log_is_cut_changes_nothing(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    log_format = data.draw(st.sampled_from(reader.LOG_FORMATS))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    # Small blocks, so that their borders fall everywhere.
    original = _training_log_reader.BLOCK_BYTES
    _training_log_reader.BLOCK_BYTES = data.draw(st.sampled_from([64, 500, original]))
    try:
        assert reader.read_log(chunks, log_format) == reader.read_log([whole], log_format)
    finally:
        _training_log_reader.BLOCK_BYTES = original


def test_blocks_of_any_size_see_the_same_training() -> None:
    data = (ranks(16) + training(120) + "\n`Trainer.fit` stopped: `max_steps=120` reached.\n").encode()
    expected = read(data)
    original = _training_log_reader.BLOCK_BYTES
    for size in (50, 333, 4096):
        _training_log_reader.BLOCK_BYTES = size
        try:
            assert reader.read_log([data], "nemo") == expected
        finally:
            _training_log_reader.BLOCK_BYTES = original


@pytest.mark.parametrize(
    "filler", [b"x" * 1000, b"\x00" * 1000, progress_bar(7).encode() + b"\r", b"50% of it [ error\n", b"%|"]
)
def test_memory_does_not_grow_with_the_log(filler: bytes) -> None:
    chunk = filler * (1_000_000 // len(filler))
    tracemalloc.start()
    try:
        reader.read_log((chunk for dummy in range(24)), "nemo")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24_000_000


def test_a_line_without_end_is_cut_and_said() -> None:
    facts = read(b"x " * 3_000_000 + b"\n" + DOCUMENT_LINE.encode())
    assert facts.cut_segments > 0
    assert facts.last_step == 180


def test_very_many_bars_are_thinned_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_training_log_reader, "BAR_LIMIT", 200)
    monkeypatch.setattr(_training_log_reader, "BLOCK_BYTES", 20000)
    facts = read(training(1500))
    assert facts.last_step == 1500
    assert facts.step_timing is not None
    assert facts.step_timing.thinned
    assert facts.step_timing.last_step == 1500


def test_many_percent_signs_in_ordinary_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_training_log_reader, "PLAIN_PERCENT_LIMIT", 10)
    monkeypatch.setattr(_training_log_reader, "BLOCK_BYTES", 1000)
    assert read("load 50%\n" * 500 + DOCUMENT_LINE).last_step == 180


def test_marks_beyond_their_limit_are_still_found_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TROUBLE_LIMIT", 5), ("MARK_LIMIT", 5), ("FULL_SCAN_BYTES", 0), ("FULL_SCAN_EXTRA_BLOCKS", 0)):
        monkeypatch.setattr(_training_log_reader, name, value)
    monkeypatch.setattr(_training_log_reader, "BLOCK_BYTES", 1000)
    text = "srun: error: `Trainer.fit` stopped: x\n" * 500 + "`Trainer.fit` stopped: `max_steps=9` reached.\n"
    assert read(text).stop_steps == 9


def test_the_series_is_bounded_and_even() -> None:
    facts = read("\r".join(progress_bar(step, 5000) for step in range(1, 2001)))
    assert 200 <= len(facts.series) <= _training_log_attempt.SERIES_POINTS
    steps = [point[0] for point in facts.series]
    assert len({second - first for first, second in itertools.pairwise(steps) if first and second}) == 1


# Files and tails.


def test_files(tmp_path: Path) -> None:
    out, err = tmp_path / "x.out", tmp_path / "x.err"
    out.write_text(training(20), encoding="utf-8")
    err.write_text(ranks(16), encoding="utf-8")
    facts = reader.read_log_files([str(out), str(err), str(tmp_path / "missing")], "nemo")
    assert facts is not None
    assert (facts.last_step, facts.rank_count) == (20, 16)
    assert reader.read_log_files([str(tmp_path / "missing")], "nemo") is None
    with pytest.raises(FileNotFoundError):
        reader.read_log_file(str(tmp_path / "missing"), "nemo")
    assert reader.read_log_tail(str(out), 10) == out.read_bytes()[-10:]
    assert reader.read_log_tail(str(err)) == err.read_bytes()
    assert reader.last_lines(str(out), 3) == [progress_bar(20, elapsed=260, timing=13.6)]
    assert reader.last_lines(str(err), 2)[-1].endswith("MEMBER: 16/16")


def test_progress_of_a_running_training() -> None:
    tail = training(120).encode()[-3000:]
    progress = reader.tail_progress(lambda: tail, "nemo")
    assert progress == reader.Progress(120, 2000, 13.1, 0.0833, 1560.0, 134164.0)
    # The last bar is being written: the one before is used.
    assert reader.tail_progress(tail[:-30], "nemo") is not None
    assert reader.tail_progress(b"", "nemo") is None
    start = reader.tail_progress(progress_bar(0).encode(), "nemo")
    assert start == reader.Progress(0, 2000, None, None, 0.0, None)


def test_progress_of_the_documents_whisper_log() -> None:
    progress = reader.tail_progress("100%|██████████| 125/125 [09:22<00:00,  4.50s/it]".encode(), "huggingface")
    assert progress == reader.Progress(125, 125, 4.5, None, 562.0, 0.0)


def test_last_lines_show_the_last_drawing() -> None:
    assert reader.tail_lines(b"one\n\n  \ntwo\rthree\r\nfour\r", 2) == ["three", "four"]
    assert reader.tail_lines(b"one", 0) == []
    assert reader.tail_lines(b"\xe2", 3) == ["\ufffd"]


def settings(task: str, total: str = "960", steps: str = "128") -> str:
    """The settings of the document, said by one task."""
    return ALMA.replace("0: [", task + "[").replace("= 960", "= " + total).replace("= 128", "= " + steps)


@pytest.mark.parametrize(
    ("labels", "tasks", "count"),
    [
        (["0: ", "1: "], "0-1", 2),
        (["1: ", "0: "], "0-1", 2),
        (["00: ", "01: ", "10: "], "0-1,10", 3),
        ([" 0: ", "11: "], "0,11", 2),
        ([""], "", 0),
        (["1: "], "1", 1),
    ],
)
def test_labels_of_srun(labels: list[str], tasks: str, count: int) -> None:
    facts = read("".join(settings(label) for label in labels), "huggingface")
    assert (facts.tasks, facts.task_count) == (tasks, count)
    assert (facts.settings["num_examples"], facts.settings["trainable_parameters"]) == (15406, 7733248)
    assert (facts.attempts, facts.conflicts) == (1, {})
    nodes = read("".join(f"{label}Node ID 0\n" for label in labels), "none")
    assert (nodes.tasks, nodes.task_count) == (tasks, count)


def test_a_number_in_a_line_is_no_label() -> None:
    facts = read("at step 3: Node ID 1\n2024-03-12 01:36:28 7: Node ID 1\nNode ID 4: here\n", "huggingface")
    assert facts.tasks == ""


def test_tasks_that_disagree() -> None:
    facts = read(settings("0: ") + settings("1: ", "1,920", "64"), "huggingface")
    assert facts.conflicts == {"global_batch_size": [960, 1920], "steps": [64, 128]}
    parts = [
        reader.read_log([settings(f"{n}: ", total).encode()], "huggingface") for n, total in ((0, "960"), (1, "8"))
    ]
    merged = reader.merge_facts(parts)
    assert (merged.tasks, merged.conflicts) == ("0-1", {"global_batch_size": [8, 960]})


def test_examples_of_an_evaluation_are_not_those_of_the_training() -> None:
    evaluation = (
        "{0}[INFO|trainer.py:3377] >> ***** Running {1} *****\n{0}[INFO|trainer.py:3379] >>   Num examples = 149\n"
    )
    text = settings("0: ") + settings("1: ") + evaluation.format("0: ", "Evaluation") + hf_bars(3, 128, 2.0)
    facts = read(text + "\n" + evaluation.format("1: ", "Prediction"), "huggingface")
    assert (facts.settings["num_examples"], facts.conflicts, facts.attempts) == (15406, {}, 1)
    # An evaluation before the training does not count either; without labels the newest announcement holds.
    facts = read(evaluation.format("", "Evaluation") + settings(""), "huggingface")
    assert (facts.settings["num_examples"], facts.conflicts) == (15406, {})


def test_a_second_task_that_begins_late_is_no_new_attempt() -> None:
    text = settings("0: ") + hf_bars(3, 128, 2.0) + "\n" + settings("1: ")
    facts = read(text, "huggingface")
    assert (facts.attempts, facts.last_step, facts.tasks) == (1, 3, "0-1")
    again = read(text + settings("1: ") + settings("0: ") + hf_bars(2, 128, 2.0), "huggingface")
    assert (again.attempts, again.last_step, again.tasks) == (2, 2, "0-1")


def processes(count: int, missing: int | None = None) -> str:
    return "".join(f"Process ID: {rank} of {count}\n" for rank in range(count) if rank != missing)


@pytest.mark.parametrize("log_format", reader.LOG_FORMATS)
def test_ranks_that_a_script_prints(log_format: str) -> None:
    facts = read(processes(16), log_format)
    assert (facts.ranks, facts.rank_count, facts.world_sizes) == ("0-15", 16, [16])
    facts = read("0: Process ID: 3 of 4Process ID: 0 of 4\n1: Process ID: 1 of 4\nProcess ID: 9 of 4\n", log_format)
    assert (facts.ranks, facts.tasks, facts.world_sizes) == ("0-1,3", "0-1", [4])
    # A number that may be cut says nothing.
    assert read("Process ID: 1 of 1", log_format).rank_count == 0


def test_a_rank_that_prints_late_belongs_to_its_training() -> None:
    late = "Process ID: 0 of 2\n" + hf_bars(5, 128, 2.0) + "\nProcess ID: 1 of 2\n"
    facts = read(late, "huggingface")
    assert (facts.attempts, facts.ranks, facts.last_step) == (1, "0-1", 5)
    # The same rank once more is another process: what the first run told does not count for it.
    facts = read(processes(4) + processes(4, missing=2), "huggingface")
    assert (facts.attempts, facts.ranks) == (2, "0-1,3")
    alone = read("Process ID: 0 of 1\n" * 4, "huggingface")
    assert (alone.attempts, alone.world_sizes, alone.rank_lines) == (1, [1], 4)


def test_an_evaluation_that_begins_behind_a_bar() -> None:
    start = settings("0: ", steps="12") + settings("1: ", steps="12")
    lines = "[INFO|trainer.py:3512] >> ***** Running Evaluation *****\n{0}: [INFO|trainer.py:3514] >>   Num examples = 2004\n"
    # The label stands at the start of the line, before the drawings of the bar.
    text = start + "0:   0%|   | 0/12 [00:00<?, ?it/s]" + hf_bars(4, 12, 2.0)[1:] + lines.format(0)
    text += "1: [INFO|trainer.py:3512] >> ***** Running Evaluation *****\n1: [INFO|trainer.py:3514] >>   Num examples = 2004\n"
    facts = read(text, "huggingface")
    assert (facts.settings["num_examples"], facts.conflicts, facts.last_step) == (15406, {}, 4)
    # A line that began long before: its label is lost, and no task speaks of its training any more.
    lost = start + "\n" + hf_bars(4, 12, 2.0) + lines.format(1)
    assert read(lost, "huggingface").settings["num_examples"] == 15406


LEFT_ALONE = (
    "1: E1201 12:57:27 9167 torch/distributed/elastic/agent/server/api.py:1008] Error waiting on exit barrier. Elapsed: 0.05\n"
    "1: E1201 12:57:27 9167 torch/distributed/elastic/agent/server/api.py:1008] Traceback (most recent call last):\n"
    "torch.distributed.DistStoreError: Socket Timeout\n"
)


def test_a_launcher_that_is_left_alone_at_the_end_has_not_failed() -> None:
    done = settings("0: ") + hf_bars(128, 128, 2.0) + "\n"
    assert read(done + LEFT_ALONE, "huggingface").failures == []
    trouble = LEFT_ALONE + "srun: error: gpu001: task 0: Exited with exit code 1\n"
    assert [failure.name for failure in read(done + trouble, "huggingface").failures] == ["task_failed"]
    alone = read(done + LEFT_ALONE.split("\n", 1)[1], "huggingface").failures
    assert {failure.name for failure in alone} == {"traceback", "head_node_unreachable"}


@pytest.mark.parametrize(("seconds", "spread"), [(12.72, True), (5.0, True), (4.5, False), (0.5, False)])
def test_whole_seconds_tell_no_spread_of_short_steps(seconds: float, spread: bool) -> None:
    timing = read(settings("0: ") + hf_bars(128, 128, seconds), "huggingface").step_timing
    assert timing is not None
    assert timing.mean == pytest.approx(seconds, abs=timing.half_width)
    assert (timing.standard_deviation is not None) is spread


def two_bars(total: int, chunk: int) -> str:
    """The bars of two tasks of one training, as srun hands them on: some drawings of one, then some of the other."""
    drawings = [
        f"\r{100 * n // total:3d}%|██   | {n}/{total} [{clock(n * 13)}<00:00, 12.72s/it]" for n in range(total + 1)
    ]
    text = ""
    for start in range(0, total + 1, chunk):
        for task in (0, 1):
            text += f"{task}: " + "".join(drawings[start : start + chunk])[1 if start == 0 else 0 :] + "\n"
    return text


@pytest.mark.parametrize("chunk", [1, 5, 65])
@pytest.mark.parametrize("size", [64, 1 << 20])
def test_two_tasks_that_draw_the_bar_of_one_training(chunk: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_training_log_reader, "BLOCK_BYTES", max(size, 1 << 12))
    text = settings("0: ", "1,920", "64") + settings("1: ", "1,920", "64") + two_bars(64, chunk)
    facts = read(text, "huggingface")
    assert (facts.attempts, facts.last_step, facts.total_steps, facts.tasks) == (1, 64, 64, "0-1")
    assert facts.settings["global_batch_size"] == 1920
    assert facts.step_timing is not None
    assert (facts.step_timing.mean, facts.step_timing.count) == (13.0, 58)
    # The task that came first is read; where it starts again, another attempt begins.
    again = read(text + text.replace("0: ", "9: ").replace("1: ", "0: ").replace("9: ", "1: "), "huggingface")
    assert (again.attempts, again.last_step) == (2, 64)
    assert again.settings["num_examples"] == 15406


def test_a_second_task_alone_is_read_as_well() -> None:
    facts = read("1: " + hf_bars(10, 64, 2.0)[1:] + "\n", "huggingface")
    assert facts.last_step == 10


def test_an_evaluation_with_as_many_batches_as_the_training_has_steps_is_no_new_attempt():
    lines = ["0: ***** Running training *****\n", "0:   Num examples = 96\n"]
    lines += [f"0: \r{step * 20:3d}%|#| {step}/5 [00:{step * 3:02d}<00:00,  3.00s/it]" for step in range(1, 6)]
    lines += ["\n0: ***** Running Evaluation *****\n", "0:   Num examples = 40\n"]
    lines += [f"0: \r{step * 20:3d}%|#| {step}/5 [00:{step:02d}<00:00,  1.00s/it]" for step in range(6)]
    facts = reader.read_log(["".join(lines).encode()], "huggingface")
    assert (facts.attempts, facts.last_step, facts.settings["num_examples"]) == (1, 5, 96)
    assert facts.elapsed_seconds == 15.0
