# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the variables of the role whisper_qlora to runs. Private to this collection.

``plan`` judges the variables before anything is touched, and again with data and image at hand, when it puts the runs
together, one for each size of the sweep. All functions are pure.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

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

PREFIX = "whisper_qlora_"
SCRIPT = "train_whisper_qlora.py"
KNOWN = (
    COMMON
    | MODEL_NAMES
    | DATA_NAMES
    | frozenset(
        (
            "batch_size",
            "cpu",
            "data_page",
            "epochs",
            "evaluate",
            "examples",
            "kaggle_file",
            "kaggle_key",
            "kaggle_username",
            "language",
            "learning_rate",
            "load_in_8bit",
            "logging_steps",
            "lora_alpha",
            "lora_dropout",
            "lora_rank",
            "matrix",
            "seed",
            "trainable_parameters",
            "warmup_steps",
            "wer",
        )
    )
)
ROWS = {"train": "train*.parquet", "eval": "eval*.parquet"}

# (encoder layers, decoder layers, width) of models on the hub. An encoder layer has one attention, a decoder layer two.
MODELS = {
    "openai/whisper-tiny": (4, 4, 384),
    "openai/whisper-base": (6, 6, 512),
    "openai/whisper-small": (12, 12, 768),
    "openai/whisper-medium": (24, 24, 1024),
    "openai/whisper-large": (32, 32, 1280),
    "openai/whisper-large-v2": (32, 32, 1280),
    "openai/whisper-large-v3": (32, 32, 1280),
}


def training_steps(examples: int, batch_size: int, processes: int, epochs: int) -> int:
    """Return the steps of the training: each takes one batch for each process, and the last ones of an epoch are filled
    up. ceil(ceil(examples / batch size) / processes), times the epochs."""
    return epochs * ceil_div(ceil_div(examples, batch_size), processes)


def trainable_parameters(model: str, rank: int) -> int | None:
    """Return the parameters of the adapters on query and value projections; None for a model that is not known.

    Each adapted projection of a width w has two matrices, w x rank and rank x w.
    """
    if model not in MODELS:
        return None
    encoder, decoder, width = MODELS[model]
    return (encoder + 2 * decoder) * 2 * (2 * width * rank)


def plan(
    variables: Mapping[str, Any],
    site: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    image: Mapping[str, Any] | None = None,
    script: str = "",
) -> dict[str, Any]:
    """Judge the variables, and put the runs together.

    :param variables: all variables that begin with ``whisper_qlora_``.
    :param site: all variables that begin with ``dgxc_``.
    :param data: what dataset_download returned, and None before the data was looked for: then there are no runs.
    :param image: ``reference`` and ``digest`` of the image, with the data.
    :param script: the text of the training script.
    :return: ``problems`` and ``warnings``, lists of sentences; ``data``, the arguments for dataset_download;
        ``preflight``, what the role preflight is to look for; ``runs``.
    """
    judge, common, matrix = judge_sweep(PREFIX, KNOWN, variables, site)
    _kaggle(judge)
    batch = judge.whole("batch_size", 1, 4096, "give the examples of one device's batch, a whole number of at least 1")
    epochs = judge.whole("epochs", 1, 10**6, "give the passes over the data as a whole number of at least 1")
    examples = absent_or_whole(
        judge, "examples", 1, "give the examples of the first training file, or null to count them"
    )
    parameters = absent_or_whole(
        judge, "trainable_parameters", 1, "give the number of the adapters' parameters, or null if it is not known"
    )
    numbers = _numbers(judge)
    switches = _switches(judge)
    names = [_run_name(common.run_name, *cell) for cell in matrix]
    judge_run_names(judge, names)
    counted = _counted(data)
    if counted is not None and examples is not None and counted != examples:
        judge.say("examples", "the first training file, {0}, has {1}; correct it, or set it to null".format(
            data["rows"]["train"][0]["file"] if data else "", counted))  # fmt: skip
    if counted == 0:
        judge.problems.append(
            "{0} has no examples in its first training file: replace it by the whole data set.".format(
                given_path(judge)
            )
        )
    known = counted if counted is not None else examples
    if parameters is None and numbers["lora-rank"]:
        parameters = trainable_parameters(str(judge.value("model")), numbers["lora-rank"])

    wishes = wishes_of(judge, common, "whisper_qlora", names, matrix) if not judge.problems else {}
    runs: list[dict[str, Any]] = []
    if not judge.problems and data is not None and image is not None and batch and epochs:
        before = ""
        for nodes, gpus in matrix:
            run = script_run(
                judge,
                common,
                "whisper_qlora",
                _run_name(common.run_name, nodes, gpus),
                (nodes, gpus),
                image=image,
                script=(SCRIPT, script),
                program=_program(judge, nodes, gpus, batch, epochs, numbers, switches),
                identity={"data": str(data.get("manifest") or ""), "rows": dict(data["rows"])},
                expect=_expect(judge, nodes, gpus, batch, epochs, known, parameters),
                after=before,
            )
            before = run["name"]
            runs.append(run)
    return {
        "problems": judge.problems,
        "warnings": judge.warnings,
        "data": {"path": given_path(judge), "rows": ROWS, "given": bool(judge.value("data_path"))},
        "preflight": wishes,
        "runs": runs,
    }


