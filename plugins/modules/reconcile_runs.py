#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reconcile_runs
short_description: Compare what should have run with what has, for all run specs at once
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Reads what earlier calls remembered of each spec, looks once at the jobs of all of them, puts the results of ended
    jobs on record, and says for each spec what has to be done.
  - Submits nothing. A spec that is new, changed or to be tried again is returned with the action C(plan) or C(retry);
    its workload's role does the rest, and a second call with O(record) remembers the outcome.
  - Never waits for a job to end.
options:
  state_dir:
    description:
      - Folder on shared storage in which the reconciler remembers which spec led to which runs. Its files are written
        once and under a temporary name, so that two calls at the same time do not harm one another.
    type: path
    required: true
  specs:
    description:
      - The specs that shall have run on this cluster, each with C(name), C(workload), C(variables), C(state),
        C(resubmit), C(max_attempts), C(on_change), C(digest) (of its content) and C(site) (of the inventory's facts and
        the collection), and optionally C(prune), C(owner) and C(file).
    type: list
    elements: dict
    required: true
  broken:
    description: Names of specs with errors. Whatever runs for them is left as it is.
    type: list
    elements: str
    default: []
  prune:
    description: Whether the living jobs of a name that no spec has any more are cancelled, unless its last spec said.
    type: bool
    default: false
  hold_prune:
    description: Why nothing is pruned this time, for instance because a file cannot be read. Empty for no such reason.
    type: str
    default: ""
  follow_site:
    description:
      - Which specs are planned again when the inventory's facts or the collection changed since. V(failed) are those
        of which every run failed and none was cancelled by a person, V(always) is every one, V(never) none.
    type: str
    choices: [failed, always, never]
    default: failed
  record:
    description:
      - What the workloads' roles did, to be remembered. Each entry has C(name), C(digest), C(site), C(spec), C(commit),
        C(version), C(runs) (C(name), C(run_dir)) and C(error) (empty, or why there are no runs).
    type: list
    elements: dict
    default: []
  look:
    description: Whether runs are looked at. Without, O(record) is remembered, and nothing is decided or cancelled.
    type: bool
    default: true
  cancel:
    description: Whether jobs that are not wanted any more are cancelled.
    type: bool
    default: false
  collect_after:
    description:
      - Seconds after a job's end before it is judged and put on record, so that its log and its files are seen on a
        network file system.
    type: float
    default: 60.0
extends_documentation_fragment:
  - dgxc.workloads.slurm
  - dgxc.workloads.limits
attributes:
  check_mode:
    support: full
    description: Looks and decides, and writes and cancels nothing.
  diff_mode:
    support: none
    description: The reasons say what changes.
  idempotent:
    support: full
    description: A second call with nothing new changes nothing.
seealso:
  - module: dgxc.workloads.slurm_job
  - module: dgxc.workloads.run_result
"""

EXAMPLES = r"""
- name: Compare
  dgxc.workloads.reconcile_runs:
    state_dir: /lustre/fs0/scratch/demo-user/reconcile/main
    specs: "{{ wanted.specs }}"
    environment_modules: [slurm]
  register: look
"""

RETURN = r"""
specs:
  description: One entry per name that is wanted, broken or still alive, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the spec.
      type: str
    action:
      description:
        - V(plan), V(retry), V(cancelled), V(collected) or V(left alone), or V(unclear) where something could not be
          cancelled.
      type: str
    reason:
      description: Why.
      type: str
    changes:
      description: What differs from the content that was planned last.
      type: list
      elements: str
    runs:
      description: The runs of the present spec, with job, state, verdict, message and measured step time.
      type: list
      elements: dict
    old_runs:
      description: The runs of earlier content of the spec.
      type: list
      elements: dict
    cancel:
      description:
        - The jobs that were cancelled, each with run_dir, attempt, name, job_id and reason. In check mode, and without
          O(cancel), those that would be, once a spec that is to be planned was.
      type: list
      elements: dict
    not_cancelled:
      description: The jobs that could not be cancelled, or of which that is not clear, with the same keys.
      type: list
      elements: dict
    max_attempts:
      description: How many attempts a retry may use, where that is more than the spec says.
      type: int
    previous:
      description: For a spec to be planned, by name of a run, the files of the newest attempt under that name.
      type: dict
    workload:
      description: What it trains.
      type: str
    owner:
      description: Whose it is.
      type: str
    file:
      description: The file that says or said it.
      type: str
  sample:
    - {"name": "smoke", "action": "left alone", "reason": "succeeded"}
queries:
  description: How often Slurm was asked.
  returned: success
  type: int
  sample: 2
errors:
  description: What Slurm did not answer.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import limits_spec, slurm_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._reconcile import run_reconcile


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "required": True},
            "specs": {"type": "list", "elements": "dict", "required": True},
            "broken": {"type": "list", "elements": "str", "default": []},
            "prune": {"type": "bool", "default": False},
            "hold_prune": {"type": "str", "default": ""},
            "follow_site": {"type": "str", "choices": ["failed", "always", "never"], "default": "failed"},
            "record": {"type": "list", "elements": "dict", "default": []},
            "look": {"type": "bool", "default": True},
            "cancel": {"type": "bool", "default": False},
            "collect_after": {"type": "float", "default": 60.0},
            **slurm_spec(),
            **limits_spec(),
        },
        supports_check_mode=True,
    )
    result = run_reconcile(module.params, module.check_mode)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
