# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations of Slurm and NeMo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils._durations import (
    nemo_duration_to_seconds,
    seconds_to_slurm_duration,
    slurm_duration_to_seconds,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-00:00:00", 86400),
        ("3-0:00", 259200),
        ("3-0", 259200),
        ("1-12", 129600),
        ("05:00", 300),
        ("00:05.123", 5),
        ("02:00:00", 7200),
        ("0-02:00:00", 7200),
        ("7200", 432000),
        (" 00:00:10 ", 10),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INFINITE", None),
        ("NOT_SET", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_slurm_durations_are_read(text: str, seconds: int | None) -> None:
    assert slurm_duration_to_seconds(text) == seconds


@pytest.mark.parametrize("text", ["soon", "1-", "-1", "1:2:3:4", "1-1:1:1:1", "1h", "0x10", "٣:00"])
def test_other_texts_are_no_slurm_duration(text: str) -> None:
    with pytest.raises(ValueError, match="days-hours:minutes:seconds"):
        slurm_duration_to_seconds(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_seconds_survive_the_way_there_and_back(seconds: int) -> None:
    assert slurm_duration_to_seconds(seconds_to_slurm_duration(seconds)) == seconds


def test_negative_seconds_are_no_duration() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        seconds_to_slurm_duration(-1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:01:30:00", 5400), ("05:23:30:00", 516600), ("0:00:00:01", 1), ("100:00:00:00", 8640000)]
)
def test_nemo_durations_are_read(text: str, seconds: int) -> None:
    assert nemo_duration_to_seconds(text) == seconds


@pytest.mark.parametrize("text", ["01:30:00", "00:24:00:00", "00:00:60:00", "00:00:00:60", "0-01:30:00", "", "a:b:c:d"])
def test_other_texts_are_no_nemo_duration(text: str) -> None:
    with pytest.raises(ValueError, match="days:hours:minutes:seconds"):
        nemo_duration_to_seconds(text)
