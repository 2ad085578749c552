# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter that turns the variables of the role whisper_qlora into runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils import _whisper_qlora_settings


def whisper_qlora_plan(
    variables: Any, site: Any, data: Any = None, image: Any = None, script: str = ""
) -> dict[str, Any]:
    if not isinstance(variables, dict) or not isinstance(site, dict):
        raise AnsibleFilterError(
            "whisper_qlora_plan wants two dictionaries: the variables whisper_qlora_... and the facts dgxc_..."
        )
    if (data is None) != (image is None):
        raise AnsibleFilterError("whisper_qlora_plan wants both the data and the image, or neither.")
    return _whisper_qlora_settings.plan(variables, site, data, image, script)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"whisper_qlora_plan": whisper_qlora_plan}
