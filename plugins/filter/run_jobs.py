# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter `run_jobs`: from the runs of a workload to what `slurm_job` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import RunError
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import run_jobs as make_run_jobs

DOCUMENTATION = r"""
name: run_jobs
short_description: Turn runs into the jobs that slurm_job takes
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Fills in each run's defaults, computes its key, and names its folder.
  - The key is the SHA-256 of everything that changes the result. The folder is
    C(<root>/<workload>/<name>-<first 12 digits of the key>).
positional: root
options:
  _input:
    description: The runs, as described by the role C(dgxc.workloads.run).
    type: list
    elements: dict
    required: true
  root:
    description: Folder of all runs, on shared storage.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Submit the runs
  dgxc.workloads.slurm_job:
    jobs: "{{ run_runs | dgxc.workloads.run_jobs(run_root) }}"
"""

RETURN = r"""
_value:
  description: The entries for O(dgxc.workloads.slurm_job#module:jobs), in the same order.
  type: list
  elements: dict
"""


def run_jobs(runs: Sequence[Mapping[str, Any]], root: str) -> list[dict[str, Any]]:
    """See DOCUMENTATION."""
    try:
        return make_run_jobs(runs, root)
    except RunError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"run_jobs": run_jobs}
