# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read run specs on the controller; see the documentation beside the module of the same name."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_collection import (
    collection_version,
    commit_of,
    read_schema,
    site_facts,
    workload_variables,
)
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_specs import digest, read_specs


class ActionModule(ActionBase):
    """`dgxc.workloads.reconcile_specs`."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read, check, and keep what is for this host."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, arguments = self.validate_argument_spec(
            argument_spec={"path": {"type": "path", "required": True}, "commit": {"type": "str", "default": ""}}
        )
        path = os.path.abspath(arguments["path"])
        groups = {str(name): [str(host) for host in hosts] for name, hosts in variables.get("groups", {}).items()}
        host = str(variables["inventory_hostname"])
        known = sorted({*groups, *(name for hosts in groups.values() for name in hosts)})
        try:
            found = read_specs(path, read_schema(), known, workload_variables)
        except OSError as error:
            raise AnsibleActionFail(
                f"{path} cannot be read: {error.strerror}. reconcile_specs names the folder of the run specs."
            ) from None
        here = {"all", host, *(name for name, hosts in groups.items() if host in hosts)}
        version = collection_version()
        specs: list[dict[str, Any]] = []
        evaluated: dict[str, Any] = {}
        for spec in found.specs:
            if spec.get("clusters") and not here.intersection(spec["clusters"]):
                continue
            facts = site_facts(variables, spec["workload"], self._templar.template, spec["variables"], evaluated)
            specs.append(dict(spec, site=digest({"facts": facts, "version": version})))
        if not found.complete:
            hold = "a spec or its name cannot be read, and it may be the one that is missing"
        elif not found.specs and not found.problems:
            hold = f"there is no spec at all in {os.path.basename(path)}"
        else:
            hold = ""
        result.update(
            changed=False,
            path=path,
            specs=specs,
            broken=found.broken_names,
            problems=[problem.as_json() for problem in found.problems],
            hold_prune=hold,
            commit=arguments["commit"] or commit_of(path),
            version=version,
        )
        return result
