#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_folders
short_description: Make folders below a root on shared storage
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Sees that the root is there, is written canonically and can be written to, and makes the folders below it, all in
    one execution.
  - Never makes the root itself. A root that is missing is a wrong path or a storage that is not mounted, and a folder
    made in its place would hide that.
options:
  root:
    description: The absolute, canonical path of a folder that the user owns on storage that all nodes share.
    type: str
    required: true
  folders:
    description: Paths of the folders, relative to O(root).
    type: list
    elements: str
    default: []
  setting:
    description: The variable that messages about the root tell the user to set.
    type: str
    default: dgxc_shared_root
attributes:
  check_mode:
    support: full
    description: Looks as in a real run and makes nothing.
  diff_mode:
    support: full
    description: Shows which folders are there before and after.
"""

EXAMPLES = r"""
- name: Make the shared folders
  dgxc.workloads.shared_folders:
    root: /lustre/fs0/scratch/demo-user
    folders: [workspace, images, runs]
"""

RETURN = r"""
made:
  description: The absolute paths of the folders that were (in check mode, would be) made.
  returned: success
  type: list
  elements: str
  sample: [/lustre/fs0/scratch/demo-user/images]
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._shared_folders import (
    FolderProblem,
    check_root,
    make,
    missing,
    writable,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "str", "required": True},
            "folders": {"type": "list", "elements": "str", "default": []},
            "setting": {"type": "str", "default": "dgxc_shared_root"},
        },
        supports_check_mode=True,
    )
    root, setting = module.params["root"], module.params["setting"]
    try:
        check_root(root, setting)
        absent = missing(root, module.params["folders"])
        if absent and not module.check_mode:
            make(root, absent, setting)
    except FolderProblem as problem:
        module.fail_json(msg=str(problem))
    writing = os.access(root, os.W_OK | os.X_OK) if module.check_mode else writable(root)
    if not writing:
        module.fail_json(
            msg="{0} is {1!r}, but nothing can be written there: choose a folder that you own, or free your"
            " quota.".format(setting, root)
        )
    module.exit_json(
        changed=bool(absent),
        made=absent,
        diff={
            "before": dict.fromkeys(absent, "absent"),
            "after": dict.fromkeys(absent, "folder"),
        },
    )


if __name__ == "__main__":
    main()
