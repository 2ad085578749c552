# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the variables of the role whisper_qlora to runs, and the document's numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from ansible_collections.dgxc.workloads.plugins.module_utils import _whisper_qlora_settings as settings
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import run_jobs, run_key

ROLE = Path(settings.__file__).parents[2] / "roles" / "whisper_qlora"
SITE = {"dgxc_shared_root": "/lustre/me"}
IMAGE = {"reference": "registry.example#team/pytorch-vidasr:24.01", "digest": "sha256:abc"}


def data(examples=1000):
    files = [{"file": f"train_{number}.parquet", "rows": examples + number} for number in range(10)]
    return {
        "counts": {},
        "rows": {"train": files, "eval": [{"file": "eval.parquet", "rows": 50}]},
        "manifest": "f" * 64,
    }


def defaults():
    """The role's defaults, as the inventory of a site would make them."""
    values = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    root = "{{ dgxc_shared_root | default('', true) }}"
    site = {"whisper_qlora_image_delivery": "upload"}
    return {
        name: (value.replace(root, "/lustre/me") if root in value else "") if "{{" in str(value) else value
        for name, value in values.items()
    } | site  # fmt: skip


def plan(found="counted", image="given", site=None, **changes):
    variables = {**defaults(), **{f"whisper_qlora_{name}": value for name, value in changes.items()}}
    found = data() if found == "counted" else found
    image = IMAGE if image == "given" else image
    return settings.plan(variables, SITE if site is None else site, found, image, "print('hello')\n")


def runs(**changes):
    planned = plan(**changes)
    assert planned["problems"] == []
    return {run["name"]: run for run in planned["runs"]}


def test_every_default_is_known_and_every_known_name_has_a_default():
    assert {name[len("whisper_qlora_") :] for name in defaults()} == settings.KNOWN


def test_the_names_are_the_documents():
    assert list(runs()) == ["asr-n1g1", "asr-n1g2", "asr-n1g4", "asr-n1g8", "asr-n2g8"]


@pytest.mark.parametrize("examples", [993, 1000])
@pytest.mark.parametrize(
    ("nodes", "gpus", "steps"), [(1, 1, 125), (1, 2, 63), (1, 4, 32), (1, 8, 16), (2, 8, 8)]
)  # fmt: skip
def test_the_documents_table(nodes, gpus, steps, examples):
    expect = runs(found=data(examples))[f"asr-n{nodes}g{gpus}"]["expect"]
    folder = f"output/lora/bengali-ai-asr-10k-{nodes}-n-{gpus}-g"
    assert expect == {
        "nodes": nodes,
        "gpus_per_node": gpus,
        "ranks": nodes * gpus,
        "tasks": nodes,
        "steps": steps,
        "num_examples": examples,
        "global_batch_size": 8 * nodes * gpus,
        # Query and value of 32 + 2 x 32 attentions, each 1280 x 16 + 16 x 1280.
        "trainable_parameters": 7_864_320,
        "output": {
            "files": [f"{folder}/adapter_config.json", f"{folder}/adapter_model.safetensors"],
            "trainer_state": f"{folder}/trainer_state.json",
            "last_epoch": 1,
            "evaluation": True,
        },
    }


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("processes", range(1, 18))
def test_steps_by_dealing_out_batches(processes, epochs):
    for examples in range(1, 300, 7):
        batches = len(range(0, examples, 8))
        rounds = len(range(0, batches, processes))
        assert settings.training_steps(examples, 8, processes, epochs) == epochs * rounds
        assert rounds == math.ceil(math.ceil(examples / 8) / processes)


def test_adapters_of_other_models():
    assert settings.trainable_parameters("openai/whisper-large-v2", 32) == 2 * 7_864_320
    # 12 + 24 attentions of width 768.
    assert settings.trainable_parameters("openai/whisper-small", 16) == 36 * 2 * 2 * 768 * 16
    assert settings.trainable_parameters("somebody/whisper", 16) is None
    assert "trainable_parameters" not in runs(model="somebody/whisper")["asr-n1g1"]["expect"]
    known = runs(model="somebody/whisper", trainable_parameters=6144)["asr-n1g1"]
    assert known["expect"]["trainable_parameters"] == 6144


def test_the_scripts_say_what_is_asked_for():
    run = runs()["asr-n2g8"]
    script, launch = run["files"]["train.sbatch"], run["files"]["launch.sh"]
    assert run["files"]["train_whisper_qlora.py"] == "print('hello')\n"
    for line in (
        "#SBATCH --job-name=asr-n2g8", "#SBATCH --nodes=2", "#SBATCH --gpus-per-node=8", "#SBATCH --mem=0",
    ):  # fmt: skip
        assert f"\n{line}\n" in script
    assert "/lustre/me/data/bengali-ai-asr-10k:/data/bengali-ai-asr-10k:ro" in script
    words = " ".join(launch.split("/attempt/train_whisper_qlora.py")[1].replace("\\\n", " ").split())
    assert words == (
        "--model openai/whisper-large-v2 --revision main --data /data/bengali-ai-asr-10k --output /attempt/output"
        " --nodes 2 --gpus-per-node 8 --batch-size 8 --epochs 1 --learning-rate 1e-05 --warmup-steps 50 --lora-rank 16"
        " --lora-alpha 32 --lora-dropout 0.05 --logging-steps 10 --language bn --seed 42"
    )


def test_on_a_processor_8_bit_is_the_switch():
    launch = runs(cpu=True, load_in_8bit=False, evaluate=False)["asr-n1g2"]["files"]["launch.sh"]
    assert launch.rstrip().endswith("--no-evaluation \\\n    --no-8bit \\\n    --cpu")
    run = runs(wer=True)["asr-n1g2"]
    assert run["files"]["launch.sh"].rstrip().endswith("--wer")
    assert runs(evaluate=False)["asr-n1g1"]["expect"]["output"]["evaluation"] is False


