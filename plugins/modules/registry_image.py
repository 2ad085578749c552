#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_image
short_description: Push an image of the Docker Engine to a registry, or pull one, with a password in no file
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Runs on the build host. The password goes to the Docker Engine as a header of the request that needs it, and to curl
    on its standard input. Nothing is logged in, so nothing has to be logged out.
  - The registry is asked first. If it has this very image under this name, nothing is pushed.
extends_documentation_fragment:
  - dgxc.workloads.progress
options:
  state:
    description: V(pushed) gives O(image) to the registry as O(reference); V(pulled) gets O(reference) from there.
    type: str
    choices: [pushed, pulled]
    default: pushed
  image:
    description: The image's name in the Engine's store. Needed to push.
    type: str
    default: ""
  reference:
    description: The image's name in the registry, C(registry/path:tag).
    type: str
    required: true
  credentials:
    description: Credentials. That of the reference's registry is used, if there is one.
    type: list
    elements: dict
    default: []
    suboptions:
      registry:
        description: The registry's host, with C(:port) if it has one.
        type: str
        required: true
      username:
        description: The user.
        type: str
        required: true
      password:
        description: The password or token.
        type: str
        required: true
      token_hosts:
        description: Not used here.
        type: list
        elements: str
        default: []
  refresh:
    description: Whether to pull what is in the store already.
    type: bool
    default: false
  docker_host:
    description: The Engine's address, C(unix:///path) or C(tcp://host:port).
    type: str
    default: unix:///var/run/docker.sock
  ca_path:
    description: File of the certificates that the registry is checked against. The system's if empty.
    type: str
    default: ""
  environment:
    description: Further variables for curl, such as those of a proxy.
    type: dict
    default: {}
  transfer_retries:
    description: How often a transfer that broke is repeated.
    type: int
    default: 3
attributes:
  check_mode:
    support: full
    description: Asks Docker and the registry as in a real run and transfers nothing.
  diff_mode:
    support: full
    description: Shows the digest before and after.
"""

EXAMPLES = r"""
- name: Push
  dgxc.workloads.registry_image:
    image: alma:24.01
    reference: registry.example.com/team/alma:24.01
    credentials:
      - registry: registry.example.com
        username: builder
        password: "{{ vault_registry_password }}"
"""

RETURN = r"""
digest:
  description: The digest that the registry has under this name; empty in check mode if it is to be pushed.
  returned: success
  type: str
  sample: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
size:
  description: Bytes of all layers, as they are in the registry.
  returned: success
  type: int
  sample: 9876543210
image_id:
  description: The image's id in the Engine's store.
  returned: success
  type: str
  sample: sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
action:
  description: V(unchanged), V(pushed) or V(pulled).
  returned: success
  type: str
  sample: unchanged
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _registry_image
from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import progress_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._docker_engine import Engine, EngineProblem, connection_to
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_credentials import user_for
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import parse
from ansible_collections.dgxc.workloads.plugins.module_utils._progress import Progress
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Registry, curl_with


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **progress_spec(),
            "state": {"type": "str", "choices": ["pushed", "pulled"], "default": "pushed"},
            "image": {"type": "str", "default": ""},
            "reference": {"type": "str", "required": True},
            "credentials": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "registry": {"type": "str", "required": True},
                    "username": {"type": "str", "required": True},
                    "password": {"type": "str", "required": True, "no_log": True},
                    "token_hosts": {"type": "list", "elements": "str", "default": [], "no_log": False},
                },
            },
            "refresh": {"type": "bool", "default": False},
            "docker_host": {"type": "str", "default": "unix:///var/run/docker.sock"},
            "ca_path": {"type": "str", "default": ""},
            "environment": {"type": "dict", "default": {}},
            "transfer_retries": {"type": "int", "default": 3},
        },
        required_if=[("state", "pushed", ("image",))],
        supports_check_mode=True,
    )
    given = module.params
    environment = {**os.environ, **{str(name): str(value) for name, value in given["environment"].items()}}
    try:
        reference = parse(given["reference"])
        user = user_for(given["credentials"], reference.host)
        with Progress(given["progress_path"]) as progress:
            progress.begin(reference.docker)
            transfer = _registry_image.Transfer(
                Engine(connection_to(given["docker_host"]), progress.tell),
                Registry(curl_with(environment), reference.host, user, given["ca_path"]),
                user,
                given["transfer_retries"],
                time.sleep,
            )
            if given["state"] == "pushed":
                outcome = transfer.push(given["image"], reference, module.check_mode)
            else:
                outcome = transfer.pull(reference, given["refresh"], module.check_mode)
    except ValueError as error:
        module.fail_json(msg="reference: {0}".format(error))
    except (EngineProblem, _registry_image.TransferProblem) as problem:
        module.fail_json(msg=_registry_image.sentence(str(problem), reference.host))
    module.exit_json(
        changed=outcome.action != "unchanged",
        action=outcome.action,
        digest=outcome.digest,
        size=outcome.size,
        image_id=outcome.image_id,
        diff={"before": {"digest": outcome.before}, "after": {"digest": outcome.digest}},
    )


if __name__ == "__main__":
    main()
