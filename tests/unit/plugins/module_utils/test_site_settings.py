# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement of the facts about a site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import (
    _CHECKS,
    FACTS,
    container_words,
    fact_value,
    gpu_request,
    memory_request,
    nearest,
    plain,
    proxy_environment,
    sbatch_options,
    site_problems,
    srun_words,
)

GOOD: dict[str, Any] = {"dgxc_shared_root": "/lustre/fs0/scratch/demo-user"}


def test_a_site_with_a_shared_root_is_enough() -> None:
    assert site_problems(GOOD) == []


def test_all_facts_of_a_site() -> None:
    assert (
        site_problems(
            {
                **GOOD,
                "dgxc_login_node": "login.example.com",
                "dgxc_login_user": "demo-user",
                "dgxc_slurm_account": "",
                "dgxc_slurm_partition": "defq,other",
                "dgxc_slurm_qos": "high",
                "dgxc_environment_modules": ["slurm", "python39/3.9.18"],
                "dgxc_fabric": {"env": {"UCX_TLS": "rc", "NCCL_DEBUG": None}, "mounts": ["/cm/shared", None]},
                "dgxc_hosts": "slurm_login",
                "dgxc_site_file": "/x/hosts.yml",
                "dgxc_slurm_bin_dir": "/opt/slurm/bin",
                "dgxc_slurm_reservation": None,
                "dgxc_slurm_constraint": "[a100|h100]&nvlink*2",
                "dgxc_slurm_memory": "200G",
                "dgxc_gpus_per_node": "4",
                "dgxc_gres_style": "gres",
                "dgxc_gpu_type": "a100-sxm4",
                "dgxc_sbatch_options": {"nice": 100, "requeue": True, "licenses": "fs:2", "switches": None},
                "dgxc_srun_options": {"mpi": "pmix", "cpu-bind": "none"},
                "dgxc_container_image": "nvcr.io#nvidia/nemo:24.01.01.framework",
                "dgxc_container_options": {"writable": True, "mount_home": None},
                "dgxc_image_delivery": "import",
                "dgxc_proxies": {"http": "http://proxy:3128", "https": "", "no": ["localhost", ".example.org"]},
            }
        )
        == []
    )


