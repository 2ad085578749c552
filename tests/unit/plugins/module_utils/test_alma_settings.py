# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement of the variables of alma, the numbers that a run is checked against, and the runs."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils._alma_settings import (
    KNOWN,
    PINNED_EXAMPLES,
    examples_of,
    global_batch_size,
    number_text,
    optimization_steps,
    plan,
    runs,
    trainable_parameters,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import run_key

ROLE = Path(__file__).resolve().parents[4] / "roles" / "alma"
SITE: dict[str, Any] = {"dgxc_shared_root": "/lustre/me"}
CLONE = "/lustre/me/workspace/ALMA"
IMAGE = {"reference": "/lustre/me/images/alma-24.01.sqsh", "digest": "sha256:1"}

# What the document passes to accelerate and to run_llmmt.py, word for word but for the output folder.
DOCUMENT_LAUNCH = """
    --use_deepspeed --main_training_function main --mixed_precision fp16 --rdzv_backend static
    --deepspeed_multinode_launcher standard --same_network --gradient_accumulation_steps 10 --gradient_clipping 1.0
    --offload_optimizer_device none --offload_param_device cpu --zero3_init_flag false --zero_stage 2
"""
DOCUMENT_PROGRAM = """
    run_llmmt.py --model_name_or_path haoranxu/ALMA-7B-Pretrain --mmt_data_path ./human_written_data/ --use_peft
    --lora_rank 16 --do_train --do_eval --language_pairs zh-en --load_best_model_at_end --low_cpu_mem_usage --fp16
    --learning_rate 0.002 --weight_decay 0.01 --gradient_accumulation_steps 10 --lr_scheduler_type inverse_sqrt
    --warmup_ratio 0.01 --ignore_pad_token_for_loss --ignore_prompt_token_for_loss --per_device_train_batch_size 12
    --per_device_eval_batch_size 4 --evaluation_strategy steps --eval_steps 512 --save_strategy steps --save_steps 512
    --save_total_limit 1 --logging_strategy steps --logging_steps 1 --output_dir /attempt/output --num_train_epochs 8
    --predict_with_generate --prediction_loss_only --max_new_tokens 256 --max_source_length 256 --seed 42
    --overwrite_output_dir --num_beams 5 --ddp_timeout 999999 --report_to none --overwrite_cache
"""


def defaults() -> dict[str, Any]:
    """The role's defaults, where they name facts of a site as they come out for the one of these tests."""
    values = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    rendered = {
        "alma_cache_path": "/lustre/me/cache/huggingface",
        "alma_gpus_per_node": 8,
        "alma_image_delivery": "upload",
        "alma_path": CLONE,
        **{f"alma_slurm_{name}": "" for name in ("account", "partition", "qos", "reservation")},
    }
    assert {name for name, value in values.items() if "{{" in str(value)} == set(rendered)
    return {**values, **rendered}


GOOD = defaults()


