#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset_info
short_description: See that files of training data are whole, and count their examples
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Reads each file once, in constant memory, and tells examples, bytes and SHA-256.
  - Finds what Git LFS leaves in the place of a file, an empty file, one that was cut off, one that is another kind of
    data, and one with another number of examples than is known.
  - Tells everything that is wrong with all files at once.
options:
  files:
    description: The files. All are looked at in one execution, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: The absolute path.
        type: path
        required: true
      format:
        description:
          - V(json) is JSON objects, one a line or all in one list, V(lines) one example a line of any text, and
            V(opaque) a file in which nothing is counted. Empty lines are no examples.
        type: str
        choices: [json, lines, opaque]
        default: json
      keys:
        description: Dotted names that every object has to have, such as C(translation.en).
        type: list
        elements: str
        default: []
      examples:
        description: The number of examples, if it is known.
        type: int
      examples_of:
        description: What tells this number, in words for a message, such as a variable.
        type: str
        default: ""
      optional:
        description: Whether the file may be missing.
        type: bool
        default: false
      made_with:
        description:
          - A folder that an earlier task of the play makes. In check mode, a file that is missing together with this
            folder is pending and not wrong.
        type: str
        default: ""
      remedy:
        description: What messages about the file tell the user to do.
        type: str
        default: ""
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode. Only O(files[].made_with) makes a difference.
  diff_mode:
    support: none
    description: There is nothing to compare.
"""

EXAMPLES = r"""
- name: See that the training data is whole
  dgxc.workloads.dataset_info:
    files:
      - path: /lustre/fs0/scratch/demo-user/workspace/ALMA/human_written_data/zhen/train.zh-en.json
        keys: [translation.zh, translation.en]
        examples: 15406
"""

RETURN = r"""
files:
  description: What the files are, in the order of O(files).
  returned: always, unless O(files) cannot be right
  type: list
  elements: dict
  contains:
    path:
      description: The path given.
      type: str
      sample: /lustre/fs0/scratch/demo-user/workspace/ALMA/human_written_data/zhen/train.zh-en.json
    state:
      description: V(present) and whole, V(absent) and optional, V(pending) (in check mode), or V(wrong).
      type: str
      sample: present
    examples:
      description: The number of examples; null unless the file is present and its examples can be counted.
      type: int
      sample: 15406
    bytes:
      description: The file's size, if it was read.
      type: int
      sample: 6291456
    sha256:
      description: The digest of its content; null unless it is present.
      type: str
      sample: 3d0f0f4a0a3bb5c0b9f1f1e2d3c4b5a697887766554433221100ffeeddccbbaa
    message:
      description: What is wrong with it and what to do, else empty.
      type: str
      sample: ""
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._dataset_info import (
    FORMATS,
    DataFile,
    look,
    problems_of,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "format": {"type": "str", "choices": list(FORMATS), "default": "json"},
                    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
                    "examples": {"type": "int"},
                    "examples_of": {"type": "str", "default": ""},
                    "optional": {"type": "bool", "default": False},
                    "made_with": {"type": "str", "default": ""},
                    "remedy": {"type": "str", "default": ""},
                },
            },
        },
        supports_check_mode=True,
    )
    wanted = [DataFile(**entry) for entry in module.params["files"]]
    problems = problems_of(wanted)
    if problems:
        module.fail_json(msg=" ".join(problems))
    found = []
    for entry in wanted:
        try:
            found.append(look(entry, module.check_mode))
        except OSError as error:
            module.fail_json(
                msg="{0} cannot be read: {1}.".format(entry.path, error.strerror),
                files=[facts.as_dict() for facts in found],
            )
    files = [facts.as_dict() for facts in found]
    wrong = [facts.message for facts in found if facts.message]
    if wrong:
        module.fail_json(msg="\n".join(wrong), files=files)
    module.exit_json(changed=False, files=files)


if __name__ == "__main__":
    main()
