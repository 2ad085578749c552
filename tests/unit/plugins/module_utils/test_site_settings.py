# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement of the facts about a site."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import nearest, plain, site_problems

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
                "dgxc_somebody_elses": "business",
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
