#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: squashfs_receive
short_description: The receiving side of dgxc.workloads.squashfs_upload
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - M(dgxc.workloads.squashfs_upload) calls this module on the cluster, before and after the transfer. It is of no use
    by itself.
extends_documentation_fragment:
  - dgxc.workloads.environment_modules
options:
  path:
    description: The absolute path of the image.
    type: path
    required: true
  step:
    description: V(begin) claims the image, V(finish) proves and names what was sent, V(give_up) releases the claim.
    type: str
    choices: [begin, finish, give_up]
    required: true
  claim:
    description: What V(begin) told, for the other steps.
    type: str
    default: ""
  part:
    description: The file that was written.
    type: path
  source:
    description: Where the image comes from.
    type: str
    default: ""
  content:
    description: The digest of what it was built from.
    type: str
    default: ""
  digest:
    description: The digest of its source.
    type: str
    default: ""
  arch:
    description: Its architecture, if it is not the host's.
    type: str
    default: ""
  size:
    description: Its bytes.
    type: int
    default: 0
  sha256:
    description: Its SHA-256.
    type: str
    default: ""
  enroot_version:
    description: The version of Enroot that made it.
    type: str
    default: ""
  claim_timeout:
    description: How many seconds to wait while somebody else makes the same image.
    type: int
    default: 7200
  stale_timeout:
    description: After how many seconds without a sign of life another upload is taken for dead.
    type: int
    default: 120
  environment_modules:
    description: Environment modules to load before.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: none
    description: M(dgxc.workloads.squashfs_upload) does not call it in check mode.
  diff_mode:
    support: none
    description: It tells facts, from which M(dgxc.workloads.squashfs_upload) makes the difference.
"""

EXAMPLES = r"""
- name: Claim an image
  dgxc.workloads.squashfs_receive:
    step: begin
    path: /lustre/fs0/scratch/demo-user/images/alma-24.01.sqsh
    source: dockerd://alma:24.01
    size: 17179869184
"""

RETURN = r"""
reception:
  description: Of V(begin), C(action), C(token), C(part), C(offset) and C(beat).
  returned: when O(step=begin)
  type: dict
image:
  description: Of V(finish), the image as RV(dgxc.workloads.squashfs_image#module:image) tells it.
  returned: when O(step=finish)
  type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _squashfs_image
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import enroot_environment
from ansible_collections.dgxc.workloads.plugins.module_utils._process import EnvironmentProblem, run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "step": {"type": "str", "choices": ["begin", "finish", "give_up"], "required": True},
            "claim": {"type": "str", "default": ""},
            "part": {"type": "path"},
            "source": {"type": "str", "default": ""},
            "content": {"type": "str", "default": ""},
            "digest": {"type": "str", "default": ""},
            "arch": {"type": "str", "default": ""},
            "size": {"type": "int", "default": 0},
            "sha256": {"type": "str", "default": ""},
            "enroot_version": {"type": "str", "default": ""},
            "claim_timeout": {"type": "int", "default": 7200},
            "stale_timeout": {"type": "int", "default": 120},
            "environment_modules": {"type": "list", "elements": "str", "default": []},
        },
    )
    given = module.params
    try:
        environment = enroot_environment(run, os.environ, given)
        settings = _squashfs_image.Settings(
            environment=environment,
            claim_timeout=given["claim_timeout"],
            stale_seconds=given["stale_timeout"],
            checksum=False,
        )
        reception = _squashfs_image.Reception(run, settings)
        wanted = _squashfs_image.Wanted(given["source"], given["content"], given["digest"], given["arch"])
        offer = _squashfs_image.Offer(given["size"], given["sha256"], given["enroot_version"])
        if given["step"] == "begin":
            told = reception.begin(given["path"], wanted, offer)
            look = _squashfs_image.look_at(given["path"], run, environment)
            module.exit_json(changed=False, reception=told, image=_squashfs_image.facts(given["path"], look))
        if given["step"] == "finish":
            look = reception.finish(given["path"], given["part"], given["claim"], wanted, offer)
            module.exit_json(changed=True, image=_squashfs_image.facts(given["path"], look))
        reception.give_up(given["path"], given["claim"])
        module.exit_json(changed=False)
    except (_squashfs_image.ImageProblem, EnvironmentProblem) as problem:
        module.fail_json(msg=str(problem))
    except OSError as error:
        module.fail_json(msg="{0}: {1}.".format(error.filename or given["path"], error.strerror or error))


if __name__ == "__main__":
    main()