def test_the_network_settings_are_off_as_in_the_document_and_can_be_had():
    fabric = {"env": {"NCCL_TOPO_FILE": "/cm/shared/etc/ndv4-topo.xml"}, "mounts": ["/cm/shared"]}
    site = {**SITE, "dgxc_fabric": fabric}
    assert "ndv4" not in runs(site=site)["asr-n1g1"]["files"]["train.sbatch"]
    script = runs(site=site, fabric=True)["asr-n1g1"]["files"]["train.sbatch"]
    assert "export NCCL_TOPO_FILE=/cm/shared/etc/ndv4-topo.xml" in script
    assert ",/cm/shared " in script


def test_examples_are_those_of_the_first_file_by_name():
    assert runs()["asr-n1g1"]["expect"]["num_examples"] == 1000


def test_a_number_that_was_given_has_to_be_right():
    assert runs(examples=1000)["asr-n1g1"]["expect"]["num_examples"] == 1000
    (problem,) = plan(examples=900)["problems"]
    assert problem == (
        "whisper_qlora_examples is 900: the first training file, train_0.parquet, has 1000; correct it, or set it to"
        " null."
    )


def test_a_file_without_examples_is_told():
    (problem,) = plan(found=data(0))["problems"]
    assert "has no examples in its first training file" in problem


def test_a_rehearsal_without_the_data_has_the_scripts():
    nothing = {"counts": {}, "rows": {}, "manifest": ""}
    assert "steps" not in runs(found=nothing)["asr-n1g1"]["expect"]
    assert runs(found=nothing, examples=1000)["asr-n1g1"]["expect"]["steps"] == 125


def test_one_after_the_other():
    assert [run["after"] for run in runs(serial=True).values()] == ["", *list(runs())[:-1]]


def test_the_data_that_is_wished_for():
    rows = {"train": "train*.parquet", "eval": "eval*.parquet"}
    assert plan()["data"] == {"path": "/lustre/me/data/bengali-ai-asr-10k", "given": False, "rows": rows}
    assert plan(data_path="/x/asr")["data"] == {"path": "/x/asr", "given": True, "rows": rows}


def test_the_key_is_in_nothing_that_the_plan_returns():
    planned = plan(kaggle_username="me", kaggle_key="the-secret-key")
    assert planned["problems"] == []
    assert "the-secret-key" not in json.dumps(planned)
    for changes in ({"kaggle_key": "the-secret-key"}, {"kaggle_username": "me", "kaggle_key": "the-secret key"}):
        wrong = plan(**changes)
        assert len(wrong["problems"]) == 1
        assert "the-secret" not in json.dumps(wrong)


def test_what_changes_the_result_changes_the_key():
    keys = {
        run_key(runs(**changes)["asr-n1g1"])
        for changes in (
            {}, {"lora_rank": 8}, {"epochs": 2}, {"found": data(999)}, {"image": {**IMAGE, "digest": "sha256:other"}},
            {"load_in_8bit": False},
        )
    }  # fmt: skip
    assert len(keys) == 6
    # Neither the account at Kaggle nor a mirror does.
    same = runs(kaggle_username="me", kaggle_key="x", data_url="https://mirror/asr.zip", data_page="")
    assert run_key(same["asr-n1g1"]) in keys


def test_no_two_runs_share_a_folder():
    assert len({job["run_dir"] for job in run_jobs(list(runs().values()), "/lustre/me/runs")}) == 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"matrix": ["0x1"]}, "whisper_qlora_matrix is ['0x1']"),
        ({"batch_size": "x"}, "whisper_qlora_batch_size is 'x'"),
        ({"epochs": 0}, "whisper_qlora_epochs is 0"),
        ({"examples": 0}, "whisper_qlora_examples is 0"),
        ({"trainable_parameters": "x"}, "whisper_qlora_trainable_parameters is 'x'"),
        ({"learning_rate": 0}, "whisper_qlora_learning_rate is 0"),
        ({"warmup_steps": -1}, "whisper_qlora_warmup_steps is -1"),
        ({"lora_rank": 0}, "whisper_qlora_lora_rank is 0"),
        ({"lora_alpha": 0}, "whisper_qlora_lora_alpha is 0"),
        ({"lora_dropout": 1}, "whisper_qlora_lora_dropout is 1"),
        ({"logging_steps": 0}, "whisper_qlora_logging_steps is 0"),
        ({"language": "Bengali"}, "whisper_qlora_language is 'Bengali'"),
        ({"seed": -1}, "whisper_qlora_seed is -1"),
        ({"cpu": True}, "whisper_qlora_load_in_8bit is True: 8 bit needs a GPU"),
        ({"wer": True, "evaluate": False}, "whisper_qlora_wer is True: it is a part of the evaluation"),
        ({"evaluate": "x"}, "whisper_qlora_evaluate is 'x'"),
        ({"kaggle_username": "me"}, "whisper_qlora_kaggle_username is given without whisper_qlora_kaggle_key"),
        ({"kaggle_file": "kaggle.json"}, "whisper_qlora_kaggle_file is 'kaggle.json'"),
        ({"data_page": "kaggle"}, "whisper_qlora_data_page is 'kaggle'"),
        ({"model": ""}, "whisper_qlora_model is ''"),
        ({"data_path": "asr"}, "whisper_qlora_data_path is 'asr'"),
        ({"max_steps": 4}, "whisper_qlora_max_steps is not a variable of this role"),
    ],
)
def test_what_cannot_be_is_told(changes, said):
    planned = plan(**changes)
    assert planned["runs"] == []
    assert len(planned["problems"]) == 1
    assert said in planned["problems"][0]
