#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_credentials
short_description: Put credentials of registries into Enroot's file
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Keeps entries of C($ENROOT_CONFIG_PATH/.credentials) (C(~/.config/enroot/.credentials)), from which Enroot, and
    Pyxis with it, log in to registries.
  - NGC, Docker Hub and GitLab give out tokens on another host, so they get two entries.
  - Everything else in the file stays byte for byte. The file has mode 0600 from its birth on, and is replaced as a
    whole.
  - An entry of the same host and user is replaced where it stands. A new one goes before others of its host, since the
    first one counts.
options:
  credentials:
    description: The credentials.
    type: list
    elements: dict
    required: true
    suboptions:
      registry:
        description: The registry's host. A port is left out, as Enroot wants it.
        type: str
        required: true
      username:
        description: The user; V($oauthtoken), as it stands, for NGC.
        type: str
        required: true
      password:
        description: The password, key or token. It must have no blanks and quotes and not begin with C($).
        type: str
        required: true
      token_hosts:
        description: Hosts that give out the registry's tokens, where the module does not know them.
        type: list
        elements: str
        default: []
  absent:
    description: Hosts whose entries are taken away.
    type: list
    elements: str
    default: []
  config_path:
    description: The folder of the file. By default C($ENROOT_CONFIG_PATH), or C(enroot) in the user's configuration.
    type: path
    default: ""
attributes:
  check_mode:
    support: full
    description: Tells whether the file would change.
  diff_mode:
    support: none
    description: A difference would show secrets.
"""

EXAMPLES = r"""
- name: Log Enroot in to NGC
  dgxc.workloads.enroot_credentials:
    credentials:
      - registry: nvcr.io
        username: $oauthtoken
        password: "{{ vault_ngc_api_key }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /home/demo-user/.config/enroot/.credentials
machines:
  description: The hosts that have entries by this task.
  returned: success
  type: list
  elements: str
  sample: [nvcr.io, authn.nvidia.com]
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot_credentials, _files
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import credentials_path


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "credentials": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "registry": {"type": "str", "required": True},
                    "username": {"type": "str", "required": True},
                    "password": {"type": "str", "required": True, "no_log": True},
                    "token_hosts": {"type": "list", "elements": "str", "default": [], "no_log": False},
                },
            },
            "absent": {"type": "list", "elements": "str", "default": []},
            "config_path": {"type": "path", "default": ""},
        },
        supports_check_mode=True,
    )
    given = module.params
    environment = dict(os.environ)
    if given["config_path"]:
        environment["ENROOT_CONFIG_PATH"] = given["config_path"]
    path = credentials_path(environment)
    wanted: list[_enroot_credentials.Entry] = []
    problems: list[str] = []
    for item in given["credentials"]:
        try:
            wanted += _enroot_credentials.entries(
                item["registry"], item["username"], item["password"], item["token_hosts"]
            )
        except _enroot_credentials.NotExpressible as problem:
            problems.append(str(problem))
    if os.path.islink(path):
        problems.append("{0} is a link: make it a file of its own, so that its mode can be kept.".format(path))
    if problems:
        module.fail_json(msg=" ".join(problems))
    try:
        changed = _write(path, wanted, given["absent"], module.check_mode)
    except OSError as error:
        module.fail_json(msg="{0} cannot be written: {1}.".format(error.filename or path, error.strerror))
    except UnicodeError:
        module.fail_json(msg="{0} is not a text in UTF-8: repair it, or move it away.".format(path))
    module.exit_json(changed=changed, path=path, machines=[entry.machine for entry in wanted])


def _write(path: str, wanted: list[_enroot_credentials.Entry], absent: list[str], check: bool) -> bool:
    """Bring the file into its state; return whether it changed, or would in check mode."""
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o777
            before = stream.read()
    except FileNotFoundError:
        before, mode = "", 0
    after = _enroot_credentials.updated(before, wanted, absent)
    if after == before and mode in (0, 0o600):
        return False
    if not check:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _files.write_text(path, after, 0o600)
    return True


if __name__ == "__main__":
    main()
