# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that turn the variables of the role alma into runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils import _alma_settings


def alma_plan(variables: Any, site: Any) -> dict[str, Any]:
    if not isinstance(variables, dict) or not isinstance(site, dict):
        raise AnsibleFilterError("alma_plan wants two dictionaries: the variables alma_... and the facts dgxc_...")
    return _alma_settings.plan(variables, site)


def alma_runs(variables: Any, site: Any, found: Any) -> dict[str, Any]:
    if not isinstance(variables, dict) or not isinstance(site, dict):
        raise AnsibleFilterError("alma_runs wants two dictionaries: the variables alma_... and the facts dgxc_...")
    if not isinstance(found, dict) or not {"data", "image"} <= set(found):
        raise AnsibleFilterError("alma_runs wants what was found on the cluster: a dictionary with data and image.")
    return _alma_settings.runs(variables, site, found)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"alma_plan": alma_plan, "alma_runs": alma_runs}
