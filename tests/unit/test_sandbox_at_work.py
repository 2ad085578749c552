# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One playbook at a time makes or removes a sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "roles" / "sandbox" / "files" / "at_work.py"
if not SOURCE.exists():
    pytest.skip("needs roles/sandbox", allow_module_level=True)
# Runs each line that it reads, two processes down, as Ansible would.
PLAYBOOK = """
import subprocess, sys
for what in sys.stdin:
    done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", sys.executable, {source!r}, what.strip(), {file!r}],
                          stderr=subprocess.PIPE, text=True)
    print(done.returncode, done.stderr.strip(), flush=True)
"""


class Playbook:
    """A process that looks like a playbook."""

    def __init__(self, folder: Path, file: Path, name: str = "ansible-playbook") -> None:
        program = folder / name
        program.write_text(PLAYBOOK.format(source=str(SOURCE), file=str(file)))
        self.process = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sandbox.at-work"


@pytest.fixture
def two(tmp_path: Path, file: Path) -> Iterator[tuple[Playbook, Playbook]]:
    both = (Playbook(tmp_path, file), Playbook(tmp_path, file))
    yield both
    for one in both:
        one.end()


def test_the_second_one_is_told_and_may_when_the_first_has_left(two: tuple[Playbook, Playbook], file: Path) -> None:
    first, second = two
    assert first("take") == "0"
    assert first("take") == "0"
    assert second("take") == (
        f"1 Another playbook (process {first.process.pid}) is at work on the sandbox: wait for it, or end it. {file}"
        " names it."
    )
    assert second("leave").startswith("1 Another playbook")
    assert first("leave") == "0"
    assert not file.exists()
    assert second("take") == "0"


def test_one_that_was_killed_is_at_work_no_more(two: tuple[Playbook, Playbook], file: Path) -> None:
    first, second = two
    first("take")
    first.end()
    assert second("take") == "0"
    assert json.loads(file.read_text())["process"] == second.process.pid


@pytest.mark.parametrize("content", ["", "{", '{"process": 1, "started": "0"}'])
def test_a_file_that_names_nobody_is_in_nobodys_way(two: tuple[Playbook, Playbook], file: Path, content: str) -> None:
    file.write_text(content)
    assert two[0]("take") == "0"


def test_who_is_no_playbook_takes_nothing(tmp_path: Path, file: Path) -> None:
    other = Playbook(tmp_path, file, "something")
    assert other("take") == "0"
    assert not file.exists()
    other.end()
