# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put files on a Git branch; see the documentation beside the module of the same name."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_publish import PublishError, publish


class ActionModule(ActionBase):
    """`dgxc.workloads.reconcile_publish`."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Commit and push, or say what would be."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "repository": {"type": "str", "required": True},
                "branch": {"type": "str", "required": True},
                "files": {"type": "dict", "required": True},
                "message": {"type": "str", "required": True},
                "author_name": {"type": "str", "default": "reconciler"},
                "author_email": {"type": "str", "default": "reconciler@localhost"},
            }
        )
        files = {str(path): str(content) for path, content in arguments["files"].items()}
        for path in files:
            if path.startswith("/") or any(part in ("", ".", "..", ".git") for part in path.split("/")):
                raise AnsibleActionFail(f"files has {path!r}; give paths inside the repository.")
        try:
            done = publish(
                arguments["repository"],
                arguments["branch"],
                files,
                arguments["message"],
                (arguments["author_name"], arguments["author_email"]),
                time.sleep,
                bool(self._task.check_mode),
            )
        except PublishError as error:
            raise AnsibleActionFail(str(error)) from None
        result.update(done)
        return result
