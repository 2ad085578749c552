# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter `job_table`: jobs as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils._job_wait import duration, progress_words
from ansible_collections.dgxc.workloads.plugins.plugin_utils._table import table

DOCUMENTATION = r"""
name: job_table
short_description: Show jobs as a table
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - One line per job with state, verdict, nodes, run time and progress, under a line of headings.
options:
  _input:
    description: Jobs as M(dgxc.workloads.slurm_job_info) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what runs
  ansible.builtin.debug:
    msg: "{{ look.jobs | dgxc.workloads.job_table }}"
"""

RETURN = r"""
_value:
  description: The lines of the table; columns are padded with blanks.
  type: list
  elements: str
"""

HEADINGS = ("run", "job", "state", "verdict", "nodes", "run time", "progress")


def job_table(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """See DOCUMENTATION."""
    rows = []
    for job in jobs:
        about = ", ".join(progress_words(job.get("progress") or {})) or job.get("reason") or job.get("message") or ""
        elapsed = job.get("elapsed")
        rows.append(
            [
                str(job["name"]),
                str(job.get("job_id") or "-"),
                str(job.get("state") or "-"),
                str(job["verdict"]),
                str(len(job.get("nodes") or [])),
                "-" if elapsed is None else duration(elapsed),
                about.splitlines()[0][:100] if about else "",
            ]
        )
    return table(HEADINGS, rows)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"job_table": job_table}
