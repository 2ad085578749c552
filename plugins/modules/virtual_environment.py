#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_environment
short_description: Make Python virtual environments that are complete or not there
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Makes virtual environments with a Python of a wanted range of versions, which may come from an environment module,
    and installs requirements with pip.
  - A stamp in the environment tells what it was made from. While that is what is asked for, pip is not started and no
    network is used.
  - The path is a link to a folder beside it that is turned to a new build when everything is installed. An interrupted
    build is therefore never used, and two builds at once do not disturb each other.
extends_documentation_fragment:
  - dgxc.workloads.progress
  - dgxc.workloads.environment_modules
options:
  virtual_environments:
    description: The environments. All are handled in one execution, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: The absolute path of the environment.
        type: str
        required: true
      python:
        description: Name or absolute path of the Python to make it with.
        type: str
        default: python3
      requirements:
        description: Requirements as pip takes them, one for each entry, without options.
        type: list
        elements: str
        default: []
      requirements_file:
        description: Absolute path, on the same host, of a requirements file. The environment follows its content.
        type: str
        default: ""
      python_minimum:
        description: The oldest version that will do, such as V(3.8); no limit if empty.
        type: str
        default: ""
      python_below:
        description: The first version that will not do any more, such as V(3.11); no limit if empty.
        type: str
        default: ""
      python_setting:
        description: The variable that messages about the Python tell the user to set.
        type: str
        default: workspace_virtual_environments.python
  environment_modules:
    description: Environment modules to load in a login shell before the Python is looked for.
    type: list
    elements: str
    default: []
  timeout:
    description: The most seconds that one command may take.
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
    description: Looks and decides as in a real run, including the version of the Python, and changes nothing.
  diff_mode:
    support: full
    description: Shows what each environment was made from and would be made from.
"""

EXAMPLES = r"""
- name: Make the launcher's environment
  dgxc.workloads.virtual_environment:
    virtual_environments:
      - path: /lustre/fs0/scratch/demo-user/workspace/venvs/launcher
        python: python3.9
        python_minimum: "3.8"
        python_below: "3.11"
        requirements:
          - hydra-core>=1.2.0,<1.3
          - omegaconf>=2.2,<2.3
    environment_modules: [python39]
"""

RETURN = r"""
virtual_environments:
  description: What was found and done, in the order of O(virtual_environments).
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The path given.
      type: str
      sample: /lustre/fs0/scratch/demo-user/workspace/venvs/launcher
    python:
      description: The path of the environment's own Python.
      type: str
      sample: /lustre/fs0/scratch/demo-user/workspace/venvs/launcher/bin/python
    action:
      description: One of V(unchanged), V(created) and V(replaced).
      type: str
      sample: unchanged
    present:
      description: Whether the environment is there as wanted at the end; false only in check mode.
      type: bool
      sample: true
"""

import functools
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import progress_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._process import EnvironmentProblem, cleaned, run
from ansible_collections.dgxc.workloads.plugins.module_utils._progress import Progress
from ansible_collections.dgxc.workloads.plugins.module_utils._virtual_environment import (
    EnvironmentFailure,
    VirtualEnvironments,
    Wish,
    wish_problem,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **progress_spec(),
            "virtual_environments": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "str", "required": True},
                    "python": {"type": "str", "default": "python3"},
                    "requirements": {"type": "list", "elements": "str", "default": []},
                    "requirements_file": {"type": "str", "default": ""},
                    "python_minimum": {"type": "str", "default": ""},
                    "python_below": {"type": "str", "default": ""},
                    "python_setting": {"type": "str", "default": "workspace_virtual_environments.python"},
                },
            },
            "environment_modules": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    wishes = [
        Wish(
            path=item["path"],
            python=item["python"],
            requirements=item["requirements"],
            requirements_file=item["requirements_file"],
            minimum=item["python_minimum"],
            below=item["python_below"],
            setting=item["python_setting"],
        )
        for item in module.params["virtual_environments"]
    ]
    problems = [problem for problem in map(wish_problem, wishes) if problem]
    if problems:
        module.fail_json(msg=" ".join(problems))
    with Progress(module.params["progress_path"]) as progress:
        make_all(module, wishes, progress)


def make_all(module: AnsibleModule, wishes: list[Wish], progress: Progress) -> None:
    environments = VirtualEnvironments(
        functools.partial(run, listen=progress.tell),
        cleaned(os.environ),
        module.params["environment_modules"],
        module.params["timeout"],
    )
    results: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for wish in wishes:
        progress.begin(os.path.basename(wish.path))
        try:
            outcome = environments.ensure(wish, module.check_mode)
        except (EnvironmentFailure, EnvironmentProblem) as problem:
            module.fail_json(msg=str(problem), virtual_environments=results)
        except OSError as error:
            module.fail_json(
                msg="{0} cannot be written: {1}.".format(error.filename or wish.path, error.strerror),
                virtual_environments=results,
            )
        before[wish.path], after[wish.path] = outcome.before, outcome.after
        results.append(
            {
                "path": wish.path,
                "python": os.path.join(wish.path, "bin", "python"),
                "action": outcome.action,
                "present": not (module.check_mode and outcome.changed),
            }
        )
    module.exit_json(
        changed=any(result["action"] != "unchanged" for result in results),
        virtual_environments=results,
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()
