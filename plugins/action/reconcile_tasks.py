# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the tasks for run specs on the controller; see the documentation beside the module of the same name."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase

from ansible_collections.dgxc.workloads.plugins.module_utils._files import write_text
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_tasks import tasks_text


class ActionModule(ActionBase):
    """`dgxc.workloads.reconcile_tasks`."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the file below the folder that Ansible removes when it ends."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "specs": {"type": "list", "elements": "dict", "required": True},
                "rows": {"type": "list", "elements": "dict", "required": True},
            }
        )
        folder = tempfile.mkdtemp(prefix="reconcile-", dir=C.DEFAULT_LOCAL_TMP)
        path = os.path.join(folder, "tasks.yml")
        write_text(path, tasks_text(arguments["specs"], arguments["rows"]), mode=0o600, lasting=False)
        result.update(changed=False, path=path)
        return result
