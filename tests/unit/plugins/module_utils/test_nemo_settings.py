# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement of the variables of nemo_gpt3, and the runs made of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_settings import (
    KNOWN,
    batch_problem,
    merged,
    plan,
    runs,
    to_yaml,
    whole_number,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import run_key

GOOD: dict[str, Any] = {
    "nemo_gpt3_container_image": "nvcr.io#nvidia/nemo:24.01.01.framework",
    "nemo_gpt3_container_mounts": ["/cm/shared"],
    "nemo_gpt3_data_impl": "mock",
    "nemo_gpt3_env": {},
    "nemo_gpt3_gpus_per_node": 8,
    "nemo_gpt3_launcher_commit": "51df3f36f5bc51b7bbdc3f540a43b01cdc28c8be",
    "nemo_gpt3_launcher_full_requirements": False,
    "nemo_gpt3_launcher_path": "/lustre/me/workspace/launcher",
    "nemo_gpt3_launcher_python": "python3",
    "nemo_gpt3_launcher_python_below": "3.11",
    "nemo_gpt3_launcher_python_minimum": "3.8",
    "nemo_gpt3_launcher_requirements": ["hydra-core"],
    "nemo_gpt3_launcher_timeout": 300,
    "nemo_gpt3_launcher_url": "https://example.com/launcher",
    "nemo_gpt3_max_attempts": 3,
    "nemo_gpt3_max_steps": 2000,
    "nemo_gpt3_max_time": "00:01:30:00",
    "nemo_gpt3_model": "7b_improved",
    "nemo_gpt3_nodes": 2,
    "nemo_gpt3_overrides": {},
    "nemo_gpt3_resubmit": "never",
    "nemo_gpt3_run_name": "gpt-7b-improved",
    "nemo_gpt3_serial": False,
    "nemo_gpt3_slurm_account": "",
    "nemo_gpt3_slurm_partition": "",
    "nemo_gpt3_slurm_qos": "",
    "nemo_gpt3_slurm_reservation": "",
    "nemo_gpt3_time_limit": "0-02:00:00",
    "nemo_gpt3_val_check_interval": 240,
    "nemo_gpt3_virtual_environment": "/lustre/me/workspace/venvs/launcher",
}
SITE: dict[str, Any] = {"dgxc_shared_root": "/lustre/me"}


