# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress bars that look, character for character, like those of tqdm under Lightning and NeMo."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TextIO

_BLOCKS = " ▏▎▍▌▋▊▉█"
_CELLS = 10


def interval(seconds: float) -> str:
    """Seconds as ``MM:SS`` or ``H:MM:SS``, fractions cut off."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def number(value: float) -> str:
    """A metric: three significant digits where that is shorter, padded to five characters."""
    short = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    plain = str(value)
    text = short if len(short) < len(plain) else plain
    if "e" in text:
        return text
    if "." not in text and len(text) < 5:
        text += "."
    return text.ljust(5, "0")


def cells(fraction: float) -> str:
    """A bar of ten cells, in eighths."""
    full, eighths = divmod(int(min(1.0, fraction) * _CELLS * 8), 8)
    return "█" * full + (_BLOCKS[eighths] + " " * (_CELLS - full - 1) if full < _CELLS else "")


class Bar:
    """One bar.

    :param stream: where it is drawn
    :param name: what stands before it at first
    :param below: how many lines below the cursor it is drawn
    """

    def __init__(self, stream: TextIO, name: str, below: int = 0) -> None:
        self._stream, self._name, self._below = stream, name, below
        self._total: int | None = None
        self._count = 0
        self._start = time.monotonic()
        self._width = 0
        self._postfix = ""
        self._draw()

    def reset(self, total: int, name: str) -> None:
        """Start to count up to ``total`` under another name."""
        self._total, self._start = total, time.monotonic()
        self._draw()
        self._name = f"{name}: "
        self._draw()

    def update(self, count: int) -> None:
        """Show that ``count`` are done."""
        self._count = count
        self._draw()

    def metrics(self, values: Mapping[str, float | str]) -> None:
        """Show metrics behind the bar; texts as they are, numbers shortened."""
        shown = (f"{name}={value if isinstance(value, str) else number(value)}" for name, value in values.items())
        self._postfix = ", " + ", ".join(shown)
        self._draw()

    def close(self, leave: bool) -> None:
        """End the bar: leave it on its line, or wipe it away."""
        if leave:
            self._draw()
            self._stream.write("\n")
            self._stream.flush()
        else:
            self._put("")

    def _draw(self) -> None:
        self._put(self._text(time.monotonic() - self._start))

    def _put(self, text: str) -> None:
        pad = " " * max(self._width - len(text), 0)
        self._stream.write("\n" * self._below + f"\r{text}{pad}" + "\x1b[A" * self._below)
        self._stream.flush()
        self._width = len(text)

    def _prefix(self) -> str:
        return self._name if self._name.endswith(": ") else f"{self._name}: "

    def _text(self, elapsed: float) -> str:
        rate = self._count / elapsed if elapsed and self._count else 0.0
        speed = "?it/s" if not rate else f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"
        if self._total is None:
            return f"{self._prefix()}{self._count}it [{interval(elapsed)}, {speed}{self._postfix}]"
        return f"{self._prefix()}{self._middle(elapsed, rate)}, {speed}{self._postfix}]"

    def _middle(self, elapsed: float, rate: float) -> str:
        total = self._total or 0
        done = self._count / total if total else 0.0
        left = interval((total - self._count) / rate) if rate else "?"
        return f"{done * 100:3.0f}%|{cells(done)}| {self._count}/{total} [{interval(elapsed)}<{left}"


class TrainingBar(Bar):
    """NeMo's training bar: as the other, but without the rate and with a colon of its own."""

    def _text(self, elapsed: float) -> str:
        if self._total is None:
            return super()._text(elapsed)
        rate = self._count / elapsed if elapsed and self._count else 0.0
        return f"{self._name}: {self._middle(elapsed, rate)}{self._postfix}]"
