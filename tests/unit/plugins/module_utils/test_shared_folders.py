# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders below a root that has to be there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._shared_folders import (
    FolderProblem,
    check_root,
    make,
    missing,
    writable,
)


def test_missing_folders_are_made_once(tmp_path: Path) -> None:
    absent = missing(str(tmp_path), ["workspace", "workspace/venvs"])
    assert absent == [str(tmp_path / "workspace"), str(tmp_path / "workspace" / "venvs")]
    make(str(tmp_path), absent, "dgxc_shared_root")
    assert missing(str(tmp_path), ["workspace", "workspace/venvs"]) == []
    make(str(tmp_path), absent, "dgxc_shared_root")


@pytest.mark.parametrize("name", ["../outside", "/etc", "a/../../b"])
def test_a_folder_stays_below_the_root(tmp_path: Path, name: str) -> None:
    with pytest.raises(FolderProblem, match="not below"):
        missing(str(tmp_path), [name])


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "images").touch()
    with pytest.raises(FolderProblem, match="in the way"):
        missing(str(tmp_path), ["images"])
    with pytest.raises(FolderProblem, match="cannot be made in it"):
        make(str(tmp_path), [str(tmp_path / "images" / "x")], "dgxc_shared_root")


def test_the_root_is_there_and_canonical(tmp_path: Path) -> None:
    check_root(str(tmp_path), "dgxc_shared_root")
    (tmp_path / "link").symlink_to(tmp_path)
    for root, said in (
        ("relative", "absolute path"),
        (str(tmp_path) + "/", "absolute path"),
        (str(tmp_path / "missing"), "not a folder"),
        (str(tmp_path / "link"), f"set it to {tmp_path}"),
    ):
        with pytest.raises(FolderProblem, match=f"^dgxc_shared_root is .*{said}"):
            check_root(root, "dgxc_shared_root")


def test_writing_is_tried(tmp_path: Path) -> None:
    assert writable(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert not writable(str(tmp_path / "missing"))
