# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of nemo_gpt3 take what Ansible hands over."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.filter.nemo_gpt3 import FilterModule

FILTERS = FilterModule().filters()


@pytest.mark.parametrize("arguments", [("x", {}), ({}, "x"), ([], {})])
def test_a_plan_wants_two_dictionaries(arguments: tuple[Any, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="two dictionaries"):
        FILTERS["nemo_gpt3_plan"](*arguments)


def test_a_plan_of_nothing_names_everything_that_is_missing() -> None:
    plan = FILTERS["nemo_gpt3_plan"]({}, {})
    assert plan["plans"] == []
    assert any(problem.startswith("nemo_gpt3_nodes is not given") for problem in plan["problems"])


def test_plans_and_renders_belong_together() -> None:
    with pytest.raises(AnsibleFilterError, match="for each"):
        FILTERS["nemo_gpt3_runs"]([{}], [])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "did not write results/gpt/gpt_hydra.yaml"),
        ({"results/gpt/gpt_hydra.yaml": "a: 1"}, "no model and trainer"),
    ],
)
def test_a_resolved_configuration_is_needed(files: dict[str, str], said: str) -> None:
    rendered = {"files": files, "script": "results/gpt/x_submission.sh", "run_name": "gpt"}
    with pytest.raises(AnsibleFilterError, match=said):
        FILTERS["nemo_gpt3_runs"]([{}], [rendered])