def test_what_is_missing_is_told_with_the_file_and_the_variable() -> None:
    problems = site_problems(
        {
            "dgxc_login_node": "",
            "dgxc_login_user": "",
            "dgxc_shared_root": "",
            "dgxc_slurm_account": "?",
            "dgxc_slurm_partition": "?",
            "dgxc_site_file": "/x/hosts.yml",
        }
    )
    assert problems[0] == (
        "dgxc_login_node is not given: set it to the host name or address of the cluster's login node in"
        " /x/hosts.yml, or"
        " export DGXC_LOGIN_NODE."
    )
    assert [problem.split()[0] for problem in problems] == [
        "dgxc_login_node",
        "dgxc_login_user",
        "dgxc_shared_root",
        "dgxc_slurm_account",
        "dgxc_slurm_partition",
    ]
    assert "an empty text means that the cluster's default will do" in problems[3]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"dgxc_shared_root": "relative"}, "dgxc_shared_root is 'relative': give an absolute path"),
        ({"dgxc_shared_root": "/a/./b"}, "as /a/b"),
        ({"dgxc_shared_root": "//a"}, "as /a"),
        ({"dgxc_shared_root": "/"}, "folder of your own"),
        ({"dgxc_shared_root": "/a/<user-name>"}, "use only letters"),
        ({"dgxc_shared_root": 5}, "give an absolute path"),
        ({"dgxc_login_node": "-oProxyCommand=x"}, "without blanks"),
        ({"dgxc_slurm_acount": "x"}, "write dgxc_slurm_account"),
        ({"dgxc_environment_module": []}, "write dgxc_environment_modules"),
        ({"dgxc_mine": 1}, "a name that does not begin with dgxc_"),
        ({"dgxc_slurm_bin_dir": "bin"}, "give the absolute path of a folder"),
        ({"dgxc_slurm_constraint": "a b"}, "give features as --constraint"),
        ({"dgxc_slurm_memory": "lots"}, "give what --mem of sbatch takes"),
        ({"dgxc_slurm_memory": True}, "give what --mem of sbatch takes"),
        ({"dgxc_gpus_per_node": 0}, "give the GPUs of one node as a whole number"),
        ({"dgxc_gpus_per_node": True}, "give the GPUs of one node as a whole number"),
        ({"dgxc_gres_style": "gpu_per_node"}, "dgxc_gres_style is 'gpu_per_node': give gpus_per_node."),
        ({"dgxc_gres_style": "any"}, "give gpus_per_node or gres."),
        ({"dgxc_gpu_type": "gpu:a100"}, "behind Gres=gpu:"),
        ({"dgxc_sbatch_options": ["nice"]}, "give a dictionary of long options of sbatch"),
        ({"dgxc_sbatch_options": {"qos": "x"}}, "use dgxc_slurm_qos"),
        ({"dgxc_sbatch_options": {"nodes": 2}}, "dgxc_sbatch_options.nodes belongs to the run"),
        ({"dgxc_sbatch_options": {"--nice": 2}}, "write it without dashes in front"),
        ({"dgxc_sbatch_options": {"comment2": "a b"}}, "give a text without blanks"),
        ({"dgxc_sbatch_options": {"nice": [1]}}, "give a text without blanks"),
        ({"dgxc_srun_options": {"container-env": "A"}}, "use dgxc_container_options"),
        ({"dgxc_srun_options": {"label": True}}, "belongs to the run"),
        ({"dgxc_container_image": "a b"}, "registry#path:tag"),
        ({"dgxc_container_options": {"writeable": True}}, "unknown key 'writeable': write writable."),
        ({"dgxc_container_options": {"writable": "yes"}}, "dgxc_container_options.writable is 'yes': give true or"),
        ({"dgxc_container_options": True}, "give a dictionary"),
        ({"dgxc_image_delivery": "imports"}, "give import."),
        ({"dgxc_proxies": {"htpp": "x"}}, "unknown key 'htpp': write http."),
        ({"dgxc_proxies": {"http": "proxy:3128"}}, "dgxc_proxies.http is 'proxy:3128': give http://host:port."),
        ({"dgxc_proxies": {"https": "http://me:secret@proxy:1"}}, "dgxc_proxies.https holds a password"),
        ({"dgxc_proxies": {"no": "a b"}}, "give a list of hosts"),
        ({"dgxc_proxies": "http://proxy"}, "the keys http, https and no"),
        ({"dgxc_slurm_reservation": "a b"}, "as Slurm knows it"),
        ({"dgxc_environment_modules": "slurm"}, "list of module names"),
        ({"dgxc_environment_modules": ["slurm; id"]}, "list of module names"),
        ({"dgxc_fabric": ["x"]}, "keys env and mounts"),
        ({"dgxc_fabric": {"mount": []}}, "dgxc_fabric has the unknown key 'mount': write mounts."),
        ({"dgxc_fabric": {"environment": {}}}, "unknown key 'environment'"),
        ({"dgxc_fabric": {"env": {"A": "b c"}}}, "dgxc_fabric.env.A is 'b c'"),
        ({"dgxc_fabric": {"mounts": "/cm"}}, "dgxc_fabric.mounts is '/cm': give a list"),
    ],
)
def test_nonsense_is_told_in_one_sentence(facts: dict[str, Any], said: str) -> None:
    (problem,) = site_problems({**GOOD, **facts})
    assert said in problem
    assert problem.endswith(".")


def test_the_nearest_word() -> None:
    assert nearest("mount", ("env", "mounts"), 0.5) == "mounts"
    assert nearest("zzz", ("env", "mounts"), 0.5) is None


def test_plain_values() -> None:
    assert plain({"a": ("b", 1, None, {"c": 2.5})}) == {"a": ["b", 1, None, {"c": 2.5}]}


