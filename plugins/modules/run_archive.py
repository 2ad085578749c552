#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_archive
short_description: Pack one run without checkpoints, data and secrets
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Writes one C(.tar.gz) with record, scripts, configuration, metrics and logs of a run, to keep or to send with a
    question. Checkpoints, data, links and files of secrets are left out, and words that are secrets by their form are
    replaced by a mark.
  - The last member, C(MANIFEST.json), lists what is packed with size and SHA-256, and what is not, with the reason.
  - The file is written under a temporary name and renamed, for the owner alone. The same run gives the same bytes.
options:
  run_dir:
    description: Folder of the run.
    type: path
    required: true
  dest:
    description: The file to write, or a folder that gets a file named after the run's folder.
    type: path
    required: true
  max_file_size:
    description: Largest file that is packed whole, in bytes. Of larger logs the two ends are packed.
    type: int
    default: 67108864
  exclude:
    description: Shell patterns of further files to leave out, by their name or by their path in the run's folder.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Packs into the temporary folder to tell what would be packed, and writes nothing else.
  diff_mode:
    support: none
    description: The return values tell what is packed.
  idempotent:
    support: full
    description: An archive with the same bytes is left as it is.
notes:
  - A secret of a form that is not known can remain in a log. Look before you send an archive to others.
seealso:
  - module: dgxc.workloads.run_records_info
"""

EXAMPLES = r"""
- name: Pack a run
  dgxc.workloads.run_archive:
    run_dir: /lustre/fs0/scratch/demo-user/runs/alma/alma-n2-0f3c5a9b1d2e
    dest: /lustre/fs0/scratch/demo-user/archives/
"""

RETURN = r"""
dest:
  description: The file.
  returned: success
  type: str
  sample: /lustre/fs0/scratch/demo-user/archives/alma-n2-0f3c5a9b1d2e.tar.gz
sha256:
  description: Its SHA-256.
  returned: success
  type: str
  sample: 3c1f7f0e1fb2b7b0f4f1c8e7d1f6a5b4c3d2e1f00112233445566778899aabbcc
size:
  description: Its size in bytes.
  returned: success
  type: int
  sample: 41231
files:
  description: What is packed, with path, size, sha256, removed (how many secrets were replaced) and cut.
  returned: success
  type: list
  elements: dict
  sample:
    - {"path": "record.json", "size": 4123, "sha256": "9f86d081884c7d65"}
left_out:
  description: What is not packed, with path and reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {"path": "attempt-1/output/checkpoint-512/", "reason": "a checkpoint, data or a cache by its name"}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._run_archive import SIZE_LIMIT, run_archive


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "max_file_size": {"type": "int", "default": SIZE_LIMIT},
            "exclude": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    result = run_archive(module.params, module.check_mode)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
