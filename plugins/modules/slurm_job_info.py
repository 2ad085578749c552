#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job_info
short_description: Tell the state, the verdict and the progress of Slurm jobs
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Asks the queue and the accounting once for all jobs, whatever their number, and tells what each one's state means.
  - A run whose outcome is on record is told from the record, without asking Slurm.
extends_documentation_fragment:
  - dgxc.workloads.slurm
  - dgxc.workloads.limits
options:
  run_dirs:
    description: Folders of runs; the newest attempt of each is told.
    type: list
    elements: path
  job_ids:
    description: Ids of jobs, as C(sbatch) gave them.
    type: list
    elements: str
  runs_root:
    description: Tell all runs below this folder, which holds C(<workload>/<run>).
    type: path
  progress:
    description: Whether to read the end of the logs of running jobs for the step reached.
    type: bool
    default: false
  gone_for:
    description:
      - For a caller that watches, by job id, for how many seconds it has seen the queue answer without the job.
      - Without it, the time since the job's recorded end is used.
    type: dict
attributes:
  check_mode:
    support: full
    description: Changes nothing at any time.
  diff_mode:
    support: none
    description: There is nothing to show.
  idempotent:
    support: full
    description: Changes nothing at any time.
seealso:
  - module: dgxc.workloads.slurm_job
  - module: dgxc.workloads.slurm_job_wait
"""

EXAMPLES = r"""
- name: Look at two jobs
  dgxc.workloads.slurm_job_info:
    job_ids: ["181", "182"]
    environment_modules: [slurm]
  register: look

- name: Show the steps of all runs of the user
  dgxc.workloads.slurm_job_info:
    runs_root: /lustre/fs0/scratch/demo-user/runs
    progress: true
"""

RETURN = r"""
jobs:
  description: One entry per run or job, in the order asked for.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the run, or C(job ID) for a bare id.
      type: str
    run_dir:
      description: Folder of the run, null for a bare id.
      type: str
    attempt:
      description: Number of the newest attempt, null for a bare id or when there is none.
      type: int
    attempt_dir:
      description: Folder of the newest attempt.
      type: str
    job_id:
      description: Id of the job, null when there is none.
      type: str
    cluster:
      description: The cluster that took the job, where Slurm names one.
      type: str
    work_dir:
      description: The job's working folder as Slurm tells it.
      type: str
    state:
      description: Slurm's word for the state, without additions such as C(by UID).
      type: str
    reason:
      description: Why the job is pending.
      type: str
    exit_code:
      description: Exit code of the batch script.
      type: int
    signal:
      description: Signal that ended the batch script, 0 for none.
      type: int
    derived_exit_code:
      description: Highest exit code of all steps.
      type: int
    derived_signal:
      description: The signal that goes with it.
      type: int
    submit_time:
      description: Seconds since the epoch.
      type: int
    start_time:
      description: Seconds since the epoch.
      type: int
    end_time:
      description: Seconds since the epoch.
      type: int
    elapsed:
      description: Run time in seconds.
      type: int
    nodes:
      description: Names of the job's nodes.
      type: list
      elements: str
    restarts:
      description: How often the job was requeued.
      type: int
    steps:
      description: The job's steps, each with id, name, state, exit_code, signal, nodes and tasks (counts).
      type: list
      elements: dict
    cancelled_by:
      description: User id of whoever cancelled the job.
      type: int
    verdict:
      description: V(active), V(succeeded), V(failed) or V(unknown).
      type: str
    failure_class:
      description: Short name of the kind of failure, empty when there is none.
      type: str
    message:
      description: A sentence about a failure or a doubt.
      type: str
    advice:
      description: What helps against the reason of a pending job.
      type: str
    retry_sensible:
      description: Whether the same job has a fair chance when submitted again.
      type: bool
    in_queue:
      description: Whether the queue lists the job as living; null when it did not answer.
      type: bool
    pending_kind:
      description: For a pending job, V(waiting), V(waiting_with_deadline) or V(stuck).
      type: str
    pending_grace:
      description: Seconds for which a stuck reason is tolerated.
      type: float
    queue_answer:
      description: V(answered) or V(no_answer); empty when the queue was not asked.
      type: str
    accounting_answer:
      description: V(answered), V(no_answer) or V(disabled); empty when the accounting was not asked.
      type: str
    progress:
      description: >-
        For a running job with O(progress=true), step, total, seconds_per_step, loss, elapsed_seconds and
        remaining_seconds, as far as the log tells them.
      type: dict
    logs:
      description: Paths of the logs by stream.
      type: dict
    log_tail:
      description: Last lines of the log of a job that failed.
      type: list
      elements: str
    recorded:
      description: Whether this comes from the record of a finished run.
      type: bool
  sample:
    - {"name": "gpt-7b-improved-n2", "job_id": "181", "state": "RUNNING", "verdict": "active", "nodes": ["gpu001",
      "gpu002"]}
errors:
  description: One line per query that got no answer.
  returned: always
  type: list
  elements: str
  sample: ["slurm_load_jobs error: Unable to contact slurm controller (connect failure)"]
query_seconds:
  description: How long the queries took.
  returned: always
  type: float
  sample: 0.04
queries:
  description: How many times squeue, sacct and scontrol were called.
  returned: always
  type: int
  sample: 2
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import limits_spec, slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._job_info import run_slurm_job_info


def main() -> None:
    spec = dict(slurm_spec(), **limits_spec())
    spec.update(
        run_dirs={"type": "list", "elements": "path"},
        job_ids={"type": "list", "elements": "str"},
        runs_root={"type": "path"},
        progress={"type": "bool", "default": False},
        gone_for={"type": "dict"},
    )
    module = AnsibleModule(
        argument_spec=spec,
        supports_check_mode=True,
        mutually_exclusive=[("run_dirs", "job_ids", "runs_root")],
        required_one_of=[("run_dirs", "job_ids", "runs_root")],
    )
    result = run_slurm_job_info(module.params)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
