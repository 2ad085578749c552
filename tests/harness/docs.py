# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents of this repository as data: their headings, links, code and tables.

A block of shell commands has to say what becomes of it, in a comment before it that readers do not see:

* `<!-- run -->`: a test runs it, see tests/scenarios/test_docs.py;
* `<!-- run: long -->`: the same, by `make test-fault`;
* `<!-- not run: REASON -->`: nobody does.

Without a comment each of its commands needs something that is not here, and names it (`ELSEWHERE`).
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PATTERNS = ("*.md", "docs/*.md", "roles/*/README.md", "examples/**/*.md")
#: Written by a program.
GENERATED = {"CHANGELOG.md"}

#: What a command names that needs no comment, and why it is not run.
ELSEWHERE = {
    r"-i inventories/(?:oci|azure|mycluster)\b": "a cluster that is not here",
    r"\b\w+\.example(?:\.org)?\b": "a host that does not exist",
    r"playbooks/sandbox\.yml ": "the scenarios begin with it, and tests/sandbox tries its variables",
}
#: Pages that are one story, which a scenario goes through step by step.
STORIES = {"docs/gitops.md": "tests/scenarios/test_gitops.py"}
_MARK = re.compile(r"<!-- (run|not run)(?:: (.+?))? -->")
_FENCE = re.compile(r"( *)```(\S*)\s*$")


@dataclass
class Block:
    """A fenced block: `mark` is run, not run or empty, and `reason` what stands behind it."""

    page: str
    line: int
    language: str
    mark: str
    reason: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of the block: continued lines joined, comments and empty lines left out."""
        joined = re.sub(r"\\\n\s*", " ", self.text)
        lines = [re.sub(r"\s+#\s.*$", "", line).strip() for line in joined.splitlines()]
        return [line for line in lines if line and not line.startswith("#")]


@dataclass
class Page:
    path: str
    headings: list[str] = field(default_factory=list)
    prose: list[tuple[int, str]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def anchors(self) -> set[str]:
        """The anchors that GitHub gives to the headings."""
        found: set[str] = set()
        for heading in self.headings:
            plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
            number = 0
            while plain + (f"-{number}" if number else "") in found:
                number += 1
            found.add(plain + (f"-{number}" if number else ""))
        return found

    def spans(self) -> Iterator[tuple[int, str]]:
        """Each `piece of code` in the text, with its line. One may go on in the next line."""
        text, starts = "", []
        for _number, line in self.prose:
            starts.append(len(text))
            text += line + "\n"
        for found in re.finditer(r"(?<!`)`((?:[^`\n]|\n(?!\n))+)`(?!`)", text):
            number = self.prose[bisect.bisect_right(starts, found.start()) - 1][0]
            yield number, " ".join(found[1].split()).replace("\\|", "|")

    def tables(self) -> Iterator[tuple[list[str], list[tuple[int, list[str]]]]]:
        """Each table as its head and its numbered rows."""
        rows: list[tuple[int, list[str]]] = []
        for number, line in [*self.prose, (0, "")]:
            if line.startswith("|"):
                rows.append((number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]))
                continue
            if len(rows) > 2:
                yield rows[0][1], rows[2:]
            rows = []

    def links(self) -> Iterator[tuple[int, str]]:
        """The target of each link, with its line."""
        for number, line in self.prose:
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                yield number, target


def read(path: str) -> Page:
    """Read a page, given by its path in the checkout."""
    page = Page(path)
    block: Block | None = None
    indent = ""
    mark = ("", "")
    for number, line in enumerate((CHECKOUT / path).read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if block is not None:
            if fence and not fence[2]:
                page.blocks.append(block)
                block = None
            else:
                block.text += line.removeprefix(indent) + "\n"
        elif fence:
            indent = fence[1]
            block = Block(path, number, fence[2], *mark, "")
            mark = ("", "")
        elif _MARK.search(line):
            found = _MARK.search(line)
            mark = (found[1], found[2] or "")
        else:
            if line.startswith("#"):
                page.headings.append(line.lstrip("#").strip())
            elif line.startswith("    ") and not line.lstrip().startswith(("-", "*", "|")):
                page.blocks.append(Block(path, number, "indented", *mark, line.strip() + "\n"))
            if line.strip():
                mark = ("", "")
            page.prose.append((number, line))
    return page


def pages() -> list[Page]:
    """Every page of the checkout."""
    found = sorted({str(path.relative_to(CHECKOUT)) for pattern in PATTERNS for path in CHECKOUT.glob(pattern)})
    return [read(path) for path in found if path not in GENERATED]
