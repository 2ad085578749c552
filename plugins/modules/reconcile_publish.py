#!/usr/bin/python

# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reconcile_publish
short_description: Put files on a Git branch without ever fighting another push
version_added: 0.1.0
author:
  - The dgxc.workloads developers (@dgxc)
description:
  - Takes the branch as it is, replaces the files in it, commits on top and pushes, from the controller. When somebody
    else pushed in between, it begins again with what they pushed. Nothing is forced and no other file is touched.
  - A branch whose files are so already gets no commit.
options:
  repository:
    description:
      - Address of the repository, as C(git push) takes it. Leave passwords out of it; Git's credential helpers and SSH
        keys are used as they are set up for the user who runs Ansible.
    type: str
    required: true
  branch:
    description: The branch. It is made when it does not exist.
    type: str
    required: true
  files:
    description: The text of each file by its path in the repository.
    type: dict
    required: true
  message:
    description: The message of the commit.
    type: str
    required: true
  author_name:
    description: Name of the author.
    type: str
    default: reconciler
  author_email:
    description: Mail address of the author.
    type: str
    default: reconciler@localhost
attributes:
  check_mode:
    support: full
    description: Looks at the branch and says whether a commit would be made.
  diff_mode:
    support: none
    description: There is nothing to show.
  idempotent:
    support: full
    description: A second call commits nothing.
notes:
  - This is an action plugin; nothing is sent to the host.
"""

EXAMPLES = r"""
- name: Publish how the runs stand
  dgxc.workloads.reconcile_publish:
    repository: git@git.example.org:team/runs.git
    branch: status
    files:
      status/login.md: "{{ page }}"
    message: Status of the runs
"""

RETURN = r"""
commit:
  description: The commit that the branch is at.
  returned: success
  type: str
  sample: 51df3f36f5bc51b7bbdc3f540a43b01cdc28c8be
tries:
  description: How many tries it took; more than one when somebody else pushed at the same time.
  returned: success
  type: int
  sample: 1
"""
