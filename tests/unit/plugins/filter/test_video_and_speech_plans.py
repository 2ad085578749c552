# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters vivit_plan and whisper_qlora_plan: what they take."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.filter.vivit_plan import FilterModule as Vivit
from ansible_collections.dgxc.workloads.plugins.filter.whisper_qlora_plan import FilterModule as WhisperQlora

FILTERS = {**Vivit().filters(), **WhisperQlora().filters()}


@pytest.mark.parametrize("name", ["vivit_plan", "whisper_qlora_plan"])
class TestPlan:
    def test_nothing_given_is_told_variable_by_variable(self, name):
        planned = FILTERS[name]({}, {})
        assert planned["runs"] == []
        assert any(problem.startswith(name[: -len("plan")] + "matrix is not given") for problem in planned["problems"])

    @pytest.mark.parametrize("arguments", [([], {}), ({}, "x"), ({}, {}, {}), ({}, {}, None, {})])
    def test_other_arguments_are_refused(self, name, arguments):
        with pytest.raises(AnsibleFilterError, match=name):
            FILTERS[name](*arguments)