def planned(site: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return plan({**GOOD, **{f"alma_{name}": value for name, value in changes.items()}}, site or SITE)


def problems(**changes: Any) -> str:
    return "\n".join(planned(**changes)["problems"])


def found(examples: int | None = 15406, validation: str = "present", **more: Any) -> dict[str, Any]:
    train = {"path": f"{CLONE}/train", "state": "present" if examples else "pending", "examples": examples}
    return {"data": [train, {"path": "valid", "state": validation}], "image": IMAGE, "rehearsal": False, **more}


def made(answer: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    variables = {**GOOD, **{f"alma_{name}": value for name, value in changes.items()}}
    return runs(variables, SITE, answer or found())


def run(answer: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The only run of these variables."""
    result = made(answer, **{"nodes": 2, **changes})
    assert result["problems"] == []
    (only,) = result["runs"]
    return dict(only)


def command(only: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What accelerate and what run_llmmt.py is given."""
    script = only["files"]["launch.sh"]
    words = shlex.split(script[script.index("exec accelerate launch") :].replace("\\\n", " "))[3:]
    place = words.index("run_llmmt.py")
    return words[:place], words[place:]


def exports(only: dict[str, Any]) -> dict[str, str]:
    lines = [line[7:] for line in only["files"]["train.sbatch"].splitlines() if line.startswith("export ")]
    return dict(shlex.split(line)[0].split("=", 1) for line in lines if "=" in line)


# --- the numbers ---


def test_numbers_are_those_of_the_document() -> None:
    assert {nodes: global_batch_size(nodes, 8, 12, 10) for nodes in (1, 2)} == {1: 960, 2: 1920}
    steps = {nodes: optimization_steps(15406, nodes * 8, 12, 10, 8) for nodes in (1, 2, 3, 4, 8)}
    assert steps == {1: 128, 2: 64, 3: 40, 4: 32, 8: 16}
    assert trainable_parameters(32, 4096, 11008, 16) == 7733248


@pytest.mark.parametrize(
    ("pairs", "most", "examples"),
    [
        (("zh-en",), None, 15406),
        (("en-zh",), None, 15406),
        (("zh-en", "en-zh"), None, 30812),
        (("zh-en", "en-zh", "de-en"), None, 30812 + 14211),
        (("zh-en", "en-zh"), 100, 200),
        (("is-en",), 5000, 2009),
    ],
)
def test_each_line_is_an_example_of_each_direction(pairs: tuple[str, ...], most: int | None, examples: int) -> None:
    languages = {code for pair in pairs for code in pair.split("-")} - {"en"}
    assert examples_of({code: PINNED_EXAMPLES[code] for code in languages}, pairs, most) == examples


@given(
    examples=st.integers(1, 3000), processes=st.integers(1, 20), batch=st.integers(1, 40), accumulation=st.integers(1, 12),
    epochs=st.integers(1, 4),
)  # fmt: skip
def test_steps_are_those_of_a_count(examples: int, processes: int, batch: int, accumulation: int, epochs: int) -> None:
    batches = list(range(0, examples, batch))
    rounds = [batches[place : place + processes] for place in range(0, len(batches), processes)]
    whole = [rounds[place : place + accumulation] for place in range(0, len(rounds), accumulation)]
    complete = sum(len(one) == accumulation for one in whole)
    assert optimization_steps(examples, processes, batch, accumulation, epochs) == epochs * max(complete, 1)


def test_a_part_of_an_epoch_is_rounded_up_as_the_trainer_does() -> None:
    assert optimization_steps(15406, 8, 12, 10, 0.5) == 8
    assert optimization_steps(15406, 8, 12, 10, 0.51) == math.ceil(0.51 * 16)


@pytest.mark.parametrize(
    ("number", "text"), [(8.0, "8"), (0.01, "0.01"), (2e-3, "0.002"), (1e-5, "1e-05"), (1.5, "1.5")]
)
def test_numbers_are_written_as_people_do(number: float, text: str) -> None:
    assert number_text(number) == text


# --- the judgement ---


def test_the_defaults_are_good_and_all_are_known() -> None:
    assert planned()["problems"] == []
    assert planned()["warnings"] == []
    assert {name[len("alma_") :] for name in GOOD} == KNOWN


def test_every_variable_is_described() -> None:
    options = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    readme = (ROLE / "README.md").read_text()
    assert set(options) == set(GOOD)
    assert [name for name in GOOD if f"`{name}`" not in readme] == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nodes", 0, "whole number of nodes"),
        ("nodes", [1, 1], "each node count once"),
        ("gpus_per_node", "8x", "GPUs of one node"),
        ("time_limit", 3600, "without quotes"),
        ("language_pairs", "zh_en", "directions from or to English"),
        ("language_pairs", "de-fr", "directions from or to English"),
        ("language_pairs", "en-en", "directions from or to English"),
        ("language_pairs", "", "directions from or to English"),
        ("language_pairs", [], "directions from or to English"),
        ("language_pairs", {"zh": "en"}, "directions from or to English"),
        ("language_pairs", "xx-en", "does not know the language 'xx'"),
        ("language_pairs", "zh-en,zh-en", "each direction once"),
        ("lora_rank", 0, "at least 1"),
        ("batch_size", 1.5, "at least 1"),
        ("eval_batch_size", None, "at least 1"),
        ("accumulation", "ten", "at least 1"),
        ("epochs", 0, "greater than 0"),
        ("learning_rate", "2e", "greater than 0"),
        ("learning_rate", "nan", "greater than 0"),
        ("weight_decay", -1, "at least 0"),
        ("warmup_ratio", 2, "from 0 to 1"),
        ("scheduler", "inverse", "inverse_sqrt"),
        ("precision", "fp32", "fp16, bf16, no"),
        ("precision", True, "fp16, bf16, no"),
        ("zero_stage", 3, "would be saved empty"),
        ("offload_optimizer", "nvme", "none, cpu"),
        ("offload_param", None, "none, cpu"),
        ("gradient_clipping", 0, "greater than 0"),
        ("seed", -1, "from 0 to"),
        ("eval_steps", 0, "at least 1"),
        ("save_steps", 500, "a multiple of alma_eval_steps, which is 512"),
        ("evaluate", "perhaps", "true or false"),
        ("evaluate", False, "alma_load_best_model is True"),
        ("load_best_model", 3, "true or false"),
        ("max_source_length", 0, "number of tokens"),
        ("max_new_tokens", "", "number of tokens"),
        ("num_beams", 0, "at least 1"),
        ("ddp_timeout", 0, "number of seconds"),
        ("report_to", "none, wandb", "reports to"),
        ("max_train_samples", 0, "at least 1"),
        ("trainable_parameters", "7 million", "at least 1"),
        ("train_examples", {"zh": 0}, "such as {zh: 15406}"),
        ("train_examples", [15406], "such as {zh: 15406}"),
        ("train_examples", {"xx": 1}, "such as {zh: 15406}"),
        ("model", "../model", "Hugging Face's hub"),
        ("model", "", "Hugging Face's hub"),
        ("model", "/lustre/me/prompts/llama", "letters 'mpt'"),
        ("model", "/lustre/me/../model", "without '..'"),
        ("data_path", "../data", "a folder of the clone"),
        ("data_path", "/lustre/me/data/", "a '/' at its end"),
        ("commit", "83ee22f", "40 digits"),
        ("path", "workspace/ALMA", "absolute path"),
        ("url", "", "git clone"),
        ("image_tag", "a b", "tag of the image"),
        ("extra_arguments", ["right_pad"], "dictionary"),
        ("extra_arguments", {"--right-pad": True}, "as right_pad"),
        ("extra_arguments", {"seed": 1}, "use alma_seed"),
        ("extra_arguments", {"max_steps": 10}, "use alma_epochs and alma_max_train_samples"),
        ("extra_arguments", {"output_dir": "/tmp"}, "it is the attempt folder"),
        ("extra_arguments", {"max_step": 10}, "takes for max_steps"),
        ("extra_arguments", {"hub_token": "x"}, "leave secrets out"),
        ("extra_arguments", {"suffix_eval_file": [1]}, "a text, a number or true"),
        ("batchsize", 3, "write alma_batch_size"),
        ("container_image", "alma.sqsh", "absolute path"),
        ("image_delivery", "post", "registry, upload or import"),
    ],
)
def test_what_cannot_be_is_one_sentence_with_name_and_remedy(name: str, value: Any, words: str) -> None:
    told = planned(**{name: value})
    assert len(told["problems"]) == 1, told["problems"]
    assert told["problems"][0].startswith(("alma_", "The environment"))
    assert words in told["problems"][0]
    assert told["data_files"] == []


def test_everything_that_is_wrong_is_told_at_once() -> None:
    told = problems(nodes=0, precision="half", language_pairs="x", commit="HEAD", zero_stage=7)
    assert [line.split(" ")[0] for line in told.splitlines()] == [
        "alma_nodes", "alma_commit", "alma_language_pairs", "alma_precision", "alma_zero_stage",
    ]  # fmt: skip
    assert plan({}, {})["problems"]


def test_an_argument_much_like_one_with_a_variable_is_remarked_on() -> None:
    assert (
        "much like warmup_ratio, which alma_warmup_ratio sets"
        in planned(extra_arguments={"warmup_ratios": 0.1})["warnings"][0]
    )
    assert "from alma_zero_stage 1 on" in planned(zero_stage=0, offload_optimizer="cpu")["warnings"][0]


def test_a_site_without_its_root_is_told_once() -> None:
    (problem,) = plan({**GOOD, "alma_path": "/workspace/ALMA", "alma_cache_path": "/cache"}, {})["problems"]
    assert problem.startswith("dgxc_shared_root is not given")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes", "4"),
        ("nodes", [1, 2, 4]),
        ("learning_rate", "2e-3"),
        ("precision", False),
        ("language_pairs", ["de-en", "en-de"]),
        ("language_pairs", "de-en, en-de"),
        ("model", "gpt2"),
        ("model", "./tiny"),
        ("model", "/lustre/models/alma"),
        ("data_path", "human_written_data"),
        ("data_path", "/lustre/data"),
        ("extra_arguments", None),
        ("extra_arguments", {"right_pad": "true", "suffix_eval_file": "x y"}),
        ("epochs", 0.5),
        ("save_steps", 1024),
    ],
)
def test_what_can_be_is_taken(name: str, value: Any) -> None:
    assert problems(**{name: value}) == ""


