#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: squashfs_upload
short_description: Send a squashfs image to a cluster, with resume
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Sends an image that M(dgxc.workloads.squashfs_image) made to the host of the task, by rsync over a connection of
    its own.
  - It is written under a temporary name in the target folder, proved there, and renamed. A transfer that was cut goes
    on where it ended, in this task or in the next one. There is no second copy, and memory does not grow with the
    image.
  - Two at once send one image. The second one waits.
  - rsync compares the check sums of both sides, so the SHA-256 that was recorded where the image was made holds here,
    too.
extends_documentation_fragment:
  - dgxc.workloads.environment_modules
options:
  path:
    description: The absolute path of the image on the cluster.
    type: str
    required: true
  image:
    description: The image to send, as RV(dgxc.workloads.squashfs_image#module:image) tells it.
    type: dict
    required: true
  source_host:
    description:
      - The host of the inventory that has the image. rsync runs there, and its connection to the cluster leads through
        the controller, so that this host needs no way to the cluster. Nothing is stored in between.
    type: str
    default: localhost
  arch:
    description: The image's architecture, if it is not that of the host that made it.
    type: str
    default: ""
  checksum:
    description:
      - Whether to record the SHA-256 of an image that has none yet. It is reckoned while the image is sent, if that is
        on the controller.
    type: bool
    default: true
  rsync_options:
    description: Further options of rsync, such as C(--bwlimit=100m).
    type: list
    elements: str
    default: []
  transfer_retries:
    description: How often a transfer that broke is taken up again.
    type: int
    default: 3
  timeout:
    description: The most seconds that one attempt may take.
    type: int
    default: 7200
  claim_timeout:
    description: How many seconds to wait while somebody else makes the same image.
    type: int
    default: 7200
  stale_timeout:
    description: After how many seconds without a sign of life another upload is taken for dead.
    type: int
    default: 120
  environment_modules:
    description: Environment modules to load on the cluster.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: partial
    description: Tells that the image would be sent. Look with M(dgxc.workloads.squashfs_image) before.
  diff_mode:
    support: full
    description: Shows the digest before and after.
notes:
  - This is an action plugin. rsync has to be on both sides.
"""

EXAMPLES = r"""
- name: Make the image
  dgxc.workloads.squashfs_image:
    path: /var/tmp/alma-24.01.sqsh
    source: dockerd://alma:24.01
  delegate_to: localhost
  register: made

- name: Send it
  dgxc.workloads.squashfs_upload:
    path: /lustre/fs0/scratch/demo-user/images/alma-24.01.sqsh
    image: "{{ made.image }}"
"""

RETURN = r"""
image:
  description: The image on the cluster, as RV(dgxc.workloads.squashfs_image#module:image) tells it.
  returned: success
  type: dict
action:
  description: V(upload), V(unchanged), or V(waited) when somebody else has sent it meanwhile.
  returned: success
  type: str
  sample: upload
sent:
  description: Bytes that were not there before.
  returned: success
  type: int
  sample: 17179869184
seconds:
  description: How long it took.
  returned: when something was sent
  type: float
  sample: 41.3
"""
