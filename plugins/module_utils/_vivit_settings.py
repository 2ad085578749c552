# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the variables of the role vivit to runs. Private to this collection.

``plan`` judges the variables before anything is touched, and again with data and image at hand, when it puts the runs
together: one for each size of the sweep and each number of loader workers. All functions are pure.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._accelerate import (
    ATTEMPT,
    COMMON,
    judge_run_names,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import Judge
from ansible_collections.dgxc.workloads.plugins.module_utils._model_data import (
    DATA_NAMES,
    MODEL_NAMES,
    absent_or_whole,
    ceil_div,
    given_path,
    judge_sweep,
    local_name,
    model_argument,
    script_run,
    wishes_of,
)

PREFIX = "vivit_"
SCRIPT = "train_vivit.py"
KNOWN = (
    COMMON
    | MODEL_NAMES
    | DATA_NAMES
    | frozenset(
        (
            "batch_size",
            "cpu",
            "data_classes",
            "data_videos",
            "learning_rate",
            "loader_prefetch",
            "loader_workers",
            "logging_steps",
            "matrix",
            "max_steps",
            "save_total_limit",
            "seed",
            "warmup_ratio",
        )
    )
)
COUNTS = {"training videos": "train/*/*.avi", "classes": "train/*"}


def loader_batches(videos: int, workers: int, batch_size: int) -> int:
    """Return the batches that the data loader makes of one pass over the videos.

    pytorchvideo's MultiProcessSampler splits the videos among the loader's workers as numpy.array_split does: the first
    ``videos % workers`` get one more than the others. Each worker makes a last batch of what is left to it, so many
    workers make more batches than one. Without workers (0) the loader's own process reads.
    """
    if workers < 1:
        return ceil_div(videos, batch_size)
    share, more = divmod(videos, workers)
    return more * ceil_div(share + 1, batch_size) + (workers - more) * ceil_div(share, batch_size)


def steps_of_pass(videos: int, workers: int, batch_size: int, processes: int) -> int:
    """Return the training steps of one pass: rank 0 hands each process one batch of the loader for each step.

    accelerate's DataLoaderDispatcher takes as many batches as there are processes; what is left at the end of the pass
    is one more step, for which it fills up from the first.
    """
    return ceil_div(loader_batches(videos, workers, batch_size), processes)


def last_epoch(max_steps: int, pass_steps: int) -> int:
    """Return the integer part of the last epoch in ``trainer_state.json``.

    The data cannot tell its length, so the Trainer counts an epoch as ``passes + steps in this pass / max_steps``: 150
    steps of passes of 75 end at 1 + 75/150. That is ceil(max_steps / pass_steps) - 1, but 1 where the first pass is as
    long as the training.
    """
    return max(1, ceil_div(max_steps, pass_steps) - 1)


def plan(
    variables: Mapping[str, Any],
    site: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    image: Mapping[str, Any] | None = None,
    script: str = "",
) -> dict[str, Any]:
    """Judge the variables, and put the runs together.

    :param variables: all variables that begin with ``vivit_``.
    :param site: all variables that begin with ``dgxc_``.
    :param data: what dataset_download returned, and None before the data was looked for: then there are no runs.
    :param image: ``reference`` and ``digest`` of the image, with the data.
    :param script: the text of the training script.
    :return: ``problems`` and ``warnings``, lists of sentences; ``data``, the arguments for dataset_download;
        ``preflight``, what the role preflight is to look for; ``runs``.
    """
    judge, common, matrix = judge_sweep(PREFIX, KNOWN, variables, site)
    workers = _loader_workers(judge)
    batch = judge.whole("batch_size", 1, 4096, "give the clips of one device's batch as a whole number of at least 1")
    steps = _max_steps(judge)
    videos = absent_or_whole(
        judge, "data_videos", 1, "give the number of training videos, or null to take what is there"
    )
    classes = absent_or_whole(judge, "data_classes", 2, "give the number of classes, or null to take what is there")
    numbers = _numbers(judge)
    cpu = judge.truth("cpu")
    names = [_run_name(common.run_name, *cell, batch, count) for cell in matrix for count in workers]
    judge_run_names(judge, names)

    counted = data["counts"].get("training videos") if data is not None else None
    known = counted if counted is not None else videos
    if batch and known and steps == 0 and known < batch:
        judge.say("batch_size", "{0} training videos make no batch of that size; give a smaller one".format(known))
    warnings = judge.warnings + _uneven(workers, known, batch)
    wish = {
        "path": given_path(judge),
        "counts": COUNTS,
        "expected": {
            name: number for name, number in (("training videos", videos), ("classes", classes)) if number is not None
        },
    }
    wishes = wishes_of(judge, common, "vivit", names, matrix) if not judge.problems else {}
    runs: list[dict[str, Any]] = []
    if not judge.problems and data is not None and image is not None and batch:
        before = ""
        for nodes, gpus in matrix:
            for count in workers:
                max_steps = steps or ((known // batch) * 2 if known else 0)
                run = script_run(
                    judge,
                    common,
                    "vivit",
                    _run_name(common.run_name, nodes, gpus, batch, count),
                    (nodes, gpus),
                    image=image,
                    script=(SCRIPT, script),
                    program=_program(judge, nodes, gpus, batch, count, steps or 0, numbers, bool(cpu)),
                    identity={"data": str(data.get("manifest") or ""), "counts": dict(data["counts"])},
                    expect=_expect(judge, nodes, gpus, batch, count, max_steps, known),
                    after=before,
                )
                before = run["name"]
                runs.append(run)
    return {
        "problems": judge.problems,
        "warnings": warnings,
        "data": {**wish, "given": bool(judge.value("data_path"))},
        "preflight": wishes,
        "runs": runs,
    }


def _uneven(workers: Sequence[int], videos: int | None, batch: int | None) -> list[str]:
    """Return the warnings about numbers of loader workers that do not divide the videos evenly."""
    return [
        "With {0} loader workers, {1} videos make {2} batches of {3} and not {4}, because each worker ends with a batch"
        " of its own; the epochs that are expected follow from that.".format(
            count, videos, loader_batches(videos, count, batch), batch, ceil_div(videos, batch)
        )
        for count in workers
        if videos and batch and loader_batches(videos, count, batch) != ceil_div(videos, batch)
    ]


def _run_name(run_name: str, nodes: int, gpus: int, batch: int | None, workers: int) -> str:
    """Return a name that tells all runs of a sweep apart, such as vivit-n2g8b4-w15."""
    return "{0}-n{1}g{2}b{3}-w{4}".format(run_name, nodes, gpus, batch, workers)


def _loader_workers(judge: Judge) -> list[int]:
    value = judge.value("loader_workers")
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    counts = [int(item) for item in items if not isinstance(item, bool) and re.fullmatch(r"[0-9]{1,3}", str(item))]
    if not counts or len(counts) != len(items):
        judge.say(
            "loader_workers",
            "give the number of processes that read videos, or a list of numbers for one run each (on the command line:"
            " -e '{\"vivit_loader_workers\": [15, 1]}')",
        )
        return []
    if len(set(counts)) != len(counts):
        judge.say("loader_workers", "name each number once")
        return []
    return counts


def _max_steps(judge: Judge) -> int | None:
    """Return the steps that are asked for, and 0 for auto, which depends on the data."""
    if judge.value("max_steps") == "auto":
        return 0
    return judge.whole("max_steps", 1, 10**9, "give a number of steps, or auto for (videos // batch size) x 2")


def _numbers(judge: Judge) -> dict[str, Any]:
    """Return the settings that the script takes as they are, by the names of its options."""
    return {
        "loader-prefetch": judge.whole("loader_prefetch", 1, 65536, "give the batches that each worker prepares ahead"),
        "learning-rate": judge.decimal("learning_rate", 1e-12, 10, "give a number above 0, such as 5e-5"),
        "warmup-ratio": judge.decimal("warmup_ratio", 0, 1, "give the part of the steps from 0 to 1"),
        "logging-steps": judge.whole("logging_steps", 1, 10**6, "give the steps between two losses in the log"),
        "save-total-limit": judge.whole("save_total_limit", 0, 10**6, "give the checkpoints to keep, or 0 for all"),
        "seed": judge.whole("seed", 0, 2**31 - 1, "give a whole number"),
    }


def _program(
    judge: Judge, nodes: int, gpus: int, batch: int, workers: int, steps: int, numbers: Mapping[str, Any], cpu: bool
) -> list[str]:
    words = ["{0}/{1}".format(ATTEMPT, SCRIPT), *model_argument(judge)]
    words += ["--data", "/data/" + local_name(given_path(judge)), "--output", ATTEMPT + "/output"]
    words += ["--nodes", str(nodes), "--gpus-per-node", str(gpus), "--batch-size", str(batch)]
    words += ["--max-steps", str(steps) if steps else "auto", "--loader-workers", str(workers)]
    for name, value in numbers.items():
        words += ["--" + name, "{0:g}".format(value) if isinstance(value, float) else str(value)]
    return words + (["--cpu"] if cpu else [])


def _expect(
    judge: Judge, nodes: int, gpus: int, batch: int, workers: int, max_steps: int, videos: int | None
) -> dict[str, Any]:
    processes = nodes * gpus
    folder = "output/{0}-finetuned-ucf101-subset-{1}-n-{2}-g-{3}-b".format(
        local_name(str(judge.value("model"))), nodes, gpus, batch
    )
    expect: dict[str, Any] = {
        "global_batch_size": batch * processes,
        "output": {
            "files": [
                folder + "/" + name
                for name in ("config.json", "model.safetensors", "preprocessor_config.json", "test_results.json")
            ],
            "trainer_state": folder + "/trainer_state.json",
            "evaluation": True,
        },
    }
    if max_steps:
        expect["steps"] = max_steps
        # The Trainer cannot count what it iterates over, and tells what it will have seen.
        expect["num_examples"] = max_steps * batch * processes
    if max_steps and videos:
        expect["output"]["last_epoch"] = last_epoch(max_steps, steps_of_pass(videos, workers, batch, processes))
    return expect
