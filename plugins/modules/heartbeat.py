#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: heartbeat
short_description: Run a module and say from time to time that it is at work
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Runs another module, such as one that builds an image, and prints a line after ten seconds and then again and again
    until that module ends, so that a long step can be told from one that hangs.
  - The result is that of the module.
options:
  module:
    description: The full name of the module. One that is an action plugin cannot be run.
    type: str
    required: true
  arguments:
    description: Its arguments.
    type: dict
    default: {}
  subject:
    description: What is said that it does.
    type: str
    default: ""
attributes:
  check_mode:
    support: N/A
    description: As the module supports it.
  diff_mode:
    support: N/A
    description: As the module supports it.
notes:
  - This is an action plugin; only the module that it runs is sent to the host.
  - C(module_defaults) of that module do not hold; give all of them as O(arguments).
seealso:
  - module: community.docker.docker_image
"""

EXAMPLES = r"""
- name: Build an image
  dgxc.workloads.heartbeat:
    subject: Docker builds alma:24.01
    module: community.docker.docker_image
    arguments:
      name: alma:24.01
      source: build
      build:
        path: /home/demo-user/images/alma
"""

RETURN = r"""
ran:
  description: The module that was run. Everything else is what that module returned.
  returned: always
  type: str
  sample: community.docker.docker_image
"""
