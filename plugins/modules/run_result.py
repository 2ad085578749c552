#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_result
short_description: Judge runs that have ended by the gates, and put the result on record
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Looks at the job of each run's newest attempt, reads its logs where they lie, and judges by gates. The gate C(slurm)
    asks for the final state, the exit codes and the steps, C(log) for the last step reached, finite losses, the
    settings that the trainer tells and no crash, C(topology) for as many nodes, tasks and ranks as were asked for, and,
    for a run that says what it leaves behind, C(output) for files with content and the trainer's own state.
  - A run is V(succeeded) only if all of them agree. What cannot be told is V(unknown), which is never a success.
  - Writes C(result.json), C(metrics.json) and C(series.json) (the curves that a report draws) into the attempt's folder
    and C(record.json) into the run's. A result on record is final and is told without asking Slurm or reading a log
    again.
extends_documentation_fragment:
  - dgxc.workloads.slurm
  - dgxc.workloads.limits
options:
  run_dirs:
    description: Folders of the runs.
    type: list
    elements: path
    required: true
  log_timeout:
    description: Seconds to wait for the log and the output of an ended job to appear on shared storage.
    type: float
    default: 60.0
  fail_unless_succeeded:
    description: Whether the module fails when a run did not succeed, or has not ended.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Judges, but writes nothing.
  diff_mode:
    support: none
    description: The result is in the return values.
  idempotent:
    support: full
    description: A result on record is not judged again.
seealso:
  - module: dgxc.workloads.slurm_job
  - module: dgxc.workloads.slurm_job_wait
"""

EXAMPLES = r"""
- name: Judge a run and fail with the reason if it is not good
  dgxc.workloads.run_result:
    run_dirs:
      - /lustre/fs0/scratch/demo-user/runs/nemo_gpt3/gpt-7b-improved-n2-0f3c5a9b1d2e
    environment_modules: [slurm]
"""

RETURN = r"""
runs:
  description: One entry per run, in the order given.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the run.
      type: str
    key:
      description: Fingerprint of the run.
      type: str
    workload:
      description: What it trains.
      type: str
    run_dir:
      description: Folder of the run.
      type: str
    record:
      description: Path of the record.
      type: str
    attempt:
      description: Number of the newest attempt.
      type: int
    attempt_dir:
      description: Its folder.
      type: str
    job_id:
      description: Id of its job.
      type: str
    state:
      description: Slurm's word for the state.
      type: str
    nodes:
      description: Names of the nodes it ran on.
      type: list
      elements: str
    node_count:
      description: How many nodes were asked for.
      type: int
    gpus_per_node:
      description: How many GPUs per node were asked for.
      type: int
    elapsed:
      description: Run time of the job in seconds.
      type: int
    verdict:
      description: V(succeeded), V(failed), V(unknown) or V(active).
      type: str
    failure_class:
      description: Short name of the kind of failure, or of the first gate that did not pass.
      type: str
    cause:
      description: The failure in the log that explains the others best, with name, cause, remedy and evidence.
      type: dict
    message:
      description: What is wrong and what to do about it.
      type: str
    retry_sensible:
      description: Whether the same run has a fair chance when submitted again, as after the failure of a node.
      type: bool
    gpu_hours:
      description: Nodes x GPUs per node x hours of the job.
      type: float
    steps_done:
      description: The last training step that the log shows.
      type: int
    steps:
      description: The steps that were asked for.
      type: int
    gates:
      description: Each gate with name, passed (null when it cannot be told), evidence and message.
      type: list
      elements: dict
    metrics:
      description: What was measured, each with unit, mean, standard deviation, count and source.
      type: dict
    progress:
      description: For a run that has not ended, how far it is.
      type: dict
    logs:
      description: Paths of the logs by stream.
      type: dict
  sample:
    - {"name": "gpt-7b-improved-n2", "job_id": "181", "state": "COMPLETED", "verdict": "succeeded", "steps_done": 2000}
queries:
  description: How many times squeue, sacct and scontrol were called.
  returned: always
  type: int
  sample: 0
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import limits_spec, slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._run_result import run_run_result


def main() -> None:
    spec = dict(slurm_spec(), **limits_spec())
    spec.update(
        run_dirs={"type": "list", "elements": "path", "required": True},
        log_timeout={"type": "float", "default": 60.0},
        fail_unless_succeeded={"type": "bool", "default": True},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    result = run_run_result(module.params, module.check_mode)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
