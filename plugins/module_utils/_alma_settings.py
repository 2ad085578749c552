# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the variables of the role alma to runs. Private to this collection.

``plan`` judges the variables before anything is touched and says which files the training reads; ``runs`` puts the runs
together once these files are known. Both are pure.

What is said here of ALMA's program ``run_llmmt.py`` and of transformers was read in ALMA at the pinned commit and in
transformers 4.30.0, which its image has.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._accelerate import (
    ATTEMPT,
    COMMON,
    Common,
    accelerate_run,
    judge_common,
    judge_run_names,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._files import canonical_json
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import COMMIT, Judge, whole_number
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_wishes import of_accelerate
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import (
    GPUS_MOST,
    nearest,
    path_problems,
    plain,
)

PREFIX = "alma_"
KNOWN = COMMON | frozenset(
    (
        "accumulation",
        "batch_size",
        "commit",
        "data_path",
        "ddp_timeout",
        "epochs",
        "eval_batch_size",
        "eval_steps",
        "evaluate",
        "extra_arguments",
        "gpus_per_node",
        "gradient_clipping",
        "image_tag",
        "language_pairs",
        "learning_rate",
        "load_best_model",
        "logging_steps",
        "lora_rank",
        "low_cpu_mem_usage",
        "max_new_tokens",
        "max_source_length",
        "max_train_samples",
        "model",
        "nodes",
        "num_beams",
        "offload_optimizer",
        "offload_param",
        "overwrite_cache",
        "path",
        "precision",
        "report_to",
        "save_steps",
        "save_total_limit",
        "scheduler",
        "seed",
        "train_examples",
        "trainable_parameters",
        "url",
        "warmup_ratio",
        "weight_decay",
        "zero_stage",
    )
)

#: ALMA at the document's commit, and how many examples its training files have.
PINNED_COMMIT = "83ee22fefd14e38badd72491fa21a9251b3b4040"
PINNED_EXAMPLES = {"cs": 12076, "de": 14211, "is": 2009, "ru": 15000, "zh": 15406}
DATA_FOLDER = "human_written_data"

#: Layers, hidden size and size of the feed-forward network of models, from their config.json.
MODELS = {
    "haoranxu/ALMA-7B-Pretrain": (32, 4096, 11008),
    "haoranxu/ALMA-13B-Pretrain": (40, 5120, 13824),
    "meta-llama/Llama-2-7b-hf": (32, 4096, 11008),
    "meta-llama/Llama-2-13b-hf": (40, 5120, 13824),
}

#: The document's exports that have to do with the network. It writes the last as NCCL_ASYNC_ERROR_HANDLING, a name that
#: PyTorch 2.2, which the image has, warns about.
BASE_ENV = {"TORCH_NCCL_AVOID_RECORD_STREAMS": 1, "NCCL_NVLS_ENABLE": 0, "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1}

#: Where the container sees the clone.
WORKSPACE = "/workspace"

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)?|\.(?:/[A-Za-z0-9._-]+)+|/[A-Za-z0-9._/@+=-]+")
_DATA = re.compile(r"(?:\./)?[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?|/[A-Za-z0-9._/@+=-]+")
_PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")
# run_llmmt.py has no words for others.
_LANGUAGES = ("cs", "de", "fr", "gu", "ha", "is", "ja", "ro", "ru", "uk", "zh")
_SCHEDULERS = (
    "constant", "constant_with_warmup", "cosine", "cosine_with_restarts", "inverse_sqrt", "linear", "polynomial",
)  # fmt: skip
_ARGUMENT = re.compile(r"[a-z][a-z0-9_]*")
_FLOAT_MOST = 1e9
_WHOLE_MOST = 10**9

# Arguments of run_llmmt.py that have a variable of their own, and those that would make the expectations wrong.
_OWNED = {
    "bf16": "alma_precision",
    "ddp_timeout": "alma_ddp_timeout",
    "do_eval": "alma_evaluate",
    "eval_steps": "alma_eval_steps",
    "evaluation_strategy": "alma_evaluate",
    "fp16": "alma_precision",
    "gradient_accumulation_steps": "alma_accumulation",
    "language_pairs": "alma_language_pairs",
    "learning_rate": "alma_learning_rate",
    "load_best_model_at_end": "alma_load_best_model",
    "logging_steps": "alma_logging_steps",
    "lora_rank": "alma_lora_rank",
    "low_cpu_mem_usage": "alma_low_cpu_mem_usage",
    "lr_scheduler_type": "alma_scheduler",
    "max_grad_norm": "alma_gradient_clipping",
    "max_new_tokens": "alma_max_new_tokens",
    "max_source_length": "alma_max_source_length",
    "max_steps": "alma_epochs and alma_max_train_samples",
    "max_train_samples": "alma_max_train_samples",
    "mmt_data_path": "alma_data_path",
    "model_name_or_path": "alma_model",
    "num_beams": "alma_num_beams",
    "num_train_epochs": "alma_epochs",
    "overwrite_cache": "alma_overwrite_cache",
    "per_device_eval_batch_size": "alma_eval_batch_size",
    "per_device_train_batch_size": "alma_batch_size",
    "report_to": "alma_report_to",
    "save_steps": "alma_save_steps",
    "save_total_limit": "alma_save_total_limit",
    "seed": "alma_seed",
    "warmup_ratio": "alma_warmup_ratio",
    "weight_decay": "alma_weight_decay",
}
_REFUSED = {
    "deepspeed": "accelerate is told how to use DeepSpeed",
    "do_train": "every run trains",
    "ignore_pad_token_for_loss": "the document always passes it",
    "ignore_prompt_token_for_loss": "the document always passes it",
    "logging_nan_inf_filter": "with it, a loss that is no number would not be seen",
    "mono_data_path": "its examples are not counted here, so the number of steps could not be checked",
    "no_logging_nan_inf_filter": "logging_nan_inf_filter is off already",
    "oscar_data_path": "its examples are not counted here, so the number of steps could not be checked",
    "output_dir": "it is the attempt folder",
    "overwrite_output_dir": "the output folder is that of the attempt, which is new",
    "per_gpu_train_batch_size": "it would take the place of alma_batch_size",
    "resume_from_checkpoint": "each attempt has a folder of its own and begins anew",
    "save_strategy": "it is steps",
    "streaming": "the number of examples, and so of steps, would not be known",
    "suffix": "its files are not looked for here, so the number of steps could not be checked",
    "text_test_file": "run_llmmt.py would not read the training data",
    "use_peft": "this workload trains an adapter",
}


@dataclass(frozen=True)
class Settings:
    """The variables of ALMA itself, judged."""

    nodes: tuple[int, ...]
    gpus_per_node: int
    commit: str
    path: str
    model: str
    data_path: str
    pairs: tuple[str, ...]
    lora_rank: int
    trainable_parameters: int | None
    train_examples: Mapping[str, int]
    batch_size: int
    eval_batch_size: int
    accumulation: int
    epochs: float
    max_train_samples: int | None
    learning_rate: float
    weight_decay: float
    warmup_ratio: float
    scheduler: str
    precision: str
    zero_stage: int
    offload_optimizer: str
    offload_param: str
    gradient_clipping: float
    seed: int
    evaluate: bool
    eval_steps: int
    save_steps: int
    save_total_limit: int
    load_best_model: bool
    logging_steps: int
    max_source_length: int
    max_new_tokens: int
    num_beams: int
    ddp_timeout: int
    low_cpu_mem_usage: bool
    overwrite_cache: bool
    report_to: str
    extra_arguments: Mapping[str, Any]

    @property
    def languages(self) -> list[str]:
        """The languages beside English, each of which has one training file for both directions."""
        return sorted({language for pair in self.pairs for language in pair.split("-")} - {"en"})

    @property
    def data_root(self) -> str:
        """The folder of the data on the cluster."""
        return _in_clone(self.path, self.data_path)

    @property
    def data_in_clone(self) -> bool:
        """Whether the data comes with the clone."""
        return not self.data_path.startswith("/")

    @property
    def model_config(self) -> str:
        """The config.json of a model that is a folder on the cluster; '' for one on Hugging Face's hub."""
        return "{0}/config.json".format(_in_clone(self.path, self.model)) if self.model[0] in "./" else ""


def _in_clone(clone: str, path: str) -> str:
    """The absolute path of one that may be relative to the clone."""
    plain_path = path.rstrip("/")
    return plain_path if plain_path.startswith("/") else "{0}/{1}".format(clone, re.sub(r"^\./", "", plain_path))


# The numbers that a run is checked against.


def examples_of(lines: Mapping[str, int], pairs: Sequence[str], max_train_samples: int | None = None) -> int:
    """Return the Trainer's "Num examples": each line of a language's file counts once for each direction of it."""
    total = 0
    for language, count in lines.items():
        directions = sum(language in pair.split("-") for pair in pairs)
        total += directions * (count if max_train_samples is None else min(count, max_train_samples))
    return total


def global_batch_size(nodes: int, gpus_per_node: int, batch_size: int, accumulation: int) -> int:
    """Return the Trainer's "Total train batch size"."""
    return nodes * gpus_per_node * batch_size * accumulation


def optimization_steps(examples: int, processes: int, batch_size: int, accumulation: int, epochs: float) -> int:
    """Return the Trainer's "Total optimization steps".

    accelerate deals the batches out to the processes, the last round filled up; the Trainer makes one step of as many
    rounds as are accumulated, and leaves the rest of an epoch out of the number (transformers 4.30.0, ``trainer.py``).
    """
    rounds = math.ceil(math.ceil(examples / batch_size) / processes)
    return math.ceil(epochs * max(rounds // accumulation, 1))


def trainable_parameters(layers: int, hidden: int, feed_forward: int, rank: int) -> int:
    """Return the Trainer's "Number of trainable parameters": two matrices for each layer's ``down_proj``."""
    return layers * rank * (feed_forward + hidden)


# Judging the variables.


def plan(variables: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Judge the variables.

    :param variables: all variables that begin with ``alma_``.
    :param site: all variables that begin with ``dgxc_``.
    :return: ``problems`` and ``warnings``, lists of sentences; ``data_files``, what dataset_info is to look at;
        ``model_config``, the file that tells the size of a model on the cluster, '' for a model of the hub;
        ``cached_model``, the folder that a model of the hub has to be in when there is no network, else ''; and
        ``preflight``, what the role preflight is to look for. The last four are empty if there are problems.
    """
    judge = Judge(PREFIX, variables)
    common, settings = _judge(judge, site)
    if settings is None or judge.problems:
        nothing = {"data_files": [], "model_config": "", "cached_model": "", "preflight": {}}
        return {"problems": judge.problems, "warnings": [], **nothing}
    return {
        "problems": [],
        "warnings": judge.warnings,
        "data_files": _data_files(settings),
        "model_config": settings.model_config,
        "cached_model": _cached_model(common, settings) if common.offline and not settings.model_config else "",
        "preflight": _wishes(judge, common, settings),
    }


def _wishes(judge: Judge, common: Common, settings: Settings) -> dict[str, Any]:
    """What the role preflight is to look for: the first mount is the clone's, which the play makes."""
    return of_accelerate(
        common,
        "alma",
        [_name(common.run_name, count) for count in settings.nodes],
        [(count, settings.gpus_per_node) for count in settings.nodes],
        image=str(judge.value("container_image") or ""),
        mounts=_mounts(settings)[1:],
        hub_model="" if settings.model_config else settings.model,
        git_remotes=[{"url": str(judge.value("url")), "path": settings.path, "commit": settings.commit}],
    )


def _cached_model(common: Common, settings: Settings) -> str:
    """Where Hugging Face's hub library keeps what it fetched of a model."""
    return "{0}/hub/models--{1}".format(common.cache_path, settings.model.replace("/", "--"))


def _judge(judge: Judge, site: Mapping[str, Any]) -> tuple[Common, Settings | None]:
    common = judge_common(judge, site)
    judge.unknown(KNOWN)
    nodes = judge.node_counts("nodes")
    judge_run_names(judge, [_name(common.run_name, count) for count in nodes])
    values = {
        "nodes": tuple(nodes),
        "gpus_per_node": judge.whole("gpus_per_node", 1, GPUS_MOST, "give the GPUs of one node as a whole number"),
        **_judge_sources(judge, site),
        **_judge_training(judge),
        **_judge_evaluation(judge),
        **_judge_limits(judge),
        "extra_arguments": _extra_arguments(judge),
    }
    if judge.problems:
        return common, None
    settings = Settings(**values)
    _warn(judge, settings)
    return common, settings


def _judge_sources(judge: Judge, site: Mapping[str, Any]) -> dict[str, Any]:
    """Where program, model and data come from."""
    judge.text("url", re.compile(r"[^\s-]\S*"), "give the address that 'git clone' takes, without blanks")
    judge.text(
        "image_tag", re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"), "give the tag of the image, such as 24.01"
    )
    if site.get("dgxc_shared_root"):
        # It is below the shared root by default, and there is nothing to say about it while that is missing.
        judge.problems += path_problems(judge.prefix + "path", judge.value("path"))
    model = judge.text(
        "model",
        _MODEL,
        "give a name on Hugging Face's hub, such as haoranxu/ALMA-7B-Pretrain, the absolute path of a model's folder on"
        " shared storage, or ./ and a folder of the clone",
    )
    if model is not None and model.startswith("/"):
        judge.problems += path_problems(judge.prefix + "model", model)
    if model is not None and "mpt" in model:
        # run_llmmt.py looks for the letters anywhere in the text, also in "/lustre/prompts".
        judge.say(
            "model",
            "run_llmmt.py takes every name with the letters 'mpt' in it for a model of the kind MPT, and fails on"
            " others; choose another model, or another place for it",
        )
    data = judge.text(
        "data_path",
        _DATA,
        "give a folder of the clone, such as ./human_written_data/, or the absolute path of one on shared storage",
    )
    if data is not None and data.startswith("/"):
        judge.problems += path_problems(judge.prefix + "data_path", data)
    return {
        "commit": judge.text("commit", COMMIT, "give the full commit id of 40 digits (0-9, a-f)"),
        "path": str(judge.value("path")),
        "model": model,
        "data_path": data,
        "pairs": _pairs(judge),
        "train_examples": _train_examples(judge),
        "trainable_parameters": _optional(judge, "trainable_parameters", "the number of the adapter's parameters"),
        "max_train_samples": _optional(judge, "max_train_samples", "the most examples of each training file"),
    }


def _pairs(judge: Judge) -> tuple[str, ...] | None:
    value = judge.value("language_pairs")
    words = value.split(",") if isinstance(value, str) else value
    remedy = "give directions from or to English, such as zh-en or de-en,en-de"
    if not isinstance(words, (list, tuple)) or not words or not all(isinstance(word, str) for word in words):
        judge.say("language_pairs", remedy)
        return None
    pairs = [word.strip() for word in words]
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if not match or (match[1] == "en") == (match[2] == "en"):
            judge.say("language_pairs", "{0!r} is none: {1}".format(pair, remedy))
            return None
        language = match[2] if match[1] == "en" else match[1]
        if language not in _LANGUAGES:
            judge.say("language_pairs", "run_llmmt.py does not know the language {0!r}; it knows {1}".format(
                language, ", ".join(_LANGUAGES)))  # fmt: skip
            return None
    if len(set(pairs)) != len(pairs):
        judge.say("language_pairs", "name each direction once")
        return None
    return tuple(pairs)


def _train_examples(judge: Judge) -> dict[str, int]:
    value = judge.value("train_examples")
    if value is None:
        return {}
    counts = (
        {str(key): whole_number(count) for key, count in value.items()} if isinstance(value, Mapping) else {"": None}
    )
    if not all(language in _LANGUAGES and count for language, count in counts.items()):
        judge.say("train_examples", "give the number of examples of a language's training file, such as {zh: 15406}")
        return {}
    return {language: int(count or 0) for language, count in counts.items()}


def _optional(judge: Judge, name: str, what: str) -> int | None:
    if judge.value(name) in (None, ""):
        return None
    return judge.whole(name, 1, 10**12, "give {0} as a whole number of at least 1, or ''".format(what))


def _judge_training(judge: Judge) -> dict[str, Any]:
    """How it is trained."""
    whole = "give a whole number of at least 1"
    ratio = "give a number from 0 to 1"
    found: dict[str, Any] = {
        name: judge.whole(name, 1, _WHOLE_MOST, whole)
        for name in ("lora_rank", "batch_size", "eval_batch_size", "accumulation")
    }
    found.update(
        epochs=_positive(judge, "epochs"),
        learning_rate=_positive(judge, "learning_rate"),
        weight_decay=judge.decimal("weight_decay", 0, _FLOAT_MOST, "give a number of at least 0"),
        warmup_ratio=judge.decimal("warmup_ratio", 0, 1, ratio),
        scheduler=_choice(judge, "scheduler", _SCHEDULERS),
        precision=_choice(judge, "precision", ("fp16", "bf16", "no")),
        zero_stage=judge.whole(
            "zero_stage",
            0,
            2,
            "give 0, 1 or 2; run_llmmt.py saves the adapter without gathering what stage 3 spreads over the processes,"
            " so its larger matrices would be saved empty",
        ),
        offload_optimizer=_choice(judge, "offload_optimizer", ("none", "cpu")),
        offload_param=_choice(judge, "offload_param", ("none", "cpu")),
        gradient_clipping=_positive(judge, "gradient_clipping"),
        seed=judge.whole("seed", 0, 2**32 - 1, "give a whole number from 0 to 4294967295"),
    )
    return found


def _judge_evaluation(judge: Judge) -> dict[str, Any]:
    """When it evaluates, saves and speaks."""
    whole = "give a number of steps as a whole number of at least 1"
    found: dict[str, Any] = {
        name: judge.whole(name, 1, _WHOLE_MOST, whole)
        for name in ("eval_steps", "save_steps", "logging_steps", "save_total_limit")
    }
    for name in ("evaluate", "load_best_model", "overwrite_cache", "low_cpu_mem_usage"):
        found[name] = judge.truth(name)
    if found["load_best_model"] and found["evaluate"] is False:
        judge.say("load_best_model", "evaluations tell which is the best; set alma_evaluate to true, or this to false")
    elif found["load_best_model"] and found["eval_steps"] and (found["save_steps"] or 0) % found["eval_steps"]:
        judge.say("save_steps", "to load the best model, the Trainer wants a multiple of alma_eval_steps, which is"
                  " {0}".format(found["eval_steps"]))  # fmt: skip
    return found


def _judge_limits(judge: Judge) -> dict[str, Any]:
    tokens = "give a number of tokens as a whole number of at least 1"
    return {
        "max_source_length": judge.whole("max_source_length", 1, 10**6, tokens),
        "max_new_tokens": judge.whole("max_new_tokens", 1, 10**6, tokens),
        "num_beams": judge.whole("num_beams", 1, 1000, "give a whole number of at least 1"),
        "ddp_timeout": judge.whole("ddp_timeout", 1, _WHOLE_MOST, "give a number of seconds"),
        "report_to": judge.text(
            "report_to", re.compile(r"[a-z_]+"), "give none, or the name of what the Trainer reports to, as tensorboard"
        ),
    }


def _positive(judge: Judge, name: str) -> float | None:
    number = judge.decimal(name, 0, _FLOAT_MOST, "give a number greater than 0")
    if number is not None and number <= 0:
        judge.say(name, "give a number greater than 0")
        return None
    return number


def _choice(judge: Judge, name: str, choices: Sequence[str]) -> str | None:
    value = judge.value(name)
    if value is False and "no" in choices:
        # What YAML makes of 'no' without quotes.
        return "no"
    if value in choices:
        return str(value)
    judge.say(name, "give one of {0}".format(", ".join(choices)))
    return None


def _extra_arguments(judge: Judge) -> dict[str, Any]:
    value = judge.value("extra_arguments")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        judge.say("extra_arguments", "give a dictionary of arguments of run_llmmt.py, such as {right_pad: true}")
        return {}
    found = {}
    for key, content in value.items():
        name = str(key)
        where = "{0}extra_arguments".format(judge.prefix)
        if not _ARGUMENT.fullmatch(name):
            near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
            judge.problems.append(
                "{0} has {1!r}: write the argument's name without dashes, as {2}.".format(where, name, near)
            )
        elif name in _OWNED:
            judge.problems.append(
                "{0} sets {1}, which has a variable of its own: use {2}.".format(where, name, _OWNED[name])
            )
        elif name in _REFUSED:
            judge.problems.append("{0} sets {1}: leave it out, {2}.".format(where, name, _REFUSED[name]))
        elif _stands_for(name):
            judge.problems.append(
                "{0} sets {1}, which run_llmmt.py takes for {2}: write the whole name of what you mean.".format(
                    where, name, _stands_for(name)
                )
            )
        elif "token" in name and isinstance(content, str):
            judge.problems.append(
                "{0} sets {1}: leave secrets out of command lines, which everybody can read.".format(where, name)
            )
        elif isinstance(content, bool) or (isinstance(content, (str, int, float)) and "\n" not in str(content)):
            found[name] = content
        elif content is not None:
            judge.problems.append(
                "{0} sets {1} to {2!r}: give a text, a number or true.".format(where, name, plain(content))
            )
    return found


def _stands_for(name: str) -> str:
    """Return an argument with a variable that begins with the name: a parser takes what is short for the whole."""
    return next((known for known in (*_OWNED, *_REFUSED) if known.startswith(name)), "")


def _warn(judge: Judge, settings: Settings) -> None:
    for name in settings.extra_arguments:
        near = nearest(name, _OWNED, 0.88)
        if near:
            judge.warnings.append(
                "alma_extra_arguments sets {0}, which is much like {1}, which {2} sets.".format(
                    name, near, _OWNED[near]
                )
            )
    if settings.offload_optimizer == "cpu" and settings.zero_stage == 0:
        judge.warnings.append("alma_offload_optimizer is cpu, which DeepSpeed does from alma_zero_stage 1 on only.")


def _name(run_name: str, nodes: int) -> str:
    return "{0}-n{1}".format(run_name, nodes)


# From data to runs.


def _data_files(settings: Settings) -> list[dict[str, Any]]:
    """What dataset_info is asked. The names are those that run_llmmt.py makes of the language pairs."""
    files = []
    for language in settings.languages:
        folder = "{0}/{1}en".format(settings.data_root, language)
        for split in ("train", "valid") if settings.evaluate else ("train",):
            files.append(
                {
                    "path": "{0}/{1}.{2}-en.json".format(folder, split, language),
                    "format": "json",
                    "keys": ["translation." + language, "translation.en"],
                    "examples": _known_examples(settings, language) if split == "train" else None,
                    # Not every language has one.
                    "optional": split == "valid",
                    "made_with": settings.path if settings.data_in_clone else "",
                    "examples_of": "alma_train_examples"
                    if language in settings.train_examples
                    else "the pinned commit",
                    "remedy": _data_remedy(settings),
                }
            )
    return files


def _known_examples(settings: Settings, language: str) -> int | None:
    if language in settings.train_examples:
        return settings.train_examples[language]
    if settings.data_in_clone and settings.commit == PINNED_COMMIT and _is_default_data(settings):
        return PINNED_EXAMPLES.get(language)
    return None


def _is_default_data(settings: Settings) -> bool:
    return settings.data_root == "{0}/{1}".format(settings.path, DATA_FOLDER)


def _data_remedy(settings: Settings) -> str:
    if not settings.data_in_clone:
        return "put the whole file there, or set alma_data_path"
    return (
        "see that the commit of alma_commit has it, remove the folder {0}, and run the playbook again, which clones it"
        " anew (with git-lfs installed on the login node where Git LFS is spoken of)".format(settings.path)
    )


def runs(variables: Mapping[str, Any], site: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Put the runs together.

    :param found: what was found on the cluster: ``data``, the answers of dataset_info for the plan's ``data_files`` in
        their order; ``model_config``, the text of the plan's file of that name, None if it is not there; ``image`` with
        ``reference`` and ``digest``; and ``rehearsal``, whether the clone may be missing because nothing is changed.
    :return: ``problems``, ``warnings`` and ``runs``, one run for each node count (none if there are problems).
    """
    judge = Judge(PREFIX, variables)
    common, settings = _judge(judge, site)
    if settings is None:
        return {"problems": judge.problems, "warnings": [], "runs": []}
    judge.warnings = []
    data, image = found["data"], found["image"]
    lines = _lines(settings, data)
    _judge_validation(judge, settings, data)
    parameters = _parameters(judge, settings, found.get("model_config"), bool(found.get("rehearsal")))
    examples = None if lines is None else examples_of(lines, settings.pairs, settings.max_train_samples)
    finished: list[dict[str, Any]] = []
    if not judge.problems:
        for nodes in settings.nodes:
            expect = _expect(settings, nodes, examples, parameters)
            steps = expect.get("steps")
            if steps is not None and settings.evaluate and settings.eval_steps > steps:
                judge.warnings.append(
                    "{0}: alma_eval_steps is {1}, more than the {2} steps of this run, so nothing is evaluated and no"
                    " checkpoint written; the adapter is that of the last step, as in the document.".format(
                        _name(common.run_name, nodes), settings.eval_steps, steps
                    )
                )
            finished.append(
                accelerate_run(
                    common,
                    workload="alma",
                    name=_name(common.run_name, nodes),
                    nodes=nodes,
                    gpus_per_node=settings.gpus_per_node,
                    launch=launch_options(settings),
                    program=program(settings),
                    mounts=_mounts(settings),
                    workdir=WORKSPACE,
                    image=image,
                    env=_environment(common, settings),
                    identity={"alma_commit": settings.commit, "data": _data_identity(settings, data)},
                    expect=expect,
                    after=finished[-1]["name"] if finished else "",
                )
            )
    return {"problems": judge.problems, "warnings": judge.warnings, "runs": finished}


def _lines(settings: Settings, data: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """The lines of each language's training file; None if one is not known before there is a clone."""
    found = {}
    for wanted, facts in zip(_data_files(settings), data):
        if "/train." in wanted["path"]:
            language = str(wanted["keys"][0]).rpartition(".")[2]
            lines = facts.get("examples")
            if lines is None:
                lines = wanted["examples"]
            if lines is None:
                return None
            found[language] = int(lines)
    return found


def _judge_validation(judge: Judge, settings: Settings, data: Sequence[Mapping[str, Any]]) -> None:
    """run_llmmt.py evaluates with what there is, and fails if there is nothing."""
    states = [
        str(facts.get("state")) for wanted, facts in zip(_data_files(settings), data) if "/valid." in wanted["path"]
    ]
    if settings.evaluate and all(state == "absent" for state in states):
        judge.say(
            "evaluate",
            "{0} has no validation data for {1}, without which run_llmmt.py fails; set alma_evaluate and"
            " alma_load_best_model to false".format(settings.data_root, ", ".join(settings.languages)),
        )


def _parameters(judge: Judge, settings: Settings, config: str | None, rehearsal: bool) -> int | None:
    """The number of trainable parameters; None if it is not known."""
    sizes: tuple[int, int, int] | None = MODELS.get(settings.model)
    if settings.model_config and config is not None:
        sizes = _sizes(config)
        if sizes is None and settings.trainable_parameters is None:
            judge.say(
                "model",
                "its config.json tells no num_hidden_layers, hidden_size and intermediate_size; choose a model of"
                " Llama's kind, or give alma_trainable_parameters",
            )
    elif settings.model_config:
        if not (rehearsal and settings.model.startswith(".")):
            judge.say("model", "there is no {0}; give the folder of a model".format(settings.model_config))
    elif sizes is None and settings.trainable_parameters is None:
        judge.warnings.append(
            "The size of alma_model {0} is not known here, so its number of trainable parameters is not checked; give"
            " alma_trainable_parameters to have it checked.".format(settings.model)
        )
    if settings.trainable_parameters is not None:
        return settings.trainable_parameters
    return None if sizes is None else trainable_parameters(sizes[0], sizes[1], sizes[2], settings.lora_rank)


def _sizes(config: str) -> tuple[int, int, int] | None:
    """Layers, hidden size and size of the feed-forward network by a config.json; None if it does not tell them."""
    try:
        content = json.loads(config)
    except ValueError:
        return None
    keys = ("num_hidden_layers", "hidden_size", "intermediate_size")
    told = [whole_number(content.get(key)) if isinstance(content, dict) else None for key in keys]
    layers, hidden, feed_forward = told
    return (layers, hidden, feed_forward) if layers and hidden and feed_forward else None


def _expect(settings: Settings, nodes: int, examples: int | None, parameters: int | None) -> dict[str, Any]:
    processes = nodes * settings.gpus_per_node
    expect: dict[str, Any] = {
        "global_batch_size": global_batch_size(
            nodes, settings.gpus_per_node, settings.batch_size, settings.accumulation
        ),
        # peft 0.5.0, which the image has, writes adapter_model.bin, later ones adapter_model.safetensors.
        "output": {
            "files": ["output/adapter_config.json", "output/adapter_model.*"],
            "trainer_state": "output/trainer_state.json",
        },
    }
    if examples is not None:
        steps = optimization_steps(examples, processes, settings.batch_size, settings.accumulation, settings.epochs)
        expect.update(num_examples=examples, steps=steps)
        if settings.evaluate and settings.eval_steps <= steps:
            expect["output"]["evaluation"] = True
    if parameters is not None:
        expect["trainable_parameters"] = parameters
    return expect


def _mounts(settings: Settings) -> list[str]:
    mounts = ["{0}:{1}".format(settings.path, WORKSPACE)]
    if settings.model.startswith("/"):
        # A model in the hub's cache consists of links to files beside it.
        snapshot = re.match(r"(/.*/models--[^/]+)/snapshots/[^/]+$", settings.model)
        model = snapshot[1] if snapshot else settings.model
        mounts.append("{0}:{0}".format(model))
    if not settings.data_in_clone:
        mounts.append("{0}:{0}".format(settings.data_path))
    return mounts


def _environment(common: Common, settings: Settings) -> dict[str, Any]:
    """The document's exports, and where run_llmmt.py keeps tokenised data.

    It names that file after model and languages only, and takes it for its own even if it was made with other lengths
    or is just being made by another run. So what was made otherwise lies elsewhere.
    """
    made_from = {
        "commit": settings.commit,
        "data": settings.data_root,
        "extra": {str(key): plain(value) for key, value in settings.extra_arguments.items()},
        "lengths": [settings.max_source_length, settings.max_new_tokens],
        "model": settings.model,
        "pairs": sorted(settings.pairs),
        "samples": settings.max_train_samples,
    }
    digest = hashlib.sha256(canonical_json(made_from).encode("utf-8")).hexdigest()
    return {
        **BASE_ENV,
        "HF_DATASETS_CACHE": "{0}/datasets/alma-{1}".format(common.cache_path, digest[:12]),
        # The place of later versions, so that a model fetched with either is found by both.
        "TRANSFORMERS_CACHE": "{0}/hub".format(common.cache_path),
        "HF_EVALUATE_OFFLINE": int(common.offline),
        # The clone stays as Git left it.
        "PYTHONDONTWRITEBYTECODE": 1,
        # What DeepSpeed and Triton compile at the start. Their usual place is the home, which the container has not. In
        # a place of several attempts, the lock that a killed one left would be waited for without end.
        "TORCH_EXTENSIONS_DIR": "{0}/compiled/torch".format(ATTEMPT),
        "TRITON_CACHE_DIR": "{0}/compiled/triton".format(ATTEMPT),
    }


def _data_identity(settings: Settings, data: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Data of the clone is what its commit says; other data is told by its content."""
    if settings.data_in_clone:
        return {}
    return {str(facts["path"]): str(facts.get("sha256") or "") for facts in data if facts.get("state") != "absent"}


def launch_options(settings: Settings) -> list[str]:
    """Return the options of ``accelerate launch`` beside those of every run, in the document's order."""
    return [
        "--use_deepspeed",
        "--main_training_function", "main",
        "--mixed_precision", settings.precision,
        "--rdzv_backend", "static",
        "--deepspeed_multinode_launcher", "standard",
        "--gradient_accumulation_steps", str(settings.accumulation),
        "--gradient_clipping", repr(settings.gradient_clipping),
        "--offload_optimizer_device", settings.offload_optimizer,
        "--offload_param_device", settings.offload_param,
        "--zero3_init_flag", "false",
        "--zero_stage", str(settings.zero_stage),
    ]  # fmt: skip


def program(settings: Settings) -> list[str]:
    """Return run_llmmt.py and its arguments, in the document's order."""
    evaluate = settings.evaluate
    words: list[tuple[str, Any]] = [
        ("model_name_or_path", settings.model),
        ("mmt_data_path", settings.data_path),
        ("use_peft", True),
        ("lora_rank", settings.lora_rank),
        ("do_train", True),
        ("do_eval", evaluate),
        ("language_pairs", ",".join(settings.pairs)),
        ("load_best_model_at_end", settings.load_best_model),
        ("low_cpu_mem_usage", settings.low_cpu_mem_usage),
        ("fp16", settings.precision == "fp16"),
        ("bf16", settings.precision == "bf16"),
        ("learning_rate", settings.learning_rate),
        ("weight_decay", settings.weight_decay),
        ("gradient_accumulation_steps", settings.accumulation),
        ("lr_scheduler_type", settings.scheduler),
        ("warmup_ratio", settings.warmup_ratio),
        ("ignore_pad_token_for_loss", True),
        ("ignore_prompt_token_for_loss", True),
        ("per_device_train_batch_size", settings.batch_size),
        ("per_device_eval_batch_size", settings.eval_batch_size),
        # With a strategy, the Trainer evaluates even without --do_eval.
        ("evaluation_strategy", "steps" if evaluate else "no"),
        ("eval_steps", settings.eval_steps if evaluate else None),
        ("save_strategy", "steps"),
        ("save_steps", settings.save_steps),
        ("save_total_limit", settings.save_total_limit),
        ("logging_strategy", "steps"),
        ("logging_steps", settings.logging_steps),
        # Else the Trainer logs 0 where a loss is no number. Not from the document.
        ("logging_nan_inf_filter", "False"),
        ("output_dir", "{0}/output".format(ATTEMPT)),
        ("num_train_epochs", settings.epochs),
        ("predict_with_generate", True),
        ("prediction_loss_only", True),
        ("max_new_tokens", settings.max_new_tokens),
        ("max_source_length", settings.max_source_length),
        ("seed", settings.seed),
        # Without it, run_llmmt.py takes every output folder that is there, and this one is, for a model to go on from.
        ("overwrite_output_dir", True),
        ("num_beams", settings.num_beams),
        ("ddp_timeout", settings.ddp_timeout),
        ("report_to", settings.report_to),
        ("overwrite_cache", settings.overwrite_cache),
        ("max_train_samples", settings.max_train_samples),
        # The Trainer refuses to train if this is not what DeepSpeed was told; both are 1 unless said otherwise.
        ("max_grad_norm", None if settings.gradient_clipping == 1 else settings.gradient_clipping),
        *sorted(settings.extra_arguments.items()),
    ]  # fmt: skip
    arguments = ["run_llmmt.py"]
    for name, value in words:
        if value is None or value is False:
            continue
        arguments.append("--" + name)
        if value is not True:
            arguments.append(number_text(value) if isinstance(value, float) else str(value))
    return arguments


def number_text(value: float) -> str:
    """Return a number as people write it: 8, 0.01, 1e-05."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
