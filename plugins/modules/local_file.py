#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: local_file
short_description: Write a file on the controller
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Writes a file on the controller without a connection to any host and without Python on one. So a report about a host
    that cannot be used can be written as well, and variables about the host's connection, which extra variables give to
    every host, do not count.
options:
  path:
    description: The file. Its folder is made.
    type: path
    required: true
  content:
    description: What is written - a text, or anything else as JSON.
    type: raw
    required: true
  report:
    description: Whether the file is a report, which is no state of anything and never counts as a change.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Writes nothing in check mode.
  diff_mode:
    support: full
    description: Shows the file before and after, but for a report.
notes:
  - This is an action plugin; nothing is sent to the host.
"""

EXAMPLES = r"""
- name: Write the report
  dgxc.workloads.local_file:
    path: reports/login.json
    content: "{{ findings }}"
    report: true
"""

RETURN = r"""
path:
  description: The absolute path of the file.
  returned: success
  type: str
  sample: /home/demo/reports/login.json
"""