def planned(site: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return plan({**GOOD, **{f"nemo_gpt3_{name}": value for name, value in changes.items()}}, {**SITE, **(site or {})})


def overlay(site: dict[str, Any] | None = None, **changes: Any) -> Any:
    result = planned(site, **changes)
    assert result["problems"] == []
    return yaml.safe_load(result["plans"][0]["overlay"].replace("@ATTEMPT_DIR@", "/attempt"))


def test_every_variable_is_known() -> None:
    assert set(GOOD) == {"nemo_gpt3_" + name for name in KNOWN}


def test_the_defaults_give_one_run_with_the_numbers_of_the_document() -> None:
    result = planned()
    assert (result["problems"], result["warnings"]) == ([], [])
    (only,) = result["plans"]
    assert only["name"] == "gpt-7b-improved-n2"
    assert only["expect"] == {
        "nodes": 2,
        "gpus_per_node": 8,
        "ranks": 16,
        "steps": 2000,
        "max_time_seconds": 5400,
        "time_limit": "0-02:00:00",
    }
    assert only["identity"] == {
        "launcher_commit": GOOD["nemo_gpt3_launcher_commit"],
        "image": "nvcr.io#nvidia/nemo:24.01.01.framework",
    }
    assert only["policy"] == {"resubmit": "never", "max_attempts": 3}
    assert overlay() == {
        "defaults": ["config", {"override training": "gpt3/7b_improved"}, "_self_"],
        "stages": ["training"],
        "launcher_scripts_path": "/lustre/me/workspace/launcher/launcher_scripts",
        "base_results_dir": "/attempt/results",
        "container": "nvcr.io#nvidia/nemo:24.01.01.framework",
        "container_mounts": ["/cm/shared"],
        "env_vars": {"TRANSFORMERS_OFFLINE": 0},
        "training": {
            "run": {"time_limit": "0-02:00:00"},
            "trainer": {"num_nodes": 2, "max_steps": 2000, "max_time": "00:01:30:00", "val_check_interval": 240},
            "model": {"data": {"data_impl": "mock"}},
        },
    }


def test_both_times_are_quoted() -> None:
    text = planned(time_limit="1-00:00:00", max_time="00:10:00:00")["plans"][0]["overlay"]
    assert 'time_limit: "1-00:00:00"' in text
    assert 'max_time: "00:10:00:00"' in text


def test_texts_from_the_command_line_are_as_good_as_numbers() -> None:
    texts = planned(nodes="4", max_steps="100", val_check_interval="10", gpus_per_node="8", launcher_timeout="60")
    numbers = planned(nodes=4, max_steps=100, val_check_interval=10, launcher_timeout=60)
    assert texts == numbers
    assert texts["problems"] == []


def test_a_list_of_node_counts_gives_a_run_for_each() -> None:
    result = planned(nodes=[1, "2", 4])
    assert [one["name"] for one in result["plans"]] == [f"gpt-7b-improved-n{count}" for count in (1, 2, 4)]
    assert [one["expect"]["ranks"] for one in result["plans"]] == [8, 16, 32]


def test_account_and_partition_stay_out_unless_given() -> None:
    assert "cluster" not in overlay()
    assert overlay(slurm_account="team", slurm_partition="defq")["cluster"] == {"account": "team", "partition": "defq"}


def test_qos_and_reservation_go_to_sbatch() -> None:
    assert planned(serial=True)["plans"][0]["options"] == {}
    # The launcher's one name for all jobs makes them wait for one another.
    assert [plan["options"]["job-name"] for plan in planned(nodes=[2, 4])["plans"]] == [
        "nemo-megatron-gpt-7b-improved-n2",
        "nemo-megatron-gpt-7b-improved-n4",
    ]
    assert planned(serial=True, slurm_qos="high", slurm_reservation="mine")["plans"][0]["options"] == {
        "qos": "high",
        "reservation": "mine",
    }


def test_another_number_of_gpus_reaches_cluster_and_trainer() -> None:
    result = overlay(gpus_per_node=4)
    assert result["cluster"] == {"gpus_per_node": 4}
    assert result["training"]["trainer"]["devices"] == 4


def test_the_environment_is_the_fabrics_with_the_workloads_own_over_it() -> None:
    fabric = {"dgxc_fabric": {"env": {"UCX_TLS": "tcp", "NCCL_DEBUG": None, "TRANSFORMERS_OFFLINE": 1, "A": "1"}}}
    env = overlay(fabric, env={"UCX_TLS": "rc", "A": None})["env_vars"]
    assert env == {"TRANSFORMERS_OFFLINE": 1, "UCX_TLS": "rc", "NCCL_DEBUG": None, "A": None}


def test_digits_in_quotes_make_the_same_overlay() -> None:
    one = planned(env={"A": "1", "B": "01"})["plans"][0]["overlay"]
    assert one == planned(env={"A": 1, "B": "01"})["plans"][0]["overlay"]
    assert 'B: "01"' in one


def test_overrides_are_merged_into_the_overlay() -> None:
    result = overlay(overrides={"training": {"model": {"optim": {"lr": 1e-5}}, "trainer": {"precision": 16}}})
    assert result["training"]["model"] == {"data": {"data_impl": "mock"}, "optim": {"lr": 1e-05}}
    assert result["training"]["trainer"]["precision"] == 16


@pytest.mark.parametrize(
    ("image", "written", "warned"),
    [
        ("nvcr.io#nvidia/nemo:1", "nvcr.io#nvidia/nemo:1", False),
        ("nvcr.io/nvidia/nemo:1", "nvcr.io#nvidia/nemo:1", True),
        ("localhost:5000/a/b:1", "localhost:5000#a/b:1", True),
        ("docker://nvcr.io/nvidia/nemo:1", "docker://nvcr.io#nvidia/nemo:1", True),
        ("docker://nvcr.io#nvidia/nemo:1", "docker://nvcr.io#nvidia/nemo:1", False),
        ("ubuntu:22.04", "ubuntu:22.04", False),
        ("nvidia/cuda:12", "nvidia/cuda:12", False),
        ("/lustre/me/images/nemo.sqsh", "/lustre/me/images/nemo.sqsh", False),
    ],
)
def test_images_are_spelled_for_every_enroot(image: str, written: str, warned: bool) -> None:
    result = planned(container_image=image)
    assert result["problems"] == []
    assert bool(result["warnings"]) is warned
    assert yaml.safe_load(result["plans"][0]["overlay"].replace("@ATTEMPT_DIR@", "/a"))["container"] == written


# Variable, nonsense, what the sentence says beside the variable's name and the value
NONSENSE = [
    ("nodes", 3, "choose 1 or 2 or 4 nodes"),
    ("nodes", 0, "whole number of nodes"),
    ("nodes", -2, "whole number of nodes"),
    ("nodes", 2.5, "whole number of nodes"),
    ("nodes", True, "whole number of nodes"),
    ("nodes", "many", "whole number of nodes"),
    ("nodes", "[2, 4]", "-e '{\"nemo_gpt3_nodes\": [2, 4]}'"),
    ("nodes", [], "whole number of nodes"),
    ("nodes", [2, "x"], "whole number of nodes"),
    ("nodes", [2, "2"], "each node count once"),
    ("nodes", None, "whole number of nodes"),
    ("nodes", 512, "choose"),
    ("gpus_per_node", 0, "whole number"),
    ("gpus_per_node", "a100:8", "whole number"),
    ("max_steps", 0, "at least 1"),
    ("max_steps", "2e3", "at least 1"),
    ("max_steps", 100, "must not be more than nemo_gpt3_max_steps, which is 100"),
    ("val_check_interval", 2001, "must not be more than nemo_gpt3_max_steps, which is 2000"),
    ("val_check_interval", 0.5, "at least 1"),
    ("time_limit", 7200, "base 60 and Slurm reads numbers as minutes; write days-hours:minutes:seconds in quotes"),
    ("time_limit", "7200", 'such as "0-02:00:00"'),
    ("time_limit", "2h", 'such as "0-02:00:00"'),
    ("time_limit", "0-00:00:00", 'such as "0-02:00:00"'),
    ("time_limit", "UNLIMITED", 'such as "0-02:00:00"'),
    ("time_limit", None, 'such as "0-02:00:00"'),
    ("time_limit", "0-01:30:00", "it must be shorter than nemo_gpt3_time_limit"),
    ("max_time", 5400, "base 60"),
    ("max_time", "01:30:00", 'such as "00:01:30:00"'),
    ("max_time", "0-01:30:00", 'such as "00:01:30:00"'),
    ("max_time", "00:00:00:00", "longer than zero"),
    ("max_time", "00:02:00:00", "it must be shorter than nemo_gpt3_time_limit, which is '0-02:00:00'"),
    ("model", "../7b", "name of a file"),
    ("model", "gpt3/7b_improved", "name of a file"),
    ("data_impl", "Mock data", "mock for synthetic data"),
    ("container_image", "images/nemo.sqsh", "absolute path"),
    ("container_image", "./nemo.sqsh", "absolute path"),
    ("container_image", "/images/nemo", ".sqsh file"),
    ("container_image", "dockerd://nemo:1", "Pyxis takes"),
    ("container_image", "nvcr.io#nvidia/nemo:1 --privileged", "registry#path:tag"),
    ("container_image", None, "registry#path:tag"),
    ("container_image", "/lustre//nemo.sqsh", "as /lustre/nemo.sqsh"),
    ("container_image", "nvcr.io#nvidia/Nemo:1", "small letters"),
    ("container_mounts", "/cm/shared", "give a list of paths"),
    ("container_mounts", ["cm/shared"], "absolute paths"),
    ("container_mounts", ["/a,/b"], "absolute paths"),
    ("container_mounts", ["/a b"], "absolute paths"),
    ("container_mounts", ["$HOME"], "absolute paths"),
    ("container_mounts", ["/a:/b:ro,rprivate"], "absolute paths"),
    ("container_mounts", ["/a:/b:RO"], "join its flags"),
    ("container_mounts", ["/a:/b:ro:x"], "absolute paths"),
    ("container_mounts", ["/a:/c", "/b:/c"], "same place"),
    ("env", "A=b", "give a dictionary"),
    ("env", {"A": "two words"}, "exported without quotes"),
    ("env", {"A": "x;rm -rf /"}, "exported without quotes"),
    ("env", {"A": "$(id)"}, "exported without quotes"),
    ("env", {"A": "x\ny"}, "exported without quotes"),
    ("env", {"A": "'x'"}, "exported without quotes"),
    ("env", {"A-B": "x"}, "not a name"),
    ("env", {"A": True}, "write 1 or 0"),
    ("env", {"A": ["x"]}, "text, a number or null"),
    ("env", {"HF_TOKEN": "hf_x"}, "looks like a secret"),
    ("env", {"NCCL_TOPO_FILE": "/etc/topo.xml"}, "add its folder to nemo_gpt3_container_mounts"),
    ("run_name", "two words", "letters, digits"),
    ("run_name", "-x", "letters, digits"),
    ("run_name", "x/y", "letters, digits"),
    ("run_name", "x" * 62, "may have 64 characters"),
    ("slurm_account", "<SLURM_ACCOUNT>", "as Slurm knows it"),
    ("slurm_partition", "two words", "as Slurm knows it"),
    ("slurm_qos", ["high"], "as Slurm knows it"),
    ("launcher_commit", "51df3f36", "40 digits"),
    ("launcher_url", "", "git clone"),
    ("launcher_path", "relative/path", "absolute path"),
    ("launcher_path", "/lustre/me/../you", "as /lustre/you"),
    ("launcher_path", "/lustre/me/", "as /lustre/me"),
    ("launcher_path", "/lustre/my folder", "letters, digits"),
    ("launcher_path", "/a:b", "letters, digits"),
    ("launcher_python", "python3 -m x", "name or the absolute path"),
    ("launcher_python_below", 3.11, "in quotes"),
    ("launcher_requirements", "hydra-core", "list of requirements"),
    ("launcher_requirements", ["--index-url=x"], "list of requirements"),
    ("launcher_timeout", "soon", "number of seconds"),
    ("launcher_full_requirements", "maybe", "true or false"),
    ("overrides", "training.x=1", "give a dictionary"),
    ("overrides", {"training": {"trainer": {"num_nodes": 4}}}, "use nemo_gpt3_nodes"),
    ("overrides", {"training": None}, "has another place"),
    ("overrides", {"wandb_api_key_file": "/x"}, "clear text"),
    ("overrides", {"base_results_dir": "/x"}, "attempt folder"),
    ("overrides", {"env_vars": {"A": "b c"}}, "use nemo_gpt3_env"),
    ("overrides", {"training": {"model": {"global_batch_size": 3}}}, "global batch of 3 samples"),
    ("overrides", {"training": {"model": {"global_batch_size": "x"}}}, "global_batch_size is 'x'"),
    ("resubmit", "sometimes", "never, on_failure or always"),
    ("max_attempts", 0, "at least 1"),
]


@pytest.mark.parametrize(("name", "value", "said"), NONSENSE, ids=[f"{name}={value}" for name, value, _s in NONSENSE])
def test_nonsense_is_told_in_one_sentence(name: str, value: Any, said: str) -> None:
    result = planned(**{name: value})
    assert result["plans"] == []
    (problem,) = result["problems"]
    assert said in problem
    assert problem.endswith(".")
    assert "\n" not in problem
    if not said.startswith(("add its folder", "must not be more than nemo_gpt3_max_steps, which is 100", "it must be")):
        assert f"nemo_gpt3_{name}" in problem


def test_all_problems_are_told_at_once() -> None:
    result = plan({**GOOD, "nemo_gpt3_nodes": "x", "nemo_gpt3_max_time": 1, "nemo_gpt3_run_name": ""}, {})
    assert [problem.split()[0] for problem in result["problems"]] == [
        "dgxc_shared_root",
        "nemo_gpt3_nodes",
        "nemo_gpt3_max_time",
        "nemo_gpt3_run_name",
    ]


def test_a_misspelt_variable_is_noticed() -> None:
    (problem,) = planned(max_step=10)["problems"]
    assert problem == "nemo_gpt3_max_step is not a variable of this role: write nemo_gpt3_max_steps."


def test_a_topology_file_below_a_mount_is_seen() -> None:
    env = {"NCCL_TOPO_FILE": "/cm/shared/etc/ndv4-topo.xml"}
    assert planned(env=env)["problems"] == []
    assert planned(env=env, container_mounts=["/cm/shared:/elsewhere"])["problems"] != []
    assert planned(env=env, container_mounts=["/x:/cm/shared/etc:ro"])["problems"] == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(sorted(KNOWN)),
)
def test_no_value_brings_the_judgement_down(value: Any, name: str) -> None:
    result = plan({**GOOD, name: value}, SITE)
    assert bool(result["plans"]) is not bool(result["problems"])
    for problem in result["problems"]:
        assert problem.endswith(".")


