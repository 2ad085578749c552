# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks that take each spec to its workload's role, with variables that hold for that spec alone.

This file is private to the collection. Ansible has no way to give a role variables whose names are not known
beforehand without leaving them behind for the next role, so the tasks are written out. All texts of a spec are marked
as unsafe, so that nobody who can propose a spec can run a template on the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

#: Whether the next spec's role looks at the login node as well.
_LOOK_AGAIN = (
    "{{ (hostvars[inventory_hostname].preflight_enabled | default(true) | bool)"
    " and not (__reconcile_looked | default(false)) }}"
)
#: Whether a spec has passed that look: errors that were only put off hold for the next one.
_PASSED = "{{ (__preflight_told | default({})).deferred | default('') | length == 0 }}"


class _Unsafe(str):
    """A text that Ansible must not take for a template."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """YAML without anchors, with the tag of `_Unsafe`."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out."""
        return True


_Dumper.add_representer(_Unsafe, lambda dumper, value: dumper.represent_scalar("!unsafe", str(value), style='"'))


def plain(value: Any) -> Any:
    """The value without Ansible's marks, with keys as text."""
    if isinstance(value, Mapping):
        return {str.__str__(key) if isinstance(key, str) else key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return "".join(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    return float(value)


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return _Unsafe(value) if isinstance(value, str) else value


def role_variables(spec: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What the role of a spec's workload is told beside the inventory."""
    workload = spec["workload"]
    retry = row["action"] == "retry"
    return {
        f"{workload}_run_name": spec["name"],
        **spec["variables"],
        f"{workload}_resubmit": "on_failure" if retry else "never",
        f"{workload}_max_attempts": row["max_attempts"] or spec["max_attempts"],
    }


def tasks_text(specs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """The file of tasks for the rows that are to be planned or tried again."""
    by_name = {spec["name"]: plain(spec) for spec in specs}
    planned = [row for row in rows if row["action"] in ("plan", "retry") and row["name"] in by_name]
    blocks = [_block(by_name[row["name"]], row, first=row is planned[0]) for row in planned]
    return yaml.dump(blocks, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


def _block(spec: dict[str, Any], row: Mapping[str, Any], first: bool) -> dict[str, Any]:
    name = spec["name"]
    # run_wait: the jobs are looked at by a later call. preflight_compute_nodes: nothing waits for a job that looks at
    # nodes.
    variables: dict[str, Any] = {"run_wait": False, "preflight_compute_nodes": 0}
    if not first:
        # Once a spec has passed it, the look at the login node is enough for all specs of a call; Slurm judges the rest
        # of them at submission. The inventory's word is asked for where this variable does not hide it.
        variables["preflight_enabled"] = _LOOK_AGAIN
    variables.update(_marked(role_variables(spec, row)))
    return {
        "name": f"Plan {name}",
        "vars": variables,
        "block": [
            {
                "name": f"{name} | Begin",
                "ansible.builtin.set_fact": {"run_submitted": {"jobs": []}},
            },
            {
                "name": f"{name} | Take it to its workload",
                "ansible.builtin.include_role": {"name": "dgxc.workloads." + spec["workload"]},
            },
            _keep(name, "", {"__reconcile_looked": _PASSED}),
        ],
        "rescue": [_keep(name, "{{ ansible_failed_result.msg | default('a task failed') }}")],
        "always": [_remember(name)],
    }


def _remember(name: str) -> dict[str, Any]:
    """The task that remembers a spec's runs before the next spec's turn: who is cut off later still knows them."""
    return {
        "name": f"{name} | Remember which runs it led to",
        "dgxc.workloads.reconcile_runs": {
            "state_dir": "{{ reconcile_state_dir }}",
            "specs": "{{ __reconcile_wanted.specs | selectattr('name', 'equalto', __reconcile_name) }}",
            "record": "{{ {__reconcile_name: __reconcile_planned[__reconcile_name]}"
            " | dgxc.workloads.reconcile_record(__reconcile_wanted) }}",
            "look": False,
        },
        "vars": {"__reconcile_name": name},
        "when": "not ansible_check_mode",
        "timeout": "{{ reconcile_timeout | int }}",
    }


def _keep(name: str, error: str, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    outcome = {
        "error": error,
        "jobs": "{{ run_submitted.jobs | default([]) }}",
        "scripts": "{{ run_submitted.diff | default([]) }}",
    }
    return {
        "name": f"{name} | Keep what came of it",
        "ansible.builtin.set_fact": {
            "__reconcile_planned": "{{ __reconcile_planned | combine({__reconcile_name: __reconcile_outcome}) }}",
            **(facts or {}),
        },
        "vars": {"__reconcile_name": name, "__reconcile_outcome": outcome},
    }
