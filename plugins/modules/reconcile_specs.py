#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reconcile_specs
short_description: Read and check the run specs of a repository
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Reads every YAML file below a folder on the controller, checks it by the JSON Schema of run specs, and returns the
    specs that are for this host.
  - A spec with an error is left out and told with file, line and key; the others are not touched by it.
  - A folder that cannot be read, one that is empty as a submodule is that was not fetched, and a link to a folder are
    told as errors, since specs may be missing because of them.
  - The digest of a spec is that of its name, workload and variables. Blanks, comments and the order of keys do not
    change it. The digest of the site is that of the inventory's facts and of the collection's version.
options:
  path:
    description: Folder of the specs.
    type: path
    required: true
  commit:
    description: The commit that the folder is of. Git is asked when it is empty.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Reads only, at any time.
  diff_mode:
    support: none
    description: There is nothing to show.
notes:
  - This is an action plugin; nothing is sent to the host.
seealso:
  - module: dgxc.workloads.reconcile_runs
"""

EXAMPLES = r"""
- name: Read what shall have run
  dgxc.workloads.reconcile_specs:
    path: "{{ playbook_dir }}/runs"
  register: wanted
"""

RETURN = r"""
path:
  description: The folder.
  returned: success
  type: str
specs:
  description: The specs for this host, with defaults, file, line, digest and site.
  returned: success
  type: list
  elements: dict
broken:
  description: Names of the specs that have an error.
  returned: success
  type: list
  elements: str
problems:
  description: What is wrong, each with file, line, key, message, name, and text, which is all of them in one line.
  returned: success
  type: list
  elements: dict
  sample: [{"text": "runs/a.yml:4: variables.nemo_gpt3_nodes: is a field of the spec"}]
hold_prune:
  description:
    - Why nothing may be pruned by these specs, for instance because a file or a name cannot be read, or a name is used
      twice. Empty for no such reason.
  returned: success
  type: str
commit:
  description: The commit of the folder's checkout, with a C(+) when it has changes; empty without Git.
  returned: success
  type: str
version:
  description: The version of this collection.
  returned: success
  type: str
"""
