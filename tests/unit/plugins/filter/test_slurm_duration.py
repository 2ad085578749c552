# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters over durations say in a sentence what they cannot take."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.filter.slurm_duration import FilterModule

FILTERS = FilterModule().filters()


def test_values_are_handed_on() -> None:
    assert FILTERS["slurm_duration_to_seconds"]("0-02:00:00") == 7200
    assert FILTERS["slurm_duration_to_seconds"]("UNLIMITED") is None
    assert FILTERS["seconds_to_slurm_duration"](7200) == "0-02:00:00"
    assert FILTERS["nemo_duration_to_seconds"]("00:01:30:00") == 5400


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("slurm_duration_to_seconds", 7200, "quoted text"),
        ("slurm_duration_to_seconds", "soon", "not a duration of Slurm"),
        ("seconds_to_slurm_duration", "7200", "number of seconds"),
        ("seconds_to_slurm_duration", True, "number of seconds"),
        ("seconds_to_slurm_duration", -1, "0 or more"),
        ("nemo_duration_to_seconds", 5400, "quoted text"),
        ("nemo_duration_to_seconds", "1:30:00", "not a duration of NeMo"),
    ],
)
def test_nonsense_is_refused(name: str, value: object, said: str) -> None:
    with pytest.raises(AnsibleFilterError, match=said):
        FILTERS[name](value)
