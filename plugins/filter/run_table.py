# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter `run_table`: runs as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils._table import table

DOCUMENTATION = r"""
name: run_table
short_description: Show runs as a table
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - One line per run with job, state, size, steps done, time per step, verdict and record, under a line of headings.
options:
  _input:
    description: Runs as M(dgxc.workloads.run_result) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what was measured
  ansible.builtin.debug:
    msg: "{{ result.runs | dgxc.workloads.run_table }}"
"""

RETURN = r"""
_value:
  description: The lines of the table; columns are padded with blanks.
  type: list
  elements: str
"""

HEADINGS = ("run", "job", "state", "nodes x GPUs", "steps done", "seconds per step", "verdict", "record")


def seconds_per_step(metrics: Mapping[str, Any]) -> str:
    """`13.40 +- 0.12 (n 1800)`, or `-` where nothing was measured."""
    metric = metrics.get("seconds_per_step") or {}
    if metric.get("mean") is None:
        return "-"
    deviation = metric.get("standard_deviation")
    spread = "" if deviation is None else f" +- {deviation:.3g}"
    return "{:.4g}{} (n {})".format(metric["mean"], spread, metric.get("count"))


def run_table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """See DOCUMENTATION."""
    rows = []
    for run in runs:
        steps = "-" if run.get("steps_done") is None else str(run["steps_done"])
        progress = run.get("progress") or {}
        if run.get("verdict") == "active" and progress.get("step") is not None:
            steps = str(progress["step"])
        if run.get("steps") is not None:
            steps = "{} of {}".format(steps, run["steps"])
        rows.append(
            [
                str(run["name"]),
                str(run.get("job_id") or "-"),
                str(run.get("state") or "-"),
                "{} x {}".format(run.get("node_count") or "?", run.get("gpus_per_node") or "?"),
                steps,
                seconds_per_step(run.get("metrics") or {}),
                str(run["verdict"]),
                str(run["record"]),
            ]
        )
    return table(HEADINGS, rows)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"run_table": run_table}
