# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of the role preflight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _new_inventory, _preflight_report


def preflight_plan(variables: Any, site: Any) -> dict[str, Any]:
    if not isinstance(variables, Mapping) or not isinstance(site, Mapping):
        raise AnsibleFilterError("preflight_plan wants two dictionaries: preflight_... and the facts dgxc_...")
    return _preflight_report.plan(variables, site)


def preflight_connection(result: Any, pythons: Any, controller: str, target: str) -> list[dict[str, str]]:
    if not isinstance(result, Mapping):
        raise AnsibleFilterError("preflight_connection wants the result of a module.")
    said = pythons.get("stdout") if isinstance(pythons, Mapping) and not pythons.get("unreachable") else None
    # Of two attempts, one may only have seen a pipe break where the other was told why.
    again = str(pythons.get("msg") or "") if isinstance(pythons, Mapping) and said is None else ""
    return _preflight_report.connection_checks(result, said, controller, target, again)


def preflight_facts(problems: Sequence[str]) -> list[dict[str, str]]:
    return _preflight_report.fact_checks(problems)


def preflight_report(
    checks: Sequence[Mapping[str, str]], host: str, ignore: Sequence[str] = (), show: str = "all", defer: bool = False
) -> dict[str, Any]:
    return _preflight_report.report(checks, ignore, host, show, defer)


def new_inventory(facts: Any, name: str, host: str, user: str, choices: Any = None) -> dict[str, str]:
    if not isinstance(facts, Mapping):
        raise AnsibleFilterError("new_inventory wants the facts that preflight_login returns.")
    return _new_inventory.inventory(facts, name, host, user, choices or {})


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {
            "new_inventory": new_inventory,
            "preflight_connection": preflight_connection,
            "preflight_facts": preflight_facts,
            "preflight_plan": preflight_plan,
            "preflight_report": preflight_report,
        }
