# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the documents, run as they are written: those of the blocks that tests/harness/docs.py calls so.

They run in a copy of the checkout (links, but for the inventories), whose sandbox has shared storage of its own. So
reports and archives land in the copy, and no run of whoever uses the sandbox is seen or touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.docs import Block, pages
from tests.harness.sandbox import BIN, CHECKOUT, PREFIX, USER

EXAMPLE = "examples/hello_multinode/README.md"
#: The example first: the other pages look at its run.
BLOCKS = sorted(
    (block for page in pages() for block in page.blocks if block.mark == "run"),
    key=lambda block: (block.page != EXAMPLE, block.page, block.line),
)


class Reader:
    """Somebody who types what a page says, in the checkout's folder."""

    def __init__(self, checkout: Path, root: Path) -> None:
        self.checkout = checkout
        self.root = root

    def types(self, command: str) -> str:
        """The output of a command that has to succeed."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_CONFIG": str(self.checkout / "ansible.cfg")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.checkout, env=environment, stdin=subprocess.DEVNULL, check=False, timeout=600,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    root = PREFIX / "shared" / USER / f"docs-{os.getpid()}"
    root.mkdir()
    shutil.chown(root, USER, USER)
    copy = tmp_path_factory.mktemp("checkout")
    for entry in CHECKOUT.iterdir():
        if entry.name != "inventories":
            (copy / entry.name).symlink_to(entry)
    shutil.copytree(CHECKOUT / "inventories", copy / "inventories")
    common = copy / "inventories" / "sandbox" / "group_vars" / "all" / "main.yml"
    text, count = re.subn(r"(?m)^sandbox_shared_root: .*$", f"sandbox_shared_root: {root}", common.read_text())
    assert count == 1
    common.write_text(text)
    yield Reader(copy, root)
    jobs = subprocess.run(
        [str(PREFIX / "bin" / "squeue"), "-h", "-o", "%A %Z"], text=True, capture_output=True, check=True
    )
    for job_id, folder in (line.split(maxsplit=1) for line in jobs.stdout.splitlines()):
        if folder.startswith(f"{root}/"):
            subprocess.run([str(PREFIX / "bin" / "scancel"), job_id], check=False)
    shutil.rmtree(root, ignore_errors=True)


def test_the_example_is_shown_run_and_left_alone(reader: Reader) -> None:
    (block,) = (block for block in BLOCKS if block.page == EXAMPLE)
    look, run, again = block.commands
    output = reader.types(look)
    assert "+srun --label" in output
    assert list(reader.root.iterdir()) == []
    output = reader.types(run)
    assert re.search(r"hello-n2 .* COMPLETED .* 2 x 1 .* 200 of 200 .* succeeded ", output)
    (record,) = reader.root.glob("runs/hello_multinode/hello-n2-*/record.json")
    assert "All ranks 0 to 1 took part" in record.read_text()
    assert (reader.checkout / "reports" / "report.md").is_file()
    before = {path: path.stat().st_mtime_ns for path in [*reader.root.rglob("*"), *reader.checkout.glob("reports/*")]}
    output = reader.types(again)
    assert re.search(r"changed=0 .* failed=0", output)
    assert {
        path: path.stat().st_mtime_ns for path in [*reader.root.rglob("*"), *reader.checkout.glob("reports/*")]
    } == before


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{block.page}:{block.line}", marks=[pytest.mark.long] if block.reason == "long" else [])
        for block in BLOCKS
        if block.page != EXAMPLE
    ],
)
def test_what_a_page_says_works(reader: Reader, block: Block) -> None:
    for command in block.commands:
        reader.types(command)
