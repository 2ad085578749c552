# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module of somebody else and say from time to time that it is at work; documented beside the modules."""

from __future__ import annotations

from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils._long_step import LongStep


class ActionModule(LongStep):
    """`dgxc.workloads.heartbeat`."""

    HAS_LINE = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module that the task names, with its arguments, as that module's own task would."""
        _validation, given = self.validate_argument_spec(
            {
                "module": {"type": "str", "required": True},
                "arguments": {"type": "dict", "default": {}},
                "subject": {"type": "str", "default": ""},
            }
        )
        self.module_name, self.module_arguments, self.subject = given["module"], given["arguments"], given["subject"]
        return {**super().run(tmp, task_vars), "ran": given["module"]}
