# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions of what runs a job, as far as the login node shows them.

This file is private to the collection. Pyxis tells no version: that `srun` takes its options is all that can be seen.
The driver is on the nodes; the containers of the workloads write it down.
"""

from __future__ import annotations

import re
from typing import Mapping, Pattern

from ansible_collections.dgxc.workloads.plugins.module_utils._process import Run

#: Seconds for each question: a version is worth no wait.
LIMIT = 20.0
_QUESTIONS: tuple[tuple[str, tuple[str, ...], Pattern[str]], ...] = (
    ("slurm", ("sinfo", "--version"), re.compile(r"^slurm(?:-wlm)? (\S+)\s*$", re.MULTILINE)),
    ("enroot", ("enroot", "version"), re.compile(r"^(\d+\.\d+\S*)\s*$", re.MULTILINE)),
    ("pyxis", ("srun", "--help"), re.compile(r"(--container-image)\b")),
)
#: What is recorded where a tool is there but tells no version.
PRESENT = "present"


def find_versions(run: Run, environment: Mapping[str, str]) -> dict[str, str]:
    """The versions by tool; one that does not answer, or is not there, is left out."""
    versions = {}
    for name, command, pattern in _QUESTIONS:
        answer = run(command, environment, None, LIMIT)
        match = pattern.search(answer.out) if answer.code == 0 else None
        if match is not None:
            versions[name] = PRESENT if match.group(1).startswith("-") else match.group(1)
    return versions
