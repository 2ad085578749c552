#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job_wait
short_description: Wait until Slurm jobs have ended, and fail unless all succeeded
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Looks at the jobs again and again from the controller. Between two looks nothing runs on the login node.
  - Each look is one call of queue and accounting for all jobs. The pause between looks grows with the time waited,
    from one
    second to O(poll_interval_max), and is never shorter than five times what the queries took.
  - An outage of the connection, of the controller or of the accounting is said once and survived. Nothing but
    O(on_timeout) and O(on_stuck) ever cancels a job. An interrupted wait is taken up again by running the task again.
  - Prints a line for every change, and a sign of life with the step reached, the time per step, the loss and the time
    left.
extends_documentation_fragment:
  - dgxc.workloads.slurm
  - dgxc.workloads.limits
options:
  run_dirs:
    description: Folders of runs; the newest attempt of each is waited for.
    type: list
    elements: path
  job_ids:
    description: Ids of jobs, as C(sbatch) gave them.
    type: list
    elements: str
  poll_interval_max:
    description: The longest pause between two looks, in seconds.
    type: float
    default: 30.0
  pending_timeout:
    description: Seconds for which a job may be pending while it is waited for; V(0) is no limit.
    type: float
    default: 0.0
  run_timeout:
    description: Seconds for which a job may run while it is waited for; V(0) is no limit beside Slurm's own.
    type: float
    default: 0.0
  unavailable_timeout:
    description: >-
      Seconds for which a job may pend because nodes or a partition are down or a budget is used up; V(0) is no
      limit.
    type: float
    default: 3600.0
  unreachable_timeout:
    description: Seconds for which the login node, or all of Slurm, may give no answer.
    type: float
    default: 3600.0
  heartbeat:
    description: The longest time without a line on the screen, in seconds; V(0) prints changes only.
    type: float
    default: 60.0
  on_timeout:
    description: What to do with a job that exceeds O(pending_timeout) or O(run_timeout). V(cancel) needs O(run_dirs).
    type: str
    choices: [leave, cancel]
    default: leave
  on_stuck:
    description: What to do with a pending job that will not start without a person. V(cancel) needs O(run_dirs).
    type: str
    choices: [leave, cancel]
    default: leave
attributes:
  check_mode:
    support: full
    description: Waits for nothing, because nothing was submitted.
  diff_mode:
    support: none
    description: There is nothing to show.
  idempotent:
    support: full
    description: Waiting for jobs that have ended returns at once.
seealso:
  - module: dgxc.workloads.slurm_job
  - module: dgxc.workloads.slurm_job_info
notes:
  - This is an action plugin; it holds one fork of the controller for each host that it waits for.
"""

EXAMPLES = r"""
- name: Wait for a run
  dgxc.workloads.slurm_job_wait:
    run_dirs:
      - /lustre/fs0/scratch/demo-user/runs/hello/first
    environment_modules: [slurm]

- name: Wait for a job at most an hour in the queue, and remove it after that
  dgxc.workloads.slurm_job_wait:
    run_dirs:
      - /lustre/fs0/scratch/demo-user/runs/hello/first
    pending_timeout: 3600
    on_timeout: cancel
"""

RETURN = r"""
jobs:
  description: >-
    One entry per job, in the order asked for, as M(dgxc.workloads.slurm_job_info) returns them. A job that the wait
    gave up has its C(verdict), C(failure_class) and C(message) changed accordingly.
  returned: always
  type: list
  elements: dict
  sample:
    - {"name": "gpt-7b-improved-n2", "job_id": "181", "state": "COMPLETED", "verdict": "succeeded"}
elapsed:
  description: Seconds waited.
  returned: always
  type: float
  sample: 71.4
looks:
  description: How many times Slurm was looked at.
  returned: always
  type: int
  sample: 18
msg:
  description: What did not succeed, with the logs and their last lines.
  returned: always
  type: str
  sample: all jobs succeeded
"""
