# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines in the form of NeMo and of Lightning, each on the stream where those put it."""

from __future__ import annotations

import sys
import time


class Report:
    """Says things. All but ``every_rank`` is said by rank 0 only."""

    def __init__(self, rank: int) -> None:
        self._speaks = rank == 0

    def info(self, place: str, text: str) -> None:
        """NeMo's information, on standard output. ``place`` is the module and line that it comes from in NeMo."""
        if self._speaks:
            print(_line("I", place, text), flush=True)

    def warning(self, place: str, text: str) -> None:
        """NeMo's warnings, on standard error."""
        if self._speaks:
            print(_line("W", place, text), file=sys.stderr, flush=True)

    def lightning(self, text: str) -> None:
        """What Lightning says, on standard error."""
        if self._speaks:
            self.every_rank(text)

    @staticmethod
    def every_rank(text: str) -> None:
        """What Lightning says on each rank, on standard error."""
        # One write for the whole line, since all ranks of a job write to one file.
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _line(level: str, place: str, text: str) -> str:
    head, *rest = text.split("\n")
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return "\n".join([f"[NeMo {level} {stamp} {place}] {head}", *(f"    {line}" for line in rest)])