# --- data ---


def test_the_data_files_are_those_that_the_program_reads() -> None:
    files = planned(language_pairs="zh-en,en-zh,en-is")["data_files"]
    assert [(file["path"], file["examples"], file["optional"]) for file in files] == [
        (f"{CLONE}/human_written_data/isen/train.is-en.json", 2009, False),
        (f"{CLONE}/human_written_data/isen/valid.is-en.json", None, True),
        (f"{CLONE}/human_written_data/zhen/train.zh-en.json", 15406, False),
        (f"{CLONE}/human_written_data/zhen/valid.zh-en.json", None, True),
    ]
    assert {file["made_with"] for file in files} == {CLONE}
    assert files[2]["keys"] == ["translation.zh", "translation.en"]
    assert "git-lfs" in files[2]["remedy"]
    assert {file["examples_of"] for file in files} == {"the pinned commit"}
    told = planned(train_examples={"zh": 5}, data_path="/lustre/data")["data_files"][0]
    assert (told["examples"], told["examples_of"]) == (5, "alma_train_examples")
    assert "alma_data_path" in told["remedy"]


@pytest.mark.parametrize(
    ("changes", "examples"),
    [
        ({}, 15406),
        ({"train_examples": {"zh": 7}}, 7),
        ({"commit": "a" * 40}, None),
        ({"commit": "a" * 40, "train_examples": {"zh": "7"}}, 7),
        ({"data_path": "/lustre/data"}, None),
        ({"data_path": "./other"}, None),
    ],
)
def test_how_many_examples_there_should_be_is_known_of_the_pinned_commit_only(
    changes: dict[str, Any], examples: int | None
) -> None:
    assert planned(**changes)["data_files"][0]["examples"] == examples


