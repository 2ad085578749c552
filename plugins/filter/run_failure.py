# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter `run_failure`: what a person needs to know about a run that is not good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: run_failure
short_description: Say why a run is not good
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - A few lines with the run's verdict, the reason with its remedy, and the paths of the logs.
options:
  _input:
    description: A run as M(dgxc.workloads.run_result) returns it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail with the reasons
  ansible.builtin.fail:
    msg: "{{ run_results | map('dgxc.workloads.run_failure') | join('\n') }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""


def run_failure(run: Mapping[str, Any]) -> str:
    """See DOCUMENTATION."""
    kind = " ({})".format(run["failure_class"]) if run.get("failure_class") else ""
    lines = ["{}: {}{}: {}".format(run["name"], run["verdict"], kind, run.get("message") or "no reason given")]
    logs = list((run.get("logs") or {}).values())
    if logs:
        lines.append("logs: " + ", ".join(str(path) for path in logs))
    lines.append("record: {}".format(run["record"]))
    if run["verdict"] == "failed":
        lines.append(
            "The run is not submitted again by itself: give it resubmit: on_failure "
            "(-e {}_resubmit=on_failure), or change what was wrong, which makes another run.".format(
                run.get("workload") or "<workload>"
            )
        )
    return "\n".join(lines)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"run_failure": run_failure}
