#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: show_lines
short_description: Print lines as they are
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Prints lines on the controller without the quotes, folds and escapes that the output of M(ansible.builtin.debug)
    has, so that a table stays a table whatever callback is in use.
options:
  lines:
    description: The lines.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    support: full
    description: Changes nothing at any time.
  diff_mode:
    support: none
    description: There is nothing to show.
notes:
  - This is an action plugin; nothing is sent to the host.
seealso:
  - plugin: dgxc.workloads.run_table
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show what was measured
  dgxc.workloads.show_lines:
    lines: "{{ run_results | dgxc.workloads.run_table }}"
"""

RETURN = r"""
lines:
  description: The lines that were printed.
  returned: always
  type: list
  elements: str
  sample: ["run  job  state"]
"""