def test_without_evaluation_no_validation_data_is_looked_for() -> None:
    files = planned(evaluate=False, load_best_model=False)["data_files"]
    assert [file["path"].rpartition("/")[2] for file in files] == ["train.zh-en.json"]


def test_data_of_ones_own_is_mounted_and_told_by_its_content() -> None:
    answer = found(300)
    answer["data"][0]["sha256"] = "abc"
    only = run(answer, data_path="/lustre/data")
    assert "/lustre/data:/lustre/data" in only["files"]["train.sbatch"]
    assert only["identity"]["data"] == {f"{CLONE}/train": "abc", "valid": ""}
    assert planned(data_path="/lustre/data")["data_files"][0]["made_with"] == ""
    other = found(300)
    other["data"][0]["sha256"] = "abd"
    assert run_key(only) != run_key(run(other, data_path="/lustre/data"))


def test_validation_data_has_to_be_there_where_it_is_used() -> None:
    result = made(found(2009, "absent"), language_pairs="is-en")
    assert result["runs"] == []
    assert "set alma_evaluate and alma_load_best_model to false" in result["problems"][0]
    assert made(found(2009, "absent"), language_pairs="is-en", evaluate=False, load_best_model=False)["problems"] == []


# --- runs ---


def test_the_command_lines_are_the_document_s() -> None:
    launch, program = command(run())
    document = shlex.split(DOCUMENT_LAUNCH)
    own = ["--main_process_ip", "--main_process_port", "--machine_rank", "--num_machines", "--num_processes"]
    assert set(document) | set(own) <= set(launch)
    assert launch[launch.index("--use_deepspeed") :][: len(document) - 1] == [
        word for word in document if word != "--same_network"
    ]
    place = program.index("--logging_nan_inf_filter")
    assert program[place : place + 2] == ["--logging_nan_inf_filter", "False"]
    words = program[:place] + program[place + 2 :]
    assert words == shlex.split(DOCUMENT_PROGRAM)
    assert len([word for word in words if word.startswith("--")]) == 38


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 8])
def test_a_run_expects_the_numbers_of_its_size(nodes: int) -> None:
    steps = {1: 128, 2: 64, 3: 40, 4: 32, 8: 16}[nodes]
    assert run(nodes=nodes)["expect"] == {
        "nodes": nodes,
        "gpus_per_node": 8,
        "ranks": nodes * 8,
        "tasks": nodes,
        "num_examples": 15406,
        "global_batch_size": nodes * 960,
        "steps": steps,
        "trainable_parameters": 7733248,
        "output": {
            "files": ["output/adapter_config.json", "output/adapter_model.*"],
            "trainer_state": "output/trainer_state.json",
        },
    }


