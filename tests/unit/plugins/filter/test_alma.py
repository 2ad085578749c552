# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of alma take what Ansible hands over."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.filter.alma import FilterModule

FILTERS = FilterModule().filters()
FOUND: dict[str, Any] = {"data": [], "image": {"reference": "x", "digest": ""}}


@pytest.mark.parametrize("arguments", [("x", {}), ({}, "x"), ([], {})])
def test_plan_and_runs_want_two_dictionaries(arguments: tuple[Any, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="two dictionaries"):
        FILTERS["alma_plan"](*arguments)
    with pytest.raises(AnsibleFilterError, match="two dictionaries"):
        FILTERS["alma_runs"](*arguments, FOUND)


@pytest.mark.parametrize("found", ["x", {}, {"data": []}])
def test_runs_want_what_was_found(found: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="what was found on the cluster"):
        FILTERS["alma_runs"]({}, {}, found)


def test_a_plan_of_nothing_names_everything_that_is_missing() -> None:
    told = FILTERS["alma_plan"]({}, {})["problems"]
    assert any(problem.startswith("alma_nodes is not given") for problem in told)
    assert FILTERS["alma_runs"]({}, {}, FOUND)["problems"] == told