@given(st.integers(min_value=1, max_value=1024))
def test_the_rule_for_7b_improved_is_512_by_twice_the_nodes(nodes: int) -> None:
    facts = {"global_batch_size": 512, "micro_batch_size": 1, "tensor_model_parallel_size": 4}
    assert (batch_problem(nodes, 8, facts) is None) is (512 % (2 * nodes) == 0)


def test_fewer_gpus_than_one_copy_of_the_model() -> None:
    problem = batch_problem(1, 2, {"global_batch_size": 512, "micro_batch_size": 1, "tensor_model_parallel_size": 4})
    assert problem is not None
    assert "0.5 copies" in problem
    assert "choose 2 or 4 or 8 nodes" in problem


SCRIPT = """#!/bin/bash

# Parameters
#SBATCH --gpus-per-node=8
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=8
#SBATCH --time=0-02:00:00

srun true
"""


def rendered(nodes: int = 2) -> dict[str, Any]:
    return {
        "files": {"results/gpt/x_submission.sh": SCRIPT.format(nodes=nodes), "conf/dgxc.yaml": "x"},
        "script": "results/gpt/x_submission.sh",
        "logs": {"stdout": "results/gpt/log_%j.out", "stderr": "results/gpt/log_%j.err"},
        "run_name": "gpt",
        "directories": ["results/gpt/results"],
    }