def test_a_sweep_is_one_run_for_each_node_count() -> None:
    sweep = made()["runs"]
    assert [one["name"] for one in sweep] == ["alma-n1", "alma-n2"]
    assert [one["after"] for one in sweep] == ["", ""]
    assert [one["after"] for one in made(serial=True)["runs"]] == ["", "alma-n1"]
    assert len({run_key(one) for one in sweep}) == 2


def test_one_variable_feeds_accelerate_and_the_trainer() -> None:
    launch, program = command(run(accumulation=7, precision="bf16", gradient_clipping=0.5))
    assert launch[launch.index("--gradient_accumulation_steps") + 1] == "7"
    assert program[program.index("--gradient_accumulation_steps") + 1] == "7"
    assert launch[launch.index("--mixed_precision") + 1] == "bf16"
    assert "--bf16" in program
    assert "--fp16" not in program
    assert launch[launch.index("--gradient_clipping") + 1] == "0.5"
    assert program[program.index("--max_grad_norm") + 1] == "0.5"
    assert not {"--fp16", "--bf16"} & set(command(run(precision="no"))[1])


def test_without_evaluation_the_trainer_is_told_no_strategy() -> None:
    _launch, program = command(run(evaluate=False, load_best_model=False))
    assert program[program.index("--evaluation_strategy") + 1] == "no"
    assert not {"--do_eval", "--eval_steps", "--load_best_model_at_end"} & set(program)


def test_further_arguments_come_last() -> None:
    _launch, program = command(run(extra_arguments={"right_pad": True, "suffix_eval_file": "a b", "streamed": False}))
    assert program[-3:] == ["--right_pad", "--suffix_eval_file", "a b"]


def test_a_training_with_evaluations_expects_one() -> None:
    result = made(nodes=2, eval_steps=64, save_steps=64)
    assert result["runs"][0]["expect"]["output"]["evaluation"] is True
    assert result["warnings"] == []
    assert "alma-n2: alma_eval_steps is 512, more than the 64 steps" in made(nodes=2)["warnings"][0]


def test_the_clone_is_the_working_folder_and_what_is_written_goes_to_the_attempt() -> None:
    only = run()
    script = only["files"]["train.sbatch"]
    assert f"{CLONE}:/workspace," in script
    assert "--container-workdir=/workspace" in script
    assert "--output_dir /attempt/output" in only["files"]["launch.sh"]
    assert exports(only)["TORCH_EXTENSIONS_DIR"].startswith("/attempt/")


def test_the_document_s_exports_hold_unless_said_otherwise() -> None:
    found_ = exports(run())
    assert found_["TRANSFORMERS_OFFLINE"] == "0"
    assert found_["TORCH_NCCL_AVOID_RECORD_STREAMS"] == "1"
    assert found_["NCCL_NVLS_ENABLE"] == "0"
    assert found_["TRANSFORMERS_CACHE"] == "/lustre/me/cache/huggingface/hub"
    changed = exports(run(env={"NCCL_NVLS_ENABLE": 1, "TORCH_NCCL_AVOID_RECORD_STREAMS": None}, offline=True))
    assert changed["NCCL_NVLS_ENABLE"] == "1"
    assert "TORCH_NCCL_AVOID_RECORD_STREAMS" not in changed
    assert changed["TRANSFORMERS_OFFLINE"] == changed["HF_EVALUATE_OFFLINE"] == "1"


