#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_records_info
short_description: Read the records of all runs below a folder
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Returns one entry per run, from its record alone. Slurm is not asked and no log is read, so that it works at any
    time, also long after the jobs were forgotten.
  - An entry answers which commits, image, script, options and nodes a run had, which versions it met, which jobs it
    was, whose it is, when and how long it ran, how many GPU hours it took, and what came of it.
options:
  root:
    description: The folder of all runs, such as C(<dgxc_shared_root>/runs).
    type: path
    required: true
  workloads:
    description: Shell patterns of workloads; all of them when empty.
    type: list
    elements: str
    default: []
  names:
    description: Shell patterns of run names or of the names of their folders; all of them when empty.
    type: list
    elements: str
    default: []
  series:
    description: Whether the curves of step time and loss are returned.
    type: bool
    default: true
  must_exist:
    description: Whether a missing O(root) is a failure; without, there are no runs then.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Reads only, at any time.
  diff_mode:
    support: none
    description: There is nothing to show.
seealso:
  - module: dgxc.workloads.run_result
  - module: dgxc.workloads.slurm_job_info
"""

EXAMPLES = r"""
- name: Read what is on record of the ViViT sweep
  dgxc.workloads.run_records_info:
    root: /lustre/fs0/scratch/demo-user/runs
    workloads: [vivit]
  register: records
"""

RETURN = r"""
root:
  description: The folder that was looked at.
  returned: always
  type: str
  sample: /lustre/fs0/scratch/demo-user/runs
runs:
  description: One entry per run, by workload and time.
  returned: always
  type: list
  elements: dict
  contains:
    workload:
      description: What it trains.
      type: str
    name:
      description: Name of the run.
      type: str
    key:
      description: Fingerprint of all that changes the result.
      type: str
    run_dir:
      description: Folder of the run.
      type: str
    verdict:
      description: V(succeeded), V(failed), V(unknown), or V(open) when no verdict is on record yet.
      type: str
    message:
      description: What is wrong and what to do about it.
      type: str
    cause:
      description: The likeliest cause in the log, with name, cause, remedy and evidence.
      type: dict
    gates:
      description: Each gate with name, passed, evidence and message.
      type: list
      elements: dict
    metrics:
      description: What was measured, each with unit, mean, standard deviation, count, steps and source.
      type: dict
    node_count:
      description: Nodes asked for.
      type: int
    gpus_per_node:
      description: GPUs per node asked for.
      type: int
    nodes:
      description: Names of the nodes it ran on.
      type: list
      elements: str
    commits:
      description: Commits by the name of what they are of.
      type: dict
    image:
      description: The container image.
      type: str
    image_digest:
      description: Its digest, where the run knows it.
      type: str
    script:
      description: Path of the batch script.
      type: str
    script_sha256:
      description: Its fingerprint.
      type: str
    job_ids:
      description: The jobs of all attempts.
      type: list
      elements: str
    user:
      description: Whose run it is.
      type: str
    submitted:
      description: When the job was submitted, in seconds since the epoch; likewise started and ended.
      type: int
    elapsed:
      description: Run time of the last job in seconds.
      type: int
    gpu_hours:
      description: Nodes x GPUs per node x hours, of all attempts.
      type: float
    versions:
      description: Versions of Slurm and Enroot, and whether Pyxis is there, as the login node showed them.
      type: dict
    environment:
      description: What the container wrote down of itself, such as versions of libraries and of the driver.
      type: dict
    attempts:
      description: Every attempt with number, folder, job_id, state, verdict, elapsed, nodes and gpu_hours.
      type: list
      elements: dict
    series:
      description: Points of the curves, each as step, seconds per step, loss.
      type: list
      elements: list
  sample:
    - {"workload": "vivit", "name": "vivit-n1g8b4", "verdict": "succeeded", "gpu_hours": 0.72, "job_ids": ["181"]}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._run_records import run_records_info


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "workloads": {"type": "list", "elements": "str", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "series": {"type": "bool", "default": True},
            "must_exist": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    result = run_records_info(module.params)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
