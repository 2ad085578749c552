# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module, from its arguments to its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxc.workloads.plugins.modules import dataset_info


def played(capsys: pytest.CaptureFixture[str], *files: dict[str, Any], check: bool = False) -> dict[str, Any]:
    with patch_module_args({"files": list(files), "_ansible_check_mode": check}), pytest.raises(SystemExit):
        dataset_info.main()
    return json.loads(capsys.readouterr().out)


def test_all_files_are_told_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text('{"x": 1}\n')
    (tmp_path / "b").write_text("one\ntwo\n")
    result = played(
        capsys, {"path": str(tmp_path / "b"), "format": "lines"}, {"path": str(tmp_path / "a"), "examples": 1}
    )
    assert result["changed"] is False
    assert [(file["path"], file["examples"]) for file in result["files"]] == [
        (str(tmp_path / "b"), 2), (str(tmp_path / "a"), 1),
    ]  # fmt: skip


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").touch()
    result = played(capsys, {"path": str(tmp_path / "empty")}, {"path": str(tmp_path / "none"), "remedy": "make it"})
    assert result["failed"] is True
    assert result["msg"].splitlines() == [
        f"{tmp_path}/empty is empty: bring it there anew.",
        f"{tmp_path}/none is not there: make it.",
    ]
    assert [file["state"] for file in result["files"]] == ["wrong", "wrong"]


def test_a_rehearsal_waits_for_what_comes_with_a_clone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = {"path": str(tmp_path / "clone" / "a"), "made_with": str(tmp_path / "clone")}
    assert played(capsys, file, check=True)["files"][0]["state"] == "pending"
    assert played(capsys, file)["failed"] is True


def test_a_relative_path_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give an absolute path" in played(capsys, {"path": "data.json"})["msg"]


def test_what_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_arguments: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(dataset_info, "look", look)
    assert played(capsys, {"path": "/a"})["msg"] == "/a cannot be read: Input/output error."
