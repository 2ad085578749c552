#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_info
short_description: Tell the version of Enroot, and compare it with another one
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - An image is best made by the Enroot that will run it. This module tells the version on the host it is executed on.
extends_documentation_fragment:
  - dgxc.workloads.environment_modules
options:
  enroot:
    description: Name or path of Enroot.
    type: str
    default: enroot
  environment_modules:
    description: Environment modules to load before.
    type: list
    elements: str
    default: []
  environment:
    description: Further variables for Enroot.
    type: dict
    default: {}
  other:
    description: A version to compare with, such as that of the build host.
    type: str
    default: ""
  other_host:
    description: The host of that version, for messages.
    type: str
    default: the build host
  check:
    description: Whether both must have the same first number, be exactly the same, or may differ.
    type: str
    choices: [major, exact, none]
    default: major
attributes:
  check_mode:
    support: full
    description: Nothing is ever written.
  diff_mode:
    support: none
    description: Nothing is ever written.
"""

EXAMPLES = r"""
- name: Compare
  dgxc.workloads.enroot_info:
    other: 3.4.1
"""

RETURN = r"""
version:
  description: The version.
  returned: success
  type: str
  sample: 3.4.1
"""

import os
import socket

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot, _squashfs_image
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import asker, enroot_environment
from ansible_collections.dgxc.workloads.plugins.module_utils._process import EnvironmentProblem, run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "enroot": {"type": "str", "default": "enroot"},
            "environment_modules": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "other": {"type": "str", "default": ""},
            "other_host": {"type": "str", "default": "the build host"},
            "check": {"type": "str", "choices": ["major", "exact", "none"], "default": "major"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        environment = enroot_environment(run, os.environ, given)
        settings = _squashfs_image.Settings(enroot=given["enroot"], environment=environment)
        store = _squashfs_image.ImageStore(run, settings, asker(environment, "", ""), module.warn)
        version = store.version()
    except (EnvironmentProblem, _squashfs_image.ImageProblem) as problem:
        module.fail_json(msg=str(problem))
    if given["other"]:
        refused, warning = _enroot.compare_versions(
            version, socket.gethostname(), given["other"], given["other_host"], given["check"]
        )
        if refused:
            module.fail_json(msg=refused, version=version)
        if warning:
            module.warn(warning)
    module.exit_json(changed=False, version=version)


if __name__ == "__main__":
    main()
