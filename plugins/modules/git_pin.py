#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: git_pin
short_description: Keep clones at one commit each, without losing anybody's work
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Clones repositories and puts each at the commit it is pinned to, checked out with a detached HEAD.
  - A clone that already stands at its pin with no edited file is left alone, and the network is not used.
  - Edited files and commits that no remote has are never lost unless O(discard_local_changes=true); even then,
    branches keep their commits.
  - A clone appears under its name only when it is complete, so an interrupted or a concurrent run never leaves or sees
    half a clone. One that another program left half-made is moved aside, or removed if there is nothing in it, and
    made again.
extends_documentation_fragment:
  - dgxc.workloads.progress
options:
  repositories:
    description: The repositories. All are handled in one execution, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: A name for messages.
        type: str
        required: true
      url:
        description: The address, as C(git clone) takes it.
        type: str
        required: true
      commit:
        description: The full commit id, 40 hexadecimal digits.
        type: str
        required: true
      path:
        description: The absolute path of the clone.
        type: str
        required: true
  discard_local_changes:
    description:
      - Give up edited files, and leave local commits behind.
    type: bool
    default: false
  timeout:
    description: The most seconds that one git command may take.
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
    description: Looks and decides as in a real run and changes nothing. Whether a commit can be fetched is not tried.
  diff_mode:
    support: full
    description: Shows path, commit and address of each repository before and after.
"""

EXAMPLES = r"""
- name: Pin the launcher
  dgxc.workloads.git_pin:
    repositories:
      - name: nemo-megatron-launcher
        url: https://github.com/nvidia/nemo-megatron-launcher
        commit: 51df3f36f5bc51b7bbdc3f540a43b01cdc28c8be
        path: /lustre/fs0/scratch/demo-user/workspace/nemo-megatron-launcher
"""

RETURN = r"""
repositories:
  description: What was found and done, in the order of O(repositories).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name given.
      type: str
      sample: nemo-megatron-launcher
    path:
      description: The path given.
      type: str
      sample: /lustre/fs0/scratch/demo-user/workspace/nemo-megatron-launcher
    commit:
      description: The full id of the commit that HEAD is at (in check mode, that it would be at).
      type: str
      sample: 51df3f36f5bc51b7bbdc3f540a43b01cdc28c8be
    action:
      description: One of V(unchanged), V(cloned), V(moved), V(relinked) and V(repaired).
      type: str
      sample: unchanged
    present:
      description: Whether the clone is there at the end; false only in check mode.
      type: bool
      sample: true
    set_aside:
      description: Where a half-made clone with files in it was moved to, else null.
      type: str
      sample: null
"""

import functools
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import progress_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._git_pin import GitProblem, Pin, PinnedClone, pin_problem
from ansible_collections.dgxc.workloads.plugins.module_utils._process import cleaned, run
from ansible_collections.dgxc.workloads.plugins.module_utils._progress import Progress


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **progress_spec(),
            "repositories": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "url": {"type": "str", "required": True},
                    "commit": {"type": "str", "required": True},
                    "path": {"type": "str", "required": True},
                },
            },
            "discard_local_changes": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    pins = [Pin(**repository) for repository in module.params["repositories"]]
    problems = [problem for problem in map(pin_problem, pins) if problem]
    if problems:
        module.fail_json(msg=" ".join(problems))
    with Progress(module.params["progress_path"]) as progress:
        pin_all(module, pins, progress)


def pin_all(module: AnsibleModule, pins: list[Pin], progress: Progress) -> None:
    clone = PinnedClone(
        functools.partial(run, listen=progress.tell),
        cleaned(os.environ),
        module.params["discard_local_changes"],
        module.params["timeout"],
    )
    results: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for pin in pins:
        progress.begin(pin.name)
        try:
            outcome = clone.ensure(pin, module.check_mode)
        except GitProblem as problem:
            module.fail_json(msg=str(problem), repositories=results)
        except OSError as error:
            module.fail_json(
                msg="{0} cannot be written: {1}.".format(error.filename or pin.path, error.strerror),
                repositories=results,
            )
        if outcome.set_aside:
            module.warn(
                "An interrupted clone with files in it was moved to {0}; remove it when nothing"
                " in it is needed.".format(outcome.set_aside)
            )
        before[pin.name], after[pin.name] = outcome.before, outcome.after
        results.append(
            {
                "name": pin.name,
                "path": pin.path,
                "commit": pin.commit,
                "action": outcome.action,
                "present": not module.check_mode or outcome.action not in ("cloned", "repaired"),
                "set_aside": outcome.set_aside,
            }
        )
    module.exit_json(
        changed=any(result["action"] != "unchanged" for result in results),
        repositories=results,
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()