def _run_name(run_name: str, nodes: int, gpus: int) -> str:
    """Return a name that tells all runs of a sweep apart, such as asr-n2g8."""
    return "{0}-n{1}g{2}".format(run_name, nodes, gpus)


def _counted(data: Mapping[str, Any] | None) -> int | None:
    """Return the rows of the file that is trained with: the first by name."""
    files = data["rows"].get("train") if data is not None else None
    return int(files[0]["rows"]) if files else None


def _kaggle(judge: Judge) -> None:
    """Judge the credentials. Sentences name the variables and never a key."""
    username, key = judge.value("kaggle_username"), judge.value("kaggle_key")
    if bool(username) != bool(key):
        judge.problems.append(
            "whisper_qlora_kaggle_{0} is given without whisper_qlora_kaggle_{1}: give both (as KAGGLE_USERNAME and"
            " KAGGLE_KEY in the environment, or from a vault), or neither.".format(
                *(("username", "key") if username else ("key", "username"))
            )
        )
    for name, value in (("username", username), ("key", key)):
        if value and (not isinstance(value, str) or re.search(r"[\s:]", value)):
            judge.problems.append(
                "whisper_qlora_kaggle_{0} is no text without blanks and colons: give it as Kaggle hands it out.".format(
                    name
                )
            )
    if judge.value("data_page"):
        judge.text("data_page", re.compile(r"https://\S+"), "give the page of the data set, or ''")
    if judge.value("kaggle_file"):
        judge.text("kaggle_file", re.compile(r"[~/]\S*"), "give the path of kaggle.json on the login node, or ''")


def _numbers(judge: Judge) -> dict[str, Any]:
    """Return the settings that the script takes as they are, by the names of its options."""
    return {
        "learning-rate": judge.decimal("learning_rate", 1e-12, 10, "give a number above 0, such as 1e-5"),
        "warmup-steps": judge.whole("warmup_steps", 0, 10**9, "give the steps over which the learning rate rises"),
        "lora-rank": judge.whole("lora_rank", 1, 4096, "give the rank of the adapters as a whole number of at least 1"),
        "lora-alpha": judge.whole("lora_alpha", 1, 10**6, "give LoRA's alpha as a whole number of at least 1"),
        "lora-dropout": judge.decimal("lora_dropout", 0, 0.999, "give a part from 0 to below 1"),
        "logging-steps": judge.whole("logging_steps", 1, 10**6, "give the steps between two losses in the log"),
        "language": judge.text("language", re.compile(r"[a-z]{2,3}"), "give a language's code, such as bn"),
        "seed": judge.whole("seed", 0, 2**31 - 1, "give a whole number"),
    }


def _switches(judge: Judge) -> list[str]:
    """Return the options without a value."""
    cpu, eight_bit = judge.truth("cpu"), judge.truth("load_in_8bit")
    evaluate, wer = judge.truth("evaluate"), judge.truth("wer")
    if cpu and eight_bit:
        judge.say("load_in_8bit", "8 bit needs a GPU; give false, or give false for whisper_qlora_cpu")
    if wer and evaluate is False:
        judge.say("wer", "it is a part of the evaluation; give true for whisper_qlora_evaluate")
    return [
        option
        for option, on in (
            ("--no-evaluation", evaluate is False),
            ("--wer", wer),
            ("--no-8bit", eight_bit is False),
            ("--cpu", cpu),
        )
        if on
    ]


def _program(
    judge: Judge, nodes: int, gpus: int, batch: int, epochs: int, numbers: Mapping[str, Any], switches: list[str]
) -> list[str]:
    words = ["{0}/{1}".format(ATTEMPT, SCRIPT), *model_argument(judge)]
    words += ["--data", "/data/" + local_name(given_path(judge)), "--output", ATTEMPT + "/output"]
    words += ["--nodes", str(nodes), "--gpus-per-node", str(gpus), "--batch-size", str(batch), "--epochs", str(epochs)]
    for name, value in numbers.items():
        words += ["--" + name, "{0:g}".format(value) if isinstance(value, float) else str(value)]
    return words + switches


def _expect(
    judge: Judge, nodes: int, gpus: int, batch: int, epochs: int, examples: int | None, parameters: int | None
) -> dict[str, Any]:
    processes = nodes * gpus
    folder = "output/lora/{0}-{1}-n-{2}-g".format(local_name(given_path(judge)), nodes, gpus)
    expect: dict[str, Any] = {
        "global_batch_size": batch * processes,
        "output": {
            "files": [folder + "/adapter_config.json", folder + "/adapter_model.safetensors"],
            "trainer_state": folder + "/trainer_state.json",
            "last_epoch": epochs,
            "evaluation": bool(judge.truth("evaluate")),
        },
    }
    if examples:
        expect["steps"] = training_steps(examples, batch, processes, epochs)
        expect["num_examples"] = examples
    if parameters:
        expect["trainable_parameters"] = parameters
    return expect