CONFIGURATION = {
    "trainer": {"num_nodes": 2, "max_steps": 2000},
    "model": {
        "global_batch_size": 512,
        "micro_batch_size": 1,
        "tensor_model_parallel_size": 4,
        "encoder_seq_length": 2048,
    },
}


def test_runs_are_what_the_role_run_takes() -> None:
    result = runs(planned()["plans"], [rendered()], [CONFIGURATION])
    assert result["problems"] == []
    (run,) = result["runs"]
    assert run == {
        "name": "gpt-7b-improved-n2",
        "workload": "nemo_gpt3",
        "files": rendered()["files"],
        "directories": ["results/gpt/results"],
        "script": "results/gpt/x_submission.sh",
        "options": {"job-name": "nemo-megatron-gpt-7b-improved-n2"},
        "resubmit": "never",
        "max_attempts": 3,
        "identity": {
            "launcher_commit": GOOD["nemo_gpt3_launcher_commit"],
            "image": "nvcr.io#nvidia/nemo:24.01.01.framework",
            "image_digest": "",
        },
        "logs": rendered()["logs"],
        "log_format": "nemo",
        "expect": {
            "nodes": 2,
            "gpus_per_node": 8,
            "ranks": 16,
            "steps": 2000,
            "max_time_seconds": 5400,
            "global_batch_size": 512,
            "sequence_length": 2048,
        },
    }


