# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Durations as Slurm and NeMo write them. Private to this collection."""

from __future__ import annotations

import re

SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 60 * SECONDS_PER_MINUTE
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR

# What Slurm prints where there is no number to print: no limit at all, the partition's limit, nothing known yet.
WITHOUT_A_NUMBER = frozenset(
    ("unlimited", "infinite", "partition_limit", "not_set", "n/a", "none", "invalid", "unknown", "")
)

_SLURM = re.compile(r"(?:(?P<days>[0-9]+)-)?(?P<clock>[0-9]+(?::[0-9]+){0,2})(?:\.(?P<fraction>[0-9]+))?")
_NEMO = re.compile(r"(?P<days>[0-9]{1,3}):(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2})")


def slurm_duration_to_seconds(text: str) -> int | None:
    """Return the whole seconds of a duration written by Slurm, or None where Slurm names no number.

    Slurm writes ``days-hours[:minutes[:seconds]]``, ``hours:minutes:seconds``, ``minutes:seconds`` and
    ``minutes`` (the option ``--time`` in the manual page of sbatch), with a fraction of a second in some columns of
    sacct, which is cut off. ``UNLIMITED``, ``Partition_Limit`` and their like give None.

    :raises ValueError: the text is none of these.
    """
    stripped = text.strip()
    if stripped.lower() in WITHOUT_A_NUMBER:
        return None
    match = _SLURM.fullmatch(stripped)
    if match is None:
        raise ValueError(
            "{0!r} is not a duration of Slurm: write days-hours:minutes:seconds, for example 0-02:00:00.".format(text)
        )
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:
        # With days in front, the first number after the dash is hours.
        hours, minutes, seconds = ([*parts, 0, 0])[:3]
        return int(match["days"]) * SECONDS_PER_DAY + _clock(hours, minutes, seconds)
    if len(parts) == 3:
        return _clock(*parts)
    minutes, seconds = ([*parts, 0])[:2]
    return _clock(0, minutes, seconds)


def seconds_to_slurm_duration(seconds: int) -> str:
    """Return ``days-hours:minutes:seconds``, the one spelling of Slurm that cannot be taken for another.

    :raises ValueError: the number is negative.
    """
    if seconds < 0:
        raise ValueError("{0} seconds is not a duration: give a number that is 0 or more.".format(seconds))
    days, rest = divmod(int(seconds), SECONDS_PER_DAY)
    hours, rest = divmod(rest, SECONDS_PER_HOUR)
    minutes, rest = divmod(rest, SECONDS_PER_MINUTE)
    return "{0}-{1:02d}:{2:02d}:{3:02d}".format(days, hours, minutes, rest)


def nemo_duration_to_seconds(text: str) -> int:
    """Return the seconds of a ``days:hours:minutes:seconds`` duration, as ``trainer.max_time`` of NeMo is written.

    :raises ValueError: the text is not of that shape, or a part runs over (70 minutes).
    """
    match = _NEMO.fullmatch(text.strip())
    if match is None or int(match["hours"]) > 23 or int(match["minutes"]) > 59 or int(match["seconds"]) > 59:
        raise ValueError(
            "{0!r} is not a duration of NeMo: write days:hours:minutes:seconds, for example 00:01:30:00.".format(text)
        )
    return int(match["days"]) * SECONDS_PER_DAY + _clock(
        int(match["hours"]), int(match["minutes"]), int(match["seconds"])
    )


def _clock(hours: int, minutes: int, seconds: int) -> int:
    return hours * SECONDS_PER_HOUR + minutes * SECONDS_PER_MINUTE + seconds
