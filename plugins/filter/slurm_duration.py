# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters over the durations that Slurm and NeMo write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils import _durations

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


def slurm_duration_to_seconds(value: Any) -> int | None:
    if not isinstance(value, str):
        raise AnsibleFilterError(
            f"slurm_duration_to_seconds wants a text and got {value!r}: YAML reads times without quotes as numbers,"
            ' so write it as a quoted text such as "0-02:00:00".'
        )
    return _told(_durations.slurm_duration_to_seconds, str(value))


def seconds_to_slurm_duration(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AnsibleFilterError(f"seconds_to_slurm_duration wants a number of seconds and got {value!r}.")
    return _told(_durations.seconds_to_slurm_duration, int(value))


def nemo_duration_to_seconds(value: Any) -> int:
    if not isinstance(value, str):
        raise AnsibleFilterError(
            f"nemo_duration_to_seconds wants a text and got {value!r}: YAML reads times without quotes as numbers, so"
            f" write it"
            ' as a quoted text such as "00:01:30:00".'
        )
    return _told(_durations.nemo_duration_to_seconds, str(value))


def _told(function: Callable[[_Given], _Found], value: _Given) -> _Found:
    try:
        return function(value)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "slurm_duration_to_seconds": slurm_duration_to_seconds,
            "seconds_to_slurm_duration": seconds_to_slurm_duration,
            "nemo_duration_to_seconds": nemo_duration_to_seconds,
        }
