# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file on the controller."""

from __future__ import annotations

import json
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.dgxc.workloads.plugins.action import local_file


def write(path, content, check_mode=False, **more):
    task = MagicMock(check_mode=check_mode, async_val=0, args={"path": str(path), "content": content, **more})
    action = local_file.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    return action.run(task_vars={})


def test_a_text_is_written_once(tmp_path):
    path = tmp_path / "a" / "b.txt"
    rehearsal = write(path, "x\n", check_mode=True)
    assert (rehearsal["changed"], path.exists()) == (True, False)
    assert rehearsal["diff"]["after"] == "x\n"
    assert write(path, "x\n")["changed"] is True
    assert path.read_text() == "x\n"
    again = write(path, "x\n")
    assert (again["changed"], "diff" in again) == (False, False)
    assert write(path, "y\n")["diff"]["before"] == "x\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]


def test_anything_else_is_written_as_json_and_a_report_is_no_change(tmp_path):
    path = tmp_path / "report.json"
    result = write(path, {"b": [1], "a": None}, report=True)
    assert (result["changed"], result["path"], "diff" in result) == (False, str(path), False)
    assert json.loads(path.read_text()) == {"a": None, "b": [1]}


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(AnsibleActionFail, match="cannot be written"):
        write(tmp_path / "file" / "b", "x")
