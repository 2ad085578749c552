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
    cancelled, which is a warning as a job that is interrupted is, and not tried again for an hour.
  - With O(run_dirs) it looks only if one of these runs is still to be submitted.
options:
  shared_root:
    description: The folder on shared storage that the user owns.
    type: path
    required: true
  nodes:
    description: How many nodes the job looks at; 0 for no look, which leaves RV(to_submit).
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
    elements: dict
    default: []
    suboptions:
      url:
        description: The address.
        type: str
        required: true
      unless:
        description: A path. Where the login node has it, nobody has to reach the address.
        type: str
        default: ""
  wished_urls:
    description: Addresses that the nodes should reach; if they do not, it is a warning.
    type: list
    elements: str
    default: []
  pyxis_options:
    description: Options of srun that Pyxis has to know on the nodes, without dashes in front.
    type: list
    elements: str
    default: [container-image]
  environment:
    description: Variables under which the nodes ask for addresses, such as those of proxies. Not for secrets.
    type: dict
    default: {}
  run_dirs:
    description: Folders of the runs that are about to be submitted. If all of them have been, no job is submitted and
      nothing is judged. Empty for a look in any case.
    type: list
    elements: str
    default: []
  resubmit:
    description: For folders of O(run_dirs), whether a run that has ended is submitted again - V(never), V(on_failure)
      or V(always). V(never) for one that is not named.
    type: dict
    default: {}
  max_attempts:
    description: For folders of O(run_dirs), how many jobs a run may have with O(resubmit). Without a limit for one that
      is not named.
    type: dict
    default: {}
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
to_submit:
  description: How many of O(run_dirs) have not been submitted yet, or will be again.
  returned: always
  type: int
  sample: 1
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight_nodes as nodes
from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight import ERROR, warning
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_runs import was_submitted
from ansible_collections.dgxc.workloads.plugins.module_utils._process import run
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import SlurmNotFound, find_environment


def main() -> None:
    spec = dict(slurm_spec())
    address = {"url": {"type": "str", "required": True}, "unless": {"type": "str", "default": ""}}
    spec.update(
        shared_root={"type": "path", "required": True},
        nodes={"type": "int", "default": 1},
        gpus={"type": "int", "default": 0},
        options={"type": "dict", "default": {}},
        paths={"type": "list", "elements": "str", "default": []},
        urls={"type": "list", "elements": "dict", "default": [], "options": address},
        timeout={"type": "float", "default": 300.0},
        force={"type": "bool", "default": False},
        environment={"type": "dict", "default": {}},
        resubmit={"type": "dict", "default": {}},
        max_attempts={"type": "dict", "default": {}},
    )
    for name in ("wished_urls", "run_dirs"):
        spec[name] = {"type": "list", "elements": "str", "default": []}
    spec["pyxis_options"] = {"type": "list", "elements": "str", "default": ["container-image"]}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    urls = [one["url"] for one in module.params["urls"] if not (one["unless"] and os.path.exists(one["unless"]))]
    settings = dict(module.params, urls=urls)
    policies, most = settings["resubmit"], settings["max_attempts"]
    to_submit = sum(
        not was_submitted(folder, policies.get(folder) or "never", int(most.get(folder) or 0))
        for folder in settings["run_dirs"]
    )
    if settings["nodes"] < 1 or (settings["run_dirs"] and not to_submit):
        module.exit_json(changed=False, checks=[], looked=False, to_submit=to_submit)
    try:
        found = find_environment(run, os.environ, settings["slurm_bin_dir"], settings["environment_modules"])
    except SlurmNotFound as problem:
        module.fail_json(msg=str(problem))
    look = nodes.Look(nodes.Place(run, found, time.time, time.sleep), settings["shared_root"], settings)
    wanted = {name: settings[name] for name in ("shared_root", "gpus", "urls", "wished_urls", "pyxis_options")}
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
    told = [check._asdict() for check in checks]
    module.exit_json(changed=False, checks=told, looked=looked, to_submit=to_submit)


if __name__ == "__main__":
    main()
