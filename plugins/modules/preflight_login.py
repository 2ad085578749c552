#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_login
short_description: Check a cluster from its login node
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Makes all checks of a cluster that can be made from its login node, in one execution, and changes nothing.
  - Looks for Slurm's commands; asks Slurm for its version, partitions, nodes, GPUs, accounts, QOS and reservations;
    lets C(sbatch --test-only) judge the request, and if that is refused, finds the request that would be taken; looks
    for Pyxis and Enroot, at the shared storage, the image, the sources of mounts, Git remotes and web servers.
options:
  state:
    description:
      - V(checked) makes the checks.
      - V(described) only tells what the cluster is, for a new inventory.
    type: str
    choices: [checked, described]
    default: checked
  shared_root:
    description: The folder on shared storage that the user owns.
    type: str
  space_gb:
    description: Gigabytes that have to be free there.
    type: float
    default: 100
  account:
    description: Slurm account; empty for the default.
    type: str
    default: ""
  partition:
    description: Slurm partition, or several with commas; empty for the default.
    type: str
    default: ""
  qos:
    description: Quality of service; empty for the default.
    type: str
    default: ""
  reservation:
    description: Reservation; empty for none.
    type: str
    default: ""
  constraint:
    description: Features that nodes must have; empty for none.
    type: str
    default: ""
  nodes:
    description: Nodes that are wanted.
    type: int
    default: 1
  gpus_per_node:
    description: GPUs of each node that are wanted; 0 for none.
    type: int
    default: 0
  gres_style:
    description: How GPUs are asked for now, so that a remedy can name the other way.
    type: str
    choices: [gpus_per_node, gres]
    default: gpus_per_node
  gpu_type:
    description: The GPUs' type in Slurm; empty where none is named.
    type: str
    default: ""
  time_limit:
    description: The time limit that is wanted, as Slurm takes it; empty for none.
    type: str
    default: ""
  options:
    description: Long options of the request for C(sbatch --test-only); V(true) for one without a value.
    type: dict
    default: {}
  script:
    description: The text of the very script that will be submitted; empty for a script without directives.
    type: str
    default: ""
  image:
    description: A container image, as C(registry#path:tag) or the absolute path of a C(.sqsh); empty for none.
    type: str
    default: ""
  paths:
    description: Files and folders that containers will mount.
    type: list
    elements: str
    default: []
  enroot_environment:
    description: Variables for Enroot alone, such as C(ENROOT_CONFIG_PATH). Not for secrets.
    type: dict
    default: {}
  credentials_follow:
    description: Whether credentials for the registry may come from elsewhere - the play puts them into Enroot's file
      later, or the compute nodes' Enroot finds others. A registry that refuses to show the image is a warning then.
    type: bool
    default: false
  pyxis_options:
    description: Options of srun that Pyxis has to know, without dashes in front.
    type: list
    elements: str
    default: [container-image]
  git_remotes:
    description: Git repositories that have to be reachable.
    type: list
    elements: dict
    default: []
    suboptions:
      url:
        description: The repository.
        type: str
        required: true
      path:
        description: Where it is cloned to.
        type: str
        default: ""
      commit:
        description: The commit that is wanted. Where O(git_remotes[].path) stands on it, the repository is not asked.
        type: str
        default: ""
  urls:
    description: Addresses that have to be reachable.
    type: list
    elements: dict
    default: []
    suboptions:
      url:
        description: The address.
        type: str
        required: true
      unless:
        description: A path. Where it is there, the address is not asked.
        type: str
        default: ""
  earlier_runs:
    description: Paths of run folders up to the last dash, behind which stand the 12 digits of a key. RV(resumes) tells
      whether all of these runs have been submitted before.
    type: list
    elements: str
    default: []
  resubmit:
    description: Whether these runs are submitted again when they have ended. One that will be has not been submitted,
      for RV(resumes).
    type: str
    choices: [never, on_failure, always]
    default: never
  max_attempts:
    description: How many jobs such a run may have with O(resubmit); 0 for no limit.
    type: int
    default: 0
  environment:
    description: Variables for all of it, such as those of proxies. Not for secrets.
    type: dict
    default: {}
  controller_time:
    description: The controller's time in seconds since the epoch, for the comparison of clocks.
    type: float
  ansible_core:
    description: The controller's version of ansible-core, which decides about the supported versions of Python.
    type: str
extends_documentation_fragment:
  - dgxc.workloads.slurm
attributes:
  check_mode:
    support: full
    description: Changes nothing at any time. An image or a folder that is missing is a warning in check mode, since a
      rehearsal does not make it.
  diff_mode:
    support: none
    description: There is nothing to show.
seealso:
  - module: dgxc.workloads.preflight_nodes
"""

EXAMPLES = r"""
- name: Look whether this cluster can run a training on two nodes
  dgxc.workloads.preflight_login:
    shared_root: /lustre/fs0/scratch/demo-user
    nodes: 2
    gpus_per_node: 8
    options:
      nodes: 2
      gpus-per-node: 8
      exclusive: true
    environment_modules: [slurm]
  register: look
"""

RETURN = r"""
checks:
  description: The checks, in the order in which they were made.
  returned: when O(state=checked)
  type: list
  elements: dict
  contains:
    id:
      description: Name of the check.
      type: str
    verdict:
      description: One of ok, warning, error.
      type: str
    evidence:
      description: What was seen.
      type: str
    remedy:
      description: What to do; empty where nothing is to be done.
      type: str
  sample:
    - {"id": "slurm.version", "verdict": "ok", "evidence": "22.05.8", "remedy": ""}
resumes:
  description: Whether runs under all names of O(earlier_runs) have been submitted before.
  returned: when O(state=checked)
  type: bool
  sample: false
facts:
  description: What the cluster is, such as C(partitions), C(accounts), C(versions).
  returned: always
  type: dict
  sample: {"user": "demo-user", "versions": {"slurm": "22.05.8"}}
"""

import getpass
import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import asker
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_login import (
    LoginNode,
    Place,
    fetch_status,
    free_bytes,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_runs import resumes
from ansible_collections.dgxc.workloads.plugins.module_utils._process import run


def main() -> None:
    spec = dict(slurm_spec())
    text = {"type": "str", "default": ""}
    spec.update({name: dict(text) for name in ("account", "partition", "qos", "reservation", "constraint")})
    spec.update({name: dict(text) for name in ("gpu_type", "time_limit", "script", "image")})
    spec.update({name: {"type": "list", "elements": "str", "default": []} for name in ("paths", "earlier_runs")})
    address = {"type": "str", "required": True}
    more = {
        "git_remotes": {"url": address, "path": dict(text), "commit": dict(text)},
        "urls": {"url": address, "unless": dict(text)},
    }
    spec.update({name: {"type": "list", "elements": "dict", "default": [], "options": more[name]} for name in more})
    spec.update(
        state={"type": "str", "choices": ["checked", "described"], "default": "checked"},
        shared_root={"type": "str"},
        space_gb={"type": "float", "default": 100.0},
        nodes={"type": "int", "default": 1},
        gpus_per_node={"type": "int", "default": 0},
        gres_style={"type": "str", "choices": ["gpus_per_node", "gres"], "default": "gpus_per_node"},
        options={"type": "dict", "default": {}},
        enroot_environment={"type": "dict", "default": {}},
        credentials_follow={"type": "bool", "default": False},
        pyxis_options={"type": "list", "elements": "str", "default": ["container-image"]},
        environment={"type": "dict", "default": {}},
        resubmit={"type": "str", "choices": ["never", "on_failure", "always"], "default": "never"},
        max_attempts={"type": "int", "default": 0},
        controller_time={"type": "float"},
        ansible_core={"type": "str"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    place = Place(
        run, os.environ, getpass.getuser(), time.time, fetch_status, lambda found: asker(found, "", ""), free_bytes
    )
    login = LoginNode(place, dict(module.params, rehearsal=module.check_mode))
    if module.params["state"] == "described":
        module.exit_json(changed=False, facts=login.look_around())
    checks = [check._asdict() for check in login.checks()]
    again = resumes(*(module.params[name] for name in ("earlier_runs", "resubmit", "max_attempts")))
    module.exit_json(changed=False, checks=checks, facts=login.facts, resumes=again)


if __name__ == "__main__":
    main()