def test_tokenised_data_of_other_settings_lies_elsewhere_and_that_of_other_sizes_does_not() -> None:
    folder = exports(run())["HF_DATASETS_CACHE"]
    assert folder.startswith("/lustre/me/cache/huggingface/datasets/alma-")
    for same in ({"nodes": 1}, {"batch_size": 4}, {"overwrite_cache": False}, {"lora_rank": 4}):
        assert exports(run(**same))["HF_DATASETS_CACHE"] == folder
    for other in ({"max_source_length": 128}, {"max_new_tokens": 128}, {"max_train_samples": 5}, {"model": "gpt2"},
                  {"language_pairs": "en-zh"}, {"extra_arguments": {"right_pad": True}}):  # fmt: skip
        assert exports(run(**other))["HF_DATASETS_CACHE"] != folder


# --- the model ---

CONFIG = json.dumps({"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96})


def test_the_size_of_a_model_on_the_cluster_is_read() -> None:
    assert planned()["model_config"] == ""
    assert planned(model="./tiny")["model_config"] == f"{CLONE}/tiny/config.json"
    assert planned(model="/lustre/m")["model_config"] == "/lustre/m/config.json"
    only = run(found(model_config=CONFIG), model="/lustre/m", lora_rank=4)
    assert only["expect"]["trainable_parameters"] == 2 * 4 * (96 + 64)
    assert "/lustre/m:/lustre/m" in only["files"]["train.sbatch"]


def test_a_model_in_the_hub_s_cache_is_mounted_with_the_files_it_links_to() -> None:
    folder = "/lustre/hub/models--a--b"
    only = run(found(model_config=CONFIG), model=f"{folder}/snapshots/0123")
    assert f"{folder}:{folder}," in only["files"]["train.sbatch"]


def test_a_model_that_is_not_there_is_refused_but_for_a_rehearsal_without_clone() -> None:
    assert "there is no /lustre/m/config.json" in made(model="/lustre/m")["problems"][0]
    assert "there is no" in made(found(rehearsal=True), model="/lustre/m")["problems"][0]
    assert "there is no" in made(model="./tiny")["problems"][0]
    assert made(found(rehearsal=True), model="./tiny")["problems"] == []


@pytest.mark.parametrize("config", ["", "[]", "{}", '{"num_hidden_layers": 2, "hidden_size": 0}'])
def test_a_model_that_tells_no_size_is_refused_unless_the_number_is_given(config: str) -> None:
    answer = found(model_config=config)
    assert "give alma_trainable_parameters" in made(answer, model="/lustre/m")["problems"][0]
    only = run(answer, model="/lustre/m", trainable_parameters="99")
    assert only["expect"]["trainable_parameters"] == 99


def test_an_unknown_model_of_the_hub_is_not_checked_and_that_is_said() -> None:
    result = made(model="mistralai/Mistral-7B-v0.1")
    assert "trainable_parameters" not in result["runs"][0]["expect"]
    assert "not checked" in result["warnings"][0]
    assert made(model="mistralai/Mistral-7B-v0.1", trainable_parameters=5)["warnings"][:1] != result["warnings"][:1]


def test_without_network_the_model_has_to_be_in_the_cache() -> None:
    assert planned()["cached_model"] == ""
    folder = "/lustre/me/cache/huggingface/hub/models--haoranxu--ALMA-7B-Pretrain"
    assert planned(offline=True)["cached_model"] == folder
    assert planned(offline=True, model="/lustre/m")["cached_model"] == ""


def test_a_rehearsal_before_the_clone_expects_what_is_known() -> None:
    assert run(found(None, "pending", rehearsal=True))["expect"]["steps"] == 64
    unknown = run(found(None, "pending", rehearsal=True), commit="a" * 40)
    assert "steps" not in unknown["expect"]
    assert "num_examples" not in unknown["expect"]


def test_problems_of_the_variables_are_told_by_the_runs_as_well() -> None:
    result = made(nodes=0)
    assert result["runs"] == []
    assert result["problems"][0].startswith("alma_nodes")
