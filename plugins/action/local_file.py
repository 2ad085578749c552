# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a file on the controller; see the documentation beside the module of the same name."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.dgxc.workloads.plugins.module_utils._files import pretty_json, write_text


class ActionModule(ActionBase):
    """`dgxc.workloads.local_file`."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the file under a temporary name and rename it, unless it says the same already."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "path": {"type": "path", "required": True},
                "content": {"type": "raw", "required": True},
                "report": {"type": "bool", "default": False},
            }
        )
        path = os.path.abspath(arguments["path"])
        content = arguments["content"]
        text = content if isinstance(content, str) else pretty_json(content)
        try:
            before = _read(path)
            if before != text and not self._task.check_mode:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_text(path, text)
        except OSError as problem:
            raise AnsibleActionFail(f"{path} cannot be written: {problem.strerror}.") from None
        result.update(changed=before != text and not arguments["report"], path=path)
        if result["changed"]:
            names = {"before_header": path, "after_header": path}
            result["diff"] = {**names, "before": before or "", "after": text}
        return result


def _read(path: str) -> str | None:
    """Return the text of a file, or None if there is none or it is no text."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (FileNotFoundError, UnicodeError):
        return None
