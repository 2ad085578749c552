# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that turn the variables of the role nemo_gpt3 into runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils import _nemo_settings
from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_launcher import TOKEN


def nemo_gpt3_plan(variables: Any, site: Any) -> dict[str, Any]:
    if not isinstance(variables, dict) or not isinstance(site, dict):
        raise AnsibleFilterError(
            "nemo_gpt3_plan wants two dictionaries: the variables nemo_gpt3_... and the facts dgxc_..."
        )
    return _nemo_settings.plan(variables, site)


def nemo_gpt3_runs(plans: Any, renders: Any, image_digest: Any = "") -> dict[str, Any]:
    if not isinstance(plans, list) or not isinstance(renders, list) or len(plans) != len(renders):
        raise AnsibleFilterError(
            "nemo_gpt3_runs wants a list of plans and the list of what the launcher wrote for each."
        )
    configurations = [_configuration(rendered) for rendered in renders]
    return _nemo_settings.runs(plans, renders, configurations, str(image_digest or ""))


def _configuration(rendered: Any) -> dict[str, Any]:
    """Read the resolved configuration, which lies beside the script."""
    folder = rendered["script"].rpartition("/")[0]
    path = f"{folder}/{rendered['run_name']}_hydra.yaml"
    if path not in rendered["files"]:
        raise AnsibleFilterError(
            f"The launcher did not write {path}: set nemo_gpt3_launcher_commit to a commit that is known."
        )
    # The token is no YAML where a path begins with it; any absolute folder in its place is.
    configuration = yaml.safe_load(str(rendered["files"][path]).replace(TOKEN, "/attempt"))
    if not isinstance(configuration, dict) or not {"model", "trainer"} <= set(configuration):
        raise AnsibleFilterError(
            f"{path} has no model and trainer: choose a model of the launcher's conf/training/gpt3."
        )
    return configuration


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nemo_gpt3_plan": nemo_gpt3_plan, "nemo_gpt3_runs": nemo_gpt3_runs}
