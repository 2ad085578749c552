# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The line in which a module says how far it is."""

from __future__ import annotations

import os
import stat
import time

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _progress
from ansible_collections.dgxc.workloads.plugins.module_utils._progress import Progress


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "WRITE_SECONDS", 0.01)
    return tmp_path / "line"


def wait_for(path, text):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and path.read_text() == text:
            return
        time.sleep(0.01)
    pytest.fail(f"{text!r} was not written: {path.read_text() if path.exists() else 'no file'}")


def test_the_last_that_was_told_is_written_and_taken_away_at_the_end(path):
    with Progress(str(path)) as progress:
        progress.begin("clone")
        progress.tell("Receiving objects:   1%")
        progress.tell("Receiving objects:  45% (5/11)")
        wait_for(path, "clone: Receiving objects:  45% (5/11)")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        progress.begin("other")
        wait_for(path, "other")
    assert list(path.parent.iterdir()) == []


def test_what_grows_is_measured_each_time(path):
    sizes = iter(range(10**6))
    with Progress(str(path)) as progress:
        progress.measure(lambda: f"{min(next(sizes), 3)} GB written")
        progress.tell("Creating squashfs filesystem")
        wait_for(path, "Creating squashfs filesystem, 3 GB written")


def test_an_error_takes_the_line_away_too(path):
    def work():
        with Progress(str(path)) as progress:
            progress.tell("x")
            wait_for(path, "x")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert not path.exists()


def test_what_killed_modules_left_is_removed_when_it_is_old(tmp_path):
    for name, age in (("line-old", 2 * 24 * 3600), ("line-new", 60), ("other-old", 2 * 24 * 3600)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with Progress(str(tmp_path / "line-mine")):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["line-new", "other-old"]


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Progress("") as progress:
        progress.tell("x")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_nobodys_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "WRITE_SECONDS", 0.01)
    with Progress(str(tmp_path / "nowhere" / "line")) as progress:
        progress.tell("x")
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (["Collecting torch", "WARNING: Location is ignored"], "s: Collecting torch"),
        (["\x1b[1mbold\x1b[0m\tword"], "s:  [1mbold [0m word"),
        (["x" * 500], "s: " + "x" * 113 + " ..."),
        ([""], "s"),
    ],
)
def test_the_line_is_for_a_screen(told, line):
    progress = Progress("")
    progress.begin("s")
    for text in told:
        progress.tell(text)
    assert progress.line() == line
