#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reconcile_tasks
short_description: Write the tasks that take run specs to their workloads' roles
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Writes a file of tasks to the controller's temporary folder, which Ansible removes when it ends. Each spec is a
    block with variables of its own, so that none is left behind for the next one, and with a rescue, so that one that
    fails harms no other.
  - Texts of specs are marked as unsafe; templates in them are not evaluated.
options:
  specs:
    description: The specs as M(dgxc.workloads.reconcile_specs) returns them.
    type: list
    elements: dict
    required: true
  rows:
    description: The decisions as M(dgxc.workloads.reconcile_runs) returns them.
    type: list
    elements: dict
    required: true
attributes:
  check_mode:
    support: full
    description: Writes its temporary file at any time.
  diff_mode:
    support: none
    description: There is nothing to show.
notes:
  - This is an action plugin; nothing is sent to the host.
seealso:
  - module: dgxc.workloads.reconcile_specs
  - module: dgxc.workloads.reconcile_runs
"""

EXAMPLES = r"""
- name: Write the tasks
  dgxc.workloads.reconcile_tasks:
    specs: "{{ wanted.specs }}"
    rows: "{{ look.specs }}"
  register: tasks

- name: Carry them out
  ansible.builtin.include_tasks: "{{ tasks.path }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /root/.ansible/tmp/ansible-local-1/reconcile-x/tasks.yml
"""
