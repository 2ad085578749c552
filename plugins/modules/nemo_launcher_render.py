#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nemo_launcher_render
short_description: Let the NeMo launcher write its submission scripts without submitting them
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Runs the launcher's C(main.py) with a Hydra overlay in a private temporary folder, with its debug switch on, so
    that it writes the submission script and the resolved configuration and submits nothing.
  - Returns the texts with the token C(@ATTEMPT_DIR@) in place of the temporary folder, which is removed in every case.
  - Neither edits the clone nor leaves compiled Python files in it.
  - Fails if the script has directives that Slurm would ignore, a time limit in minutes by accident, or a secret in it.
extends_documentation_fragment:
  - dgxc.workloads.environment_modules
options:
  launcher_path:
    description: The absolute path of the launcher's clone.
    type: str
    required: true
  python:
    description: The Python that has the launcher's requirements.
    type: str
    required: true
  overlays:
    description:
      - Texts of the overlays, one for each run. C(@ATTEMPT_DIR@) in them stands for the folder of the attempt.
      - All are rendered in one execution.
    type: list
    elements: str
    required: true
  config_name:
    description: The name of the overlay for Hydra, and of its file without C(.yaml).
    type: str
    default: dgxc
  timeout:
    description: The most seconds that the launcher may take for one script.
    type: int
    default: 300
  environment_modules:
    description: Environment modules to load in a login shell, if the Python needs their libraries.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description:
      - Works in the same way, since nothing lasting is written.
      - Only if the launcher or its Python is not there yet, because a rehearsal made neither, the overlays are all that
        can be told, and RV(pending) is true.
  diff_mode:
    support: partial
    description: Shows the overlays when RV(pending). Otherwise the role that writes the texts shows them.
"""

EXAMPLES = r"""
- name: Render the training's script
  dgxc.workloads.nemo_launcher_render:
    launcher_path: /lustre/fs0/scratch/demo-user/workspace/nemo-megatron-launcher
    python: /lustre/fs0/scratch/demo-user/workspace/venvs/launcher/bin/python
    overlays:
      - |
        defaults: [config, override training: gpt3/7b_improved, _self_]
        stages: [training]
        launcher_scripts_path: /lustre/fs0/scratch/demo-user/workspace/nemo-megatron-launcher/launcher_scripts
        base_results_dir: "@ATTEMPT_DIR@/results"
"""

RETURN = r"""
renders:
  description: What the launcher wrote, in the order of O(overlays).
  returned: success; empty if RV(pending)
  type: list
  elements: dict
  contains:
    files:
      description: The texts by path relative to the folder of the attempt, the overlay included.
      type: dict
      sample: {"conf/dgxc.yaml": "..."}
    script:
      description: The path of the submission script, one of RV(renders[].files).
      type: str
      sample: results/gpt_7b_improved/nemo-megatron-gpt_7b_improved_submission.sh
    logs:
      description: The paths of the training's V(stdout) and V(stderr), with C(%j) for the job id.
      type: dict
      sample: {"stdout": "results/gpt_7b_improved/log-nemo-megatron-gpt_7b_improved_%j.out"}
    run_name:
      description: The name that the launcher gives to the run.
      type: str
      sample: gpt_7b_improved
    directories:
      description: Folders that have to be there although no file is in them.
      type: list
      elements: str
      sample: [results/gpt_7b_improved/results]
pending:
  description: Whether the launcher or its Python is still missing; true only in check mode.
  returned: success
  type: bool
  sample: false
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_launcher import (
    OVERLAY_FOLDER,
    TOKEN,
    RenderProblem,
    as_result,
    render,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    EnvironmentProblem,
    cleaned,
    login_environment,
    run,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "launcher_path": {"type": "str", "required": True},
            "python": {"type": "str", "required": True},
            "overlays": {"type": "list", "elements": "str", "required": True},
            "config_name": {"type": "str", "default": "dgxc"},
            "timeout": {"type": "int", "default": 300},
            "environment_modules": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    launcher = os.path.join(module.params["launcher_path"], "launcher_scripts", "main.py")
    if module.check_mode and not (os.path.isfile(launcher) and os.path.isfile(module.params["python"])):
        name = "{0}/{1}/{2}.yaml".format(TOKEN, OVERLAY_FOLDER, module.params["config_name"])
        module.exit_json(
            changed=True,
            pending=True,
            renders=[],
            diff=[
                {"before_header": name, "after_header": name, "before": "", "after": overlay}
                for overlay in module.params["overlays"]
            ],
        )
    try:
        environment = login_environment(run, cleaned(os.environ), module.params["environment_modules"])
        renders = [
            as_result(
                render(
                    run,
                    environment,
                    module.params["launcher_path"],
                    module.params["python"],
                    overlay,
                    module.params["config_name"],
                    module.params["timeout"],
                )
            )
            for overlay in module.params["overlays"]
        ]
    except (RenderProblem, EnvironmentProblem) as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=False, pending=False, renders=renders)


if __name__ == "__main__":
    main()
