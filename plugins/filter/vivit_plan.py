# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter that turns the variables of the role vivit into runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils import _vivit_settings


def vivit_plan(variables: Any, site: Any, data: Any = None, image: Any = None, script: str = "") -> dict[str, Any]:
    if not isinstance(variables, dict) or not isinstance(site, dict):
        raise AnsibleFilterError("vivit_plan wants two dictionaries: the variables vivit_... and the facts dgxc_...")
    if (data is None) != (image is None):
        raise AnsibleFilterError("vivit_plan wants both the data and the image, or neither.")
    return _vivit_settings.plan(variables, site, data, image, script)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"vivit_plan": vivit_plan}
