#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_log_info
short_description: Read the logs of a training where they lie
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Reads logs of NeMo and of Hugging Face's Trainer, of any size, in constant memory, and returns what they say as
    strict JSON - how far the training came, seconds per step, losses, ranks, settings, and the failures that the
    collection knows. Gigabytes stay on the cluster.
  - Carriage returns, colours, labels of C(srun --label), interleaved ranks, cut characters and a missing last newline
    are no obstacle. Of a log with more than one attempt the last one is told.
  - The step time leaves out the first steps of a process - ten, or a tenth of all steps if that is less.
options:
  paths:
    description: The log files of one training, such as its stdout and stderr. They may be missing, but not all of them.
    type: list
    elements: path
    required: true
  log_format:
    description: Who wrote the log. V(none) looks for ranks and failures only.
    type: str
    choices: [nemo, huggingface, none]
    default: none
  trainer_state:
    description: Path of a C(trainer_state.json), to be read as well. It has to be whole and without NaN.
    type: path
  series:
    description: Whether the curves of step time and loss are returned, at most 400 points.
    type: bool
    default: false
  lines:
    description: How many of the last lines of each log are returned.
    type: int
    default: 0
attributes:
  check_mode:
    support: full
    description: Reads only, at any time.
  diff_mode:
    support: none
    description: There is nothing to show.
seealso:
  - module: dgxc.workloads.run_result
  - module: dgxc.workloads.run_records_info
"""

EXAMPLES = r"""
- name: See how far a training came
  dgxc.workloads.training_log_info:
    paths:
      - /lustre/fs0/scratch/demo-user/runs/alma/alma-n2-0f3c5a9b1d2e/attempt-1/train-181.out
      - /lustre/fs0/scratch/demo-user/runs/alma/alma-n2-0f3c5a9b1d2e/attempt-1/train-181.err
    log_format: huggingface
  register: look

- name: Show it
  ansible.builtin.debug:
    msg: "step {{ look.facts.last_step }} of {{ look.facts.total_steps }}, {{ look.facts.step_timing.mean }} s a step"
"""

RETURN = r"""
logs:
  description: Each log with path, found, bytes, and tail (its last lines).
  returned: always
  type: list
  elements: dict
  sample:
    - {"path": "/lustre/x/train-181.err", "found": true, "bytes": 18345, "tail": []}
facts:
  description: What all logs together say of the last attempt in them; null when none of them is there.
  returned: always
  type: dict
  contains:
    first_step:
      description: First step that the log shows.
      type: int
    last_step:
      description: Last step that the log shows.
      type: int
    total_steps:
      description: Steps that the progress bar announces.
      type: int
    step_timing:
      description:
        - Seconds per step with mean, standard_deviation, count, first_step and last_step of the steps averaged,
          minimum, maximum, warmup_steps (how many were left out), half_width (precision as printed), source, and
          thinned (whether not all steps were read).
      type: dict
    printed_loss:
      description: The last loss as printed, also when it is no number.
      type: str
    last_loss:
      description: The last finite loss.
      type: float
    nan_count:
      description: How many losses were NaN.
      type: int
    inf_count:
      description: How many losses were infinite.
      type: int
    stop_reason:
      description: How the trainer says that it stopped.
      type: str
    ranks:
      description: The ranks that registered, as ranges.
      type: str
    world_sizes:
      description: The sizes of the process group that they named; more than one is a fault.
      type: list
      elements: int
    tasks:
      description: The labels of C(srun --label), as ranges.
      type: str
    settings:
      description: What Hugging Face's Trainer says of itself, such as num_examples, global_batch_size and steps.
      type: dict
    conflicts:
      description: Settings of which the tasks say different things, with all values.
      type: dict
    failures:
      description: Known failures with name, fatal, cause, remedy, count, first_line, last_line and after_progress.
      type: list
      elements: dict
  sample: {"last_step": 128, "total_steps": 128, "stop_reason": "completed", "tasks": "0-1"}
cause:
  description: The failure that explains the others best; null when the log shows none.
  returned: always
  type: dict
  sample: {"name": "cuda_out_of_memory", "cause": "a GPU ran out of memory"}
trainer_state:
  description: What O(trainer_state) holds - global_step, max_steps, last_epoch, evaluations, evaluation_loss, losses.
  returned: always
  type: dict
  sample: {"global_step": 150, "last_epoch": 1.5}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import LOG_FORMATS
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_info import training_log_info


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "required": True},
            "log_format": {"type": "str", "choices": list(LOG_FORMATS), "default": "none"},
            "trainer_state": {"type": "path"},
            "series": {"type": "bool", "default": False},
            "lines": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    result = training_log_info(module.params)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
