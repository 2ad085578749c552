#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_nodes
short_description: Check a cluster's compute nodes through one short job
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Submits one job of some seconds that looks at compute nodes, waits for it, and judges what it saw - whether the
    shared folder is the same there, Pyxis and Enroot, GPUs and driver, the sources of mounts, the network, the clock.
  - What it saw is kept in C(preflight/nodes.json) below the shared folder, and a look without a fault holds for a day,
    so the job runs at most once a day, and again when something else is asked. A job that does not start in time is
    cancelled, and not tried again for an hour.
options:
  shared_root:
    description: The folder on shared storage that the user owns.
    type: path
    required: true
  nodes:
    description: How many nodes the job looks at.
    type: int
    default: 1
  gpus:
    description: How many GPUs of each node the job asks for, which nvidia-smi has to see; 0 for none.
    type: int
    default: 0
  options:
    description: Long options of sbatch for the job.
    type: dict
    default: {}
  paths:
    description: Files and folders that containers will mount.
    type: list
    elements: str
    default: []
  urls:
    description: Addresses that the nodes have to reach.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds for which the job may wait to begin.
    type: float
    default: 300
  force:
    description: Look even if an earlier look still holds.
    type: bool
    default: false
extends_documentation_fragment:
  - dgxc.workloads.slurm
attributes:
  check_mode:
    support: full
    description: Judges an earlier look, if there is one that holds, and submits nothing.
  diff_mode:
    support: none
    description: There is nothing to show.
seealso:
  - module: dgxc.workloads.preflight_login
"""

EXAMPLES = r"""
- name: Look at a compute node
  dgxc.workloads.preflight_nodes:
    shared_root: /lustre/fs0/scratch/demo-user
    gpus: 1
    options:
      gpus-per-node: 1
    paths: [/cm/shared]
    environment_modules: [slurm]
  register: look
"""

RETURN = r"""
checks:
  description: The checks, as M(dgxc.workloads.preflight_login) returns them.
  returned: always
  type: list
  elements: dict
  sample:
    - {"id": "node.pyxis", "verdict": "ok", "evidence": "srun takes --container-image", "remedy": ""}
looked:
  description: Whether a job was submitted.
  returned: always
  type: bool
  sample: true
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight_nodes as nodes
from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight import ERROR, warning
from ansible_collections.dgxc.workloads.plugins.module_utils._process import run
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import SlurmNotFound, find_environment


def main() -> None:
    spec = dict(slurm_spec())
    spec.update(
        shared_root={"type": "path", "required": True},
        nodes={"type": "int", "default": 1},
        gpus={"type": "int", "default": 0},
        options={"type": "dict", "default": {}},
        paths={"type": "list", "elements": "str", "default": []},
        urls={"type": "list", "elements": "str", "default": []},
        timeout={"type": "float", "default": 300.0},
        force={"type": "bool", "default": False},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    settings = module.params
    try:
        found = find_environment(run, os.environ, settings["slurm_bin_dir"], settings["environment_modules"])
    except SlurmNotFound as problem:
        module.fail_json(msg=str(problem))
    look = nodes.Look(nodes.Place(run, found, time.time, time.sleep), settings["shared_root"], settings)
    wanted = {"shared_root": settings["shared_root"], "gpus": settings["gpus"]}
    questions = nodes.asked(settings)
    record = look.record()
    holds = not settings["force"] and nodes.answers(record, questions, time.time())
    checks = nodes.judge(record, questions, wanted, time.time()) if holds else []
    waiting = record.get("outcome") == "waiting"
    fault = any(check.verdict == ERROR for check in checks)
    looked = False
    if module.check_mode and (not holds or fault):
        checks = [
            warning(
                "node.job", "no job looked at a compute node yet, and a rehearsal submits none", "run without --check"
            )
        ]
    elif not holds or (fault and not waiting):
        try:
            record = look.make(nodes.together(record, questions, time.time()))
        except OSError as problem:
            module.fail_json(msg="{0} cannot be used: {1}.".format(settings["shared_root"], problem.strerror))
        checks = nodes.judge(record, questions, wanted, time.time())
        looked = True
    module.exit_json(changed=False, checks=[check._asdict() for check in checks], looked=looked)


if __name__ == "__main__":
    main()
