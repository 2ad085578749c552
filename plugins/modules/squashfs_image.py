#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: squashfs_image
short_description: Have a whole squashfs image of a container, imported by Enroot
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Runs C(enroot import) on the host that it is executed on, or in a Slurm job that it starts from there.
  - The image is made under a temporary name in the same folder, proved (superblock, size, a listing of everything in
    it) and renamed. A file that is cut, empty, or no image at all is found and replaced. Whatever is interrupted, the
    final name stands for the old image or for none.
  - Beside the image lies C(<path>.json), which tells its source, digest, size, time and SHA-256. An image that fits its
    record is left alone; the registry is not asked and the file is not read again.
  - Two executions at once make one image. The second one waits.
extends_documentation_fragment:
  - dgxc.workloads.progress
  - dgxc.workloads.environment_modules
options:
  path:
    description: The absolute path of the image.
    type: path
    required: true
  state:
    description:
      - V(present) imports O(source) unless it is there.
      - V(looked) only tells whether O(source) of O(content) is there.
      - V(given) proves a file that somebody put there, and fails if it is not a whole image. Nothing is written.
    type: str
    choices: [present, looked, given]
    default: present
  required:
    description: For O(state=given), whether an image that is not whole is a failure. Otherwise RV(image) says what it
      is, and has no digest if the file is not there or is none.
    type: bool
    default: true
  source:
    description: The source as Enroot takes it, C(docker://...) or C(dockerd://...). Needed unless O(state=given).
    type: str
    default: ""
  content:
    description: A digest of what the image was built from. An image of another content is replaced.
    type: str
    default: ""
  digest:
    description: The digest that the source has at present, if it is known. An image of another digest is replaced.
    type: str
    default: ""
  arch:
    description: The architecture to import, such as C(aarch64); that of the host if empty.
    type: str
    default: ""
  refresh:
    description: Whether to ask the registry if a tag has moved, and to import again if it has.
    type: bool
    default: false
  enroot:
    description: Name or path of Enroot.
    type: str
    default: enroot
  launcher:
    description: Words to put before the import, such as C(srun) and its options.
    type: list
    elements: str
    default: []
  environment_modules:
    description: Environment modules to load before.
    type: list
    elements: str
    default: []
  login_shell:
    description: Whether to take the environment of a login shell even without O(environment_modules).
    type: bool
    default: false
  environment:
    description: Further variables for Enroot, curl and Docker.
    type: dict
    default: {}
  temp_path:
    description: Enroot's temporary folder, on local disk. Enroot's default if empty.
    type: str
    default: ""
  cache_path:
    description: Enroot's cache of layers. Enroot's default if empty.
    type: str
    default: ""
  runtime_path:
    description: Enroot's runtime folder. If empty, Enroot's default, or a folder in C(/tmp) where that is not writable.
    type: str
    default: ""
  config_path:
    description: The folder of Enroot's credentials. Enroot's default if empty.
    type: str
    default: ""
  ca_path:
    description: File of the certificates that registries are checked against. The system's if empty.
    type: str
    default: ""
  transfer_retries:
    description: How often Enroot repeats a failed transfer.
    type: int
    default: 3
  timeout:
    description: The most seconds that an import may take.
    type: int
    default: 7200
  claim_timeout:
    description: How many seconds to wait while somebody else makes the same image.
    type: int
    default: 7200
  stale_timeout:
    description: After how many seconds without a sign of life another host's import is taken for dead.
    type: int
    default: 120
  checksum:
    description: Whether to record the SHA-256 of a new image, for which it is read once.
    type: bool
    default: true
  temporary:
    description:
      - For an image that is sent on. It is not waited for until it is on disk, and its record counts until the machine
        is started anew.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Looks and decides as in a real run and writes nothing.
  diff_mode:
    support: full
    description: Shows source, content and digest before and after.
"""

EXAMPLES = r"""
- name: Have the image on shared storage
  dgxc.workloads.squashfs_image:
    path: /lustre/fs0/scratch/demo-user/images/nemo-24.01.sqsh
    source: docker://nvcr.io#nvidia/nemo:24.01.01.framework

- name: Prove an image that was copied by hand
  dgxc.workloads.squashfs_image:
    path: /lustre/fs0/scratch/demo-user/images/alma-24.01.sqsh
    state: given
"""

RETURN = r"""
image:
  description: The image at the end; in check mode, the one that is there.
  returned: success
  type: dict
  contains:
    path:
      description: The path given.
      type: str
      sample: /lustre/fs0/scratch/demo-user/images/nemo-24.01.sqsh
    state:
      description: One of V(whole), V(broken) and V(absent).
      type: str
      sample: whole
    problem:
      description: What is wrong with it, or nothing.
      type: str
      sample: ""
    size:
      description: Bytes of the file.
      type: int
      sample: 17179869184
    digest:
      description: >-
        The digest of the source, as the registry or Docker has it. For a given file without a record, a digest over its
        tables.
      type: str
      sample: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    sha256:
      description: The SHA-256 of the file, if it was recorded.
      type: str
      sample: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
    source:
      description: Where it was imported from.
      type: str
      sample: docker://nvcr.io#nvidia/nemo:24.01.01.framework
    content:
      description: The digest of what it was built from, if it was built by this collection.
      type: str
      sample: ""
    enroot_version:
      description: The version of Enroot that made it.
      type: str
      sample: 3.4.1
action:
  description: >-
    What was done, or would be done in check mode: V(unchanged), V(import), V(replace), or V(waited) when somebody else
    has made it meanwhile.
  returned: success
  type: str
  sample: unchanged
"""

import functools
import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _squashfs_image
from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import progress_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._bound_process import run_bound
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import asker, enroot_environment
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import parse
from ansible_collections.dgxc.workloads.plugins.module_utils._process import EnvironmentProblem, run
from ansible_collections.dgxc.workloads.plugins.module_utils._progress import Progress


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **progress_spec(),
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "looked", "given"], "default": "present"},
            "required": {"type": "bool", "default": True},
            "source": {"type": "str", "default": ""},
            "content": {"type": "str", "default": ""},
            "digest": {"type": "str", "default": ""},
            "arch": {"type": "str", "default": ""},
            "refresh": {"type": "bool", "default": False},
            "enroot": {"type": "str", "default": "enroot"},
            "launcher": {"type": "list", "elements": "str", "default": []},
            "environment_modules": {"type": "list", "elements": "str", "default": []},
            "login_shell": {"type": "bool", "default": False},
            "environment": {"type": "dict", "default": {}},
            "temp_path": {"type": "str", "default": ""},
            "cache_path": {"type": "str", "default": ""},
            "runtime_path": {"type": "str", "default": ""},
            "config_path": {"type": "str", "default": ""},
            "ca_path": {"type": "str", "default": ""},
            "transfer_retries": {"type": "int", "default": 3},
            "timeout": {"type": "int", "default": 7200},
            "claim_timeout": {"type": "int", "default": 7200},
            "stale_timeout": {"type": "int", "default": 120},
            "checksum": {"type": "bool", "default": True},
            "temporary": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        environment = enroot_environment(run, os.environ, given)
        if given["state"] == "given":
            image = _squashfs_image.given(given["path"], run, environment, given["required"])
            module.exit_json(changed=False, action="unchanged", image=image)
        problem = _source_problem(given["source"])
        if problem:
            module.fail_json(msg=problem)
        wanted = _squashfs_image.Wanted(given["source"], given["content"], given["digest"], given["arch"])
        progress = Progress(given["progress_path"])
        store = _squashfs_image.ImageStore(
            functools.partial(run_bound, listen=progress.tell),
            _squashfs_image.Settings(
                launcher=given["launcher"],
                enroot=given["enroot"],
                environment=environment,
                timeout=given["timeout"],
                claim_timeout=given["claim_timeout"],
                stale_seconds=given["stale_timeout"],
                checksum=given["checksum"],
                temporary=given["temporary"],
            ),
            asker(environment, given["ca_path"], given["arch"]),
            module.warn,
        )
        look, planned, action = store.plan(given["path"], wanted, given["refresh"])
        before = _squashfs_image.facts(given["path"], look)
        after = before
        if given["state"] == "present" and not module.check_mode and action != "unchanged":
            with progress:
                progress.begin(os.path.basename(given["path"]))
                progress.measure(lambda: _squashfs_image.written(given["path"]))
                look, action = store.ensure(given["path"], wanted, given["refresh"])
            after = _squashfs_image.facts(given["path"], look)
    except (_squashfs_image.ImageProblem, EnvironmentProblem) as problem:
        module.fail_json(msg=str(problem))
    except OSError as error:
        module.fail_json(msg="{0}: {1}.".format(error.filename or given["path"], error.strerror or error))
    kept = ("source", "content", "digest")
    shown = {name: after[name] for name in kept}
    if module.check_mode and action in ("import", "replace"):
        shown = {"source": wanted.source, "content": wanted.content, "digest": planned.digest}
    module.exit_json(
        changed=given["state"] == "present" and action in ("import", "replace"),
        action=action,
        image=after,
        diff={"before": {name: before[name] for name in kept}, "after": shown},
    )


def _source_problem(source: str) -> str:
    """Return a sentence if this is no source of an image."""
    if source.startswith("dockerd://") and len(source) > len("dockerd://"):
        return ""
    try:
        if not source.startswith("docker://"):
            return "source is {0!r}: give docker://REGISTRY#IMAGE:TAG or dockerd://IMAGE:TAG.".format(source)
        parse(source)
    except ValueError as error:
        return "source: {0}".format(error)
    return ""


if __name__ == "__main__":
    main()
