#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job
short_description: Submit Slurm batch jobs, each at most once
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Makes sure that each given run has a Slurm job, and never two living ones, whatever was killed, cut off or
    repeated before.
  - A run is a folder on shared storage. Each submission is an attempt, a folder C(attempt-N) in it that holds the
    files,
    the intent to submit, Slurm's answer and, later, the result. C(sbatch) is called once per attempt folder, with
    C(--chdir) to it, so a job whose answer was lost is found again by its working folder.
  - A run whose newest attempt has a job is adopted or reported, not submitted.
  - Many runs are one module execution and one query of queue and accounting.
extends_documentation_fragment:
  - dgxc.workloads.slurm
  - dgxc.workloads.limits
options:
  jobs:
    description:
      - The runs. Instead of this list, the options of one run can be given directly.
    type: list
    elements: dict
    suboptions:
      run_dir:
        description:
          - Absolute path of the run's folder on shared storage. It is made when it does not exist.
        type: path
      name:
        description:
          - Name of the run, for people. Letters, digits, dots, underscores and dashes, at most 64.
        type: str
      key:
        description:
          - Fingerprint of everything that changes the result. A folder that holds a run with another key is refused.
        type: str
        default: ''
      script:
        description:
          - The batch script, either the name of one of O(files), or the absolute path of a file on the cluster, which
            is
            copied into the attempt folder.
        type: str
      files:
        description:
          - Text files of the attempt folder, by relative path. C(@ATTEMPT_DIR@) in them becomes the folder's path.
        type: dict
        default: {}
      directories:
        description:
          - Further folders to make in the attempt folder, as relative paths.
        type: list
        elements: str
        default: []
      options:
        description:
          - Long options of C(sbatch) without dashes. V(true) gives a flag, V(false) and null leave the option out, a
            list is
            joined by commas. They beat the script's own directives.
          - Unless given here, C(open-mode) is V(append), so that a requeue does not truncate the log.
        type: dict
        default: {}
      environment:
        description:
          - Environment variables for the job, handed to C(sbatch) in its environment. Not for secrets.
        type: dict
        default: {}
      resubmit:
        description:
          - What to do with a run whose newest attempt has ended. V(never) reports it, V(on_failure) makes another
            attempt
            when it failed, V(always) makes another attempt in any case.
        type: str
        choices: [never, on_failure, always]
        default: never
      max_attempts:
        description:
          - How many attempts with a job a run may have.
        type: int
        default: 3
      retry_on_policy_limit:
        description:
          - Whether a submission that violates a limit of account or QOS is repeated for a short while.
        type: bool
        default: false
      after:
        description:
          - The name of another of the O(jobs), whose job has to end, in whatever way, before this one's begins.
          - A job that has ended already, or that does not exist, is not waited for.
        type: str
        default: ""
      spec:
        description:
          - What else the record shall tell about the run (workload, commits, logs, expectations).
        type: dict
        default: {}
  run_dir:
    description: See O(jobs[].run_dir).
    type: path
  name:
    description: See O(jobs[].name).
    type: str
  key:
    description: See O(jobs[].key).
    type: str
    default: ''
  script:
    description: See O(jobs[].script).
    type: str
  files:
    description: See O(jobs[].files).
    type: dict
    default: {}
  directories:
    description: See O(jobs[].directories).
    type: list
    elements: str
    default: []
  options:
    description: See O(jobs[].options).
    type: dict
    default: {}
  environment:
    description: See O(jobs[].environment).
    type: dict
    default: {}
  resubmit:
    description: See O(jobs[].resubmit).
    type: str
    choices: [never, on_failure, always]
    default: never
  max_attempts:
    description: See O(jobs[].max_attempts).
    type: int
    default: 3
  retry_on_policy_limit:
    description: See O(jobs[].retry_on_policy_limit).
    type: bool
    default: false
  after:
    description: See O(jobs[].after).
    type: str
    default: ""
  spec:
    description: See O(jobs[].spec).
    type: dict
    default: {}
  state:
    description:
      - V(submitted) makes sure that each run has a job. V(cancelled) cancels the living jobs of the runs and waits
        until the
        queue confirms it.
    type: str
    choices: [submitted, cancelled]
    default: submitted
  absence_window:
    description:
      - Seconds for which neither queue nor accounting may know a job whose submission is unclear, before the run is
        submitted once more.
    type: float
    default: 60.0
