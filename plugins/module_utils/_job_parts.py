# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many parts a job has: the tasks of an array, the components of a heterogeneous job, else one.

A job is over when all its parts are, and Slurm's accounting is told of them one by one; only the script and the options
say how many there have to be. This file is private to the collection.
"""

from __future__ import annotations

import re
import shlex
from typing import Iterable, Mapping

#: The first components are closed by such a line; the older word is still taken.
_COMPONENT_WORDS = frozenset(["hetjob", "packjob"])
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def count_indices(text: str) -> int | None:
    """How many tasks `0-15:4%2`, `1,3,7-9` or the same in brackets name; None when the text is of another shape."""
    indices: set[int] = set()
    for item in text.strip().strip("[]").partition("%")[0].split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            return None
        first, last, step = match.groups()
        indices.update(range(int(first), int(last or first) + 1, max(1, int(step or 1))))
    return len(indices)


def count_parts(job_ids: Iterable[str]) -> int:
    """How many parts these ids of squeue or sacct stand for: `28_[2-9%2]` for eight, `28_1` and `33+0` for one each."""
    return sum(count_indices(job_id.partition("_")[2]) or 1 for job_id in set(job_ids))


def job_parts(script: str, options: Mapping[str, str]) -> int:
    """How many parts the job of a batch script has. `options` are long options of sbatch, which beat the script's.

    As sbatch does, directives are read up to the first line that is neither empty nor a comment.
    """
    array = options.get("array", "")
    components = 1
    for words in _directives(script):
        if words and words[0] in _COMPONENT_WORDS:
            components += 1
        array = options.get("array") or _array_of(words) or array
    return components if components > 1 else (count_indices(array) or 1)


def _directives(script: str) -> Iterable[list[str]]:
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            try:
                yield shlex.split(line[len("#SBATCH") :], comments=True)
            except ValueError:
                # An open quote, which sbatch refuses itself.
                continue
        elif line.strip() and not line.startswith("#"):
            return


def _array_of(words: list[str]) -> str:
    """The value of --array in the words of one directive, which may hold several options."""
    found = ""
    for word, following in zip(words, [*words[1:], ""]):
        if word in ("--array", "-a"):
            found = following
        elif word.startswith("--array="):
            found = word.partition("=")[2]
        elif word.startswith("-a") and not word.startswith("--"):
            found = word[2:].lstrip("=")
    return found