def test_a_password_in_a_proxy_is_not_shown() -> None:
    (problem,) = site_problems({**GOOD, "dgxc_proxies": {"http": "http://me:open-sesame@proxy:1"}})
    assert "sesame" not in problem


def test_the_schema_is_whole_and_documented() -> None:
    assert len({fact.name for fact in FACTS}) == len(FACTS)
    assert {fact.kind for fact in FACTS} == set(_CHECKS)
    for fact in FACTS:
        assert fact.name.startswith("dgxc_")
        # What holds where nothing is given is itself allowed.
        if fact.default not in (None, "", [], {}):
            assert site_problems({**GOOD, fact.name: fact.default}) == []


def test_the_page_about_clusters_has_every_fact_with_its_default() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "clusters.md"
    if not page.is_file():
        pytest.skip("needs the documentation of a checkout")
    rows = dict(re.findall(r"(?m)^\| `(dgxc_[a-z_]+)` \| ([^|]*) \|", page.read_text()))
    assert set(rows) == {fact.name for fact in FACTS}
    for fact in FACTS:
        shown = {"None": "", "": "empty"}.get(str(fact.default), f"`{fact.default}`")
        assert rows[fact.name].strip() == ("required" if fact.required else shown), fact.name


@pytest.mark.parametrize(
    ("facts", "request_"),
    [
        ({}, ("gpus-per-node", "8")),
        ({"dgxc_gpu_type": "a100"}, ("gpus-per-node", "a100:8")),
        ({"dgxc_gres_style": "gres"}, ("gres", "gpu:8")),
        ({"dgxc_gres_style": "gres", "dgxc_gpu_type": "a100"}, ("gres", "gpu:a100:8")),
        ({"dgxc_gres_style": None, "dgxc_gpu_type": ""}, ("gpus-per-node", "8")),
    ],
)
def test_how_gpus_are_asked_for(facts: dict[str, Any], request_: tuple[str, str]) -> None:
    assert gpu_request(facts, 8) == request_


def test_what_facts_make_of_command_lines() -> None:
    site = {
        "dgxc_slurm_constraint": "a100",
        "dgxc_sbatch_options": {"nice": 5, "requeue": True, "hold": False, "licenses": None},
        "dgxc_srun_options": {"mpi": "pmix", "unbuffered": True, "quiet": False},
        "dgxc_container_options": {"writable": True, "remap_root": False, "entrypoint": None},
        "dgxc_proxies": {"https": "http://proxy:3128", "no": ["localhost", ".x.org"], "http": None},
    }
    assert sbatch_options(site) == {"constraint": "a100", "nice": 5, "requeue": True}
    assert srun_words(site) == ["--mpi=pmix", "--unbuffered"]
    assert container_words(site) == ["--no-container-mount-home", "--container-writable", "--no-container-remap-root"]
    assert proxy_environment(site) == {
        "https_proxy": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "localhost,.x.org",
        "NO_PROXY": "localhost,.x.org",
    }
    assert (sbatch_options({}), srun_words({}), proxy_environment({})) == ({}, [], {})
    assert container_words({}) == ["--no-container-mount-home"]
    assert container_words({"dgxc_container_options": {"mount_home": None}}) == []
    assert container_words({"dgxc_container_options": {"mount_home": True}}) == ["--container-mount-home"]


@pytest.mark.parametrize(
    ("given", "meant"), [({}, "0"), ({"dgxc_slurm_memory": ""}, ""), ({"dgxc_slurm_memory": 0}, "0")]
)
def test_memory_of_a_whole_node(given: dict[str, Any], meant: str) -> None:
    assert memory_request(given) == meant


def test_what_holds_where_a_fact_is_not_given() -> None:
    assert fact_value({"dgxc_gpus_per_node": None}, "dgxc_gpus_per_node") == 8
    assert fact_value({"dgxc_gpus_per_node": 4}, "dgxc_gpus_per_node") == 4