def test_a_replaced_image_is_another_run() -> None:
    keys = set()
    for digest in ("", "sha256:" + "1" * 64, "squashfs-tables:" + "2" * 64):
        (run,) = runs(planned()["plans"], [rendered()], [CONFIGURATION], digest)["runs"]
        assert run["identity"]["image_digest"] == digest
        keys.add(run_key(run))
    assert len(keys) == 3


def test_a_launcher_that_did_something_else_is_found_out() -> None:
    result = runs(planned()["plans"], [rendered(nodes=16)], [CONFIGURATION])
    assert result["runs"] == []
    (problem,) = result["problems"]
    assert "the launcher wrote #SBATCH --nodes = 16 where 2 was asked for" in problem


def test_the_batch_is_judged_again_by_what_the_launcher_resolved() -> None:
    other = {**CONFIGURATION, "model": {**CONFIGURATION["model"], "global_batch_size": 6}}
    result = runs(planned(model="other")["plans"], [rendered()], [other])
    assert "the global batch of 6 samples" in result["problems"][0]


def test_whole_numbers() -> None:
    assert [whole_number(value) for value in (4, "4", " 4 ", 0)] == [4, 4, 4, 0]
    assert [whole_number(value) for value in (True, 4.0, "4.0", "-4", "", None, "٤", [4])] == [None] * 8