attributes:
  check_mode:
    support: full
    description: Rehearses with C(sbatch --test-only) in a temporary folder and changes nothing.
  diff_mode:
    support: full
    description: >-
      Shows the script and the other files of every job that is, or would be, submitted; what several have in common,
      once.
  idempotent:
    support: full
    description: A second run submits nothing, unless O(resubmit=always) is asked for.
seealso:
  - module: dgxc.workloads.slurm_job_info
  - module: dgxc.workloads.slurm_job_wait
"""

EXAMPLES = r"""
- name: Submit a script that lies on the cluster
  dgxc.workloads.slurm_job:
    run_dir: /lustre/fs0/scratch/demo-user/runs/hello/first
    name: first
    script: /lustre/fs0/scratch/demo-user/hello.sh
    options:
      nodes: 2
      time: "0-00:10:00"
    environment_modules: [slurm]

- name: Submit two runs in one call, with their scripts
  dgxc.workloads.slurm_job:
    jobs:
      - run_dir: /lustre/fs0/scratch/demo-user/runs/hello/one-node
        name: one-node
        script: job.sh
        files: {job.sh: "#!/bin/bash\nsrun hostname\n"}
        options: {nodes: 1}
      - run_dir: /lustre/fs0/scratch/demo-user/runs/hello/two-nodes
        name: two-nodes
        script: job.sh
        files: {job.sh: "#!/bin/bash\nsrun hostname\n"}
        options: {nodes: 2}
        resubmit: on_failure

- name: Cancel what runs for a run
  dgxc.workloads.slurm_job:
    run_dir: /lustre/fs0/scratch/demo-user/runs/hello/first
    name: first
    state: cancelled
"""

RETURN = r"""
jobs:
  description: One entry per run, in the order given.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the run.
      type: str
    run_dir:
      description: The run's folder, without links.
      type: str
    attempt:
      description: Number of the newest attempt.
      type: int
    attempt_dir:
      description: Folder of the newest attempt, the job's working folder.
      type: str
    job_id:
      description: Id of the job, null when there is none.
      type: str
    cluster:
      description: The cluster that took the job, where Slurm names one.
      type: str
    state:
      description: Slurm's word for the job's state, where it is known.
      type: str
    verdict:
      description: V(active), V(succeeded), V(failed) or V(unknown).
      type: str
    failure_class:
      description: Short name of the kind of failure, empty when there is none.
      type: str
    action:
      description: >-
        What was done: V(submitted), V(adopted) (a living job was found), V(unchanged) (it has ended), V(cancelled),
        V(refused), V(unknown) (the outcome of a submission cannot be told), or, in check mode, V(planned).
      type: str
    changed:
      description: Whether anything was changed for this run.
      type: bool
    message:
      description: A sentence about what was done or found.
      type: str
    warnings:
      description: What Slurm or the site's filters printed besides.
      type: list
      elements: str
  sample:
    - {"name": "first", "run_dir": "/lustre/fs0/scratch/demo-user/runs/hello/first", "attempt": 1, "job_id": "181",
       "attempt_dir": "/lustre/fs0/scratch/demo-user/runs/hello/first/attempt-1", "cluster": null, "state": "PENDING",
       "verdict": "active", "failure_class": "", "action": "submitted", "changed": true, "message": "", "warnings": []}
queries:
  description: How many times squeue, sacct and scontrol were called.
  returned: always
  type: int
  sample: 2
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import limits_spec, slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._job_submit_module import job_spec, run_slurm_job


def main() -> None:
    spec = dict(job_spec(), **slurm_spec())
    spec.update(limits_spec())
    spec.update(
        jobs={"type": "list", "elements": "dict", "options": job_spec()},
        state={"type": "str", "choices": ["submitted", "cancelled"], "default": "submitted"},
        absence_window={"type": "float", "default": 60.0},
    )
    module = AnsibleModule(
        argument_spec=spec,
        supports_check_mode=True,
        mutually_exclusive=[("jobs", "run_dir")],
        required_one_of=[("jobs", "run_dir")],
    )
    result = run_slurm_job(module.params, module.check_mode)
    for warning in result.pop("module_warnings"):
        module.warn(warning)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