def test_trees_are_merged_at_every_depth() -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    assert merged(base, {"a": {"c": {"f": 3}}, "e": [2]}) == {"a": {"b": 1, "c": {"d": 2, "f": 3}}, "e": [2]}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_]{1,8}", fullmatch=True),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(st.characters(min_codepoint=32, max_codepoint=126))
        | st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
    )
)
def test_what_is_written_as_yaml_is_read_back(tree: dict[str, Any]) -> None:
    text = to_yaml({"level": tree})
    assert yaml.safe_load(text)["level"] == yaml_keys(tree)


def yaml_keys(tree: dict[str, Any]) -> dict[Any, Any]:
    """Return the tree with its keys as YAML reads them: y, no and null are no names of anything here."""
    return {yaml.safe_load(key) if re.fullmatch(r"\w+", key) else key: value for key, value in tree.items()}


def test_an_odd_site_reaches_the_launchers_cluster_file_and_sbatch() -> None:
    site = {
        "dgxc_gres_style": "gres",
        "dgxc_gpu_type": "a100",
        "dgxc_slurm_memory": "",
        "dgxc_slurm_constraint": "nvlink",
        "dgxc_sbatch_options": {"nice": 100},
        "dgxc_srun_options": {"mpi": "pmix"},
        "dgxc_container_options": {"writable": True},
        "dgxc_proxies": {"https": "http://proxy:3128"},
    }
    found = overlay(site)
    assert found["cluster"] == {
        "gpus_per_node": None,
        "gres": "gpu:a100:8",
        "srun_args": ["--no-container-mount-home", "--container-writable", "--mpi=pmix"],
    }
    assert found["env_vars"]["https_proxy"] == "http://proxy:3128"
    assert planned(site, serial=True, slurm_qos="high")["plans"][0]["options"] == {
        "qos": "high",
        "constraint": "nvlink",
        "nice": 100,
    }
    assert planned(site)["plans"][0]["gpu_request"] == ["gres", "gpu:a100:8"]


def test_a_type_of_gpu_and_the_memory_of_a_node() -> None:
    assert overlay({"dgxc_gpu_type": "a100"})["cluster"] == {"gpus_per_node": "a100:8"}
    for asked, gibibytes in (("480G", 480), ("2T", 2048), ("1536", 1.5), ("512M", 0.5), ("1048576K", 1)):
        assert overlay({"dgxc_slurm_memory": asked})["cluster"] == {"mem": gibibytes}


def test_a_site_that_wants_no_request_for_memory() -> None:
    written = rendered()
    written["files"][written["script"]] = written["files"][written["script"]].replace(
        "#SBATCH --nodes", "#SBATCH --mem=0\n#SBATCH --nodes"
    )
    for facts, kept in (({}, True), ({"dgxc_slurm_memory": ""}, False)):
        (run,) = runs(planned(facts)["plans"], [written], [CONFIGURATION])["runs"]
        assert ("#SBATCH --mem=0\n" in run["files"][run["script"]]) is kept
