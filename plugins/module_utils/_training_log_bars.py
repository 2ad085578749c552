# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the frameworks write their progress, and how their bars are found in bytes. Private to this collection.

A bar is read as a whole, from its percent sign to its closing bracket; halves say nothing.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Match, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_text import BAR, OPEN_BAR

# How far from a found string its segment may reach.
SEGMENT_REACH_BYTES = 8192
# Bars looked at from the end of a piece of log to find the last one of the training.
LAST_BAR_LOOKS = 256
# What may stand before the percent sign of a bar: the rank and the bar's name.
BAR_WORDS_BYTES = 120
LOG_FORMATS = ("nemo", "huggingface", "none")


class Bar(NamedTuple):
    step: int
    total: int | None
    inside: bytes
    start: int
    end: int


class Style(NamedTuple):
    """How one framework writes its logs."""

    name: str
    # Kind of a bar by the text before its percent sign: "train", "validation" or None, and its epoch.
    bar_kind: Callable[[bytes], tuple[str | None, int | None]]
    loss_keys: tuple[str, ...]
    timing_key: str | None
    # The same as they stand in a bar.
    loss_marks: tuple[bytes, ...]
    timing_mark: bytes
    # Strings that mark an interesting line wherever it is; and those looked for in fully scanned blocks only.
    tokens_anywhere: tuple[bytes, ...]
    tokens_scanned: tuple[bytes, ...]
    has_bars: bool


_NEMO_TRAIN = re.compile(rb"Epoch (\d{1,9}):[ :]*\d{0,3}$")
_NEMO_VALIDATION = re.compile(rb"Validation(?: DataLoader \d+)?:[ :]*\d{0,3}$|Validating:[ :]*\d{0,3}$")
_PLAIN_BAR = re.compile(rb"^\s*(?:0*\d{1,6}: ?)?\s*\d{1,3}$")
_NEMO_ITERATION = re.compile(rb"Training epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,12}) \| ([^\r\n]{0,4000})")


def _nemo_bar_kind(before: bytes) -> tuple[str | None, int | None]:
    match = _NEMO_TRAIN.search(before)
    if match is not None:
        return "train", int(match.group(1))
    if _NEMO_VALIDATION.search(before) is not None:
        return "validation", None
    return None, None


def _huggingface_bar_kind(before: bytes) -> tuple[str | None, int | None]:
    return ("train", None) if _PLAIN_BAR.match(before) else (None, None)


def _no_bar_kind(before: bytes) -> tuple[str | None, int | None]:
    return None, None


_FORMATS: dict[str, Style] = {
    "nemo": Style(
        name="nemo",
        bar_kind=_nemo_bar_kind,
        loss_keys=("reduced_train_loss", "train_loss", "loss"),
        timing_key="train_step_timing in s",
        loss_marks=(b"reduced_train_loss=", b"train_loss=", b"loss="),
        timing_mark=b"train_step_timing in s=",
        tokens_anywhere=(
            b"distributed: GLOBAL_RANK: ",
            b"`Trainer.fit` stopped: ",
            b"Time limit reached. Elapsed time is ",
        ),
        tokens_scanned=(
            b"GLOBAL_RANK: ",
            b"Process ID: ",
            b"Node ID ",
            b"Trainer",
            b" processes",
            b"states from the",
            b"Experiment configuration",
            b"NCCL INFO Bootstrap ",
        ),
        has_bars=True,
    ),
    "huggingface": Style(
        name="huggingface",
        bar_kind=_huggingface_bar_kind,
        loss_keys=("loss",),
        timing_key=None,
        loss_marks=(),
        timing_mark=b"",
        tokens_anywhere=(b"***** Running training", b"'epoch': ", b"Training completed. Do"),
        tokens_scanned=(
            b"GLOBAL_RANK: ",
            b"Process ID: ",
            b"Node ID ",
            b"***** Running ",
            b"NCCL INFO Bootstrap ",
            b"  Num examples",
            b"  Num Epochs",
            b"  Instantaneous batch",
            b"  Total train batch",
            b"  Gradient Accum",
            b"  Total optimization",
            b"  Number of trainable",
            b"Num processes: ",
            b"Continuing training from",
        ),
        has_bars=True,
    ),
    "none": Style(
        name="none",
        bar_kind=_no_bar_kind,
        loss_keys=(),
        timing_key=None,
        loss_marks=(),
        timing_mark=b"",
        tokens_anywhere=(b"distributed: GLOBAL_RANK: ",),
        tokens_scanned=(b"GLOBAL_RANK: ", b"Process ID: ", b"Node ID ", b" processes", b"NCCL INFO Bootstrap "),
        has_bars=False,
    ),
}


def style_of(log_format: str) -> Style:
    try:
        return _FORMATS[log_format]
    except KeyError:
        raise ValueError("log_format is '%s', but must be one of %s" % (log_format, ", ".join(LOG_FORMATS))) from None


def text_before(block: bytes, at: int) -> bytes:
    """Return what stands before a place on its line, at most ``BAR_WORDS_BYTES``."""
    before = block[max(0, at - 120) : at]
    return before[max(before.rfind(b"\r"), before.rfind(b"\n")) + 1 :]


def bar_at(block: bytes, at: int) -> Bar | None:
    """Return the whole bar whose percent sign is at this place, or None."""
    match = BAR.match(block, at)
    return None if match is None else bar_of(match)


def bar_of(match: Match[bytes]) -> Bar:
    step, total, inside = match.groups()
    return Bar(int(step), None if total == b"?" else int(total), inside, match.start(), match.end())


def last_training_bar(block: bytes, style: Style, total: int | None) -> Bar | None:
    """Return the last whole training bar of a block (with this total, if one is given), or None."""
    at = block.rfind(b"%|")
    # Other bars may follow it (a validation, other programs), but not thousands of them.
    for _look in range(LAST_BAR_LOOKS):
        if at < 0:
            return None
        progress_bar = bar_at(block, at)
        if (
            progress_bar is not None
            and (total is None or progress_bar.total == total)
            and style.bar_kind(text_before(block, at))[0] == "train"
        ):
            return progress_bar
        at = block.rfind(b"%|", 0, at)
    return None


def open_bars(block: bytes) -> Iterator[Bar]:
    """Yield the bars of a training whose number of steps is unknown: ``7it [...]``."""
    at = block.find(b"it [")
    while at >= 0:
        start = at
        while start > 0 and at - start < 16 and 48 <= block[start - 1] <= 57:
            start -= 1
        match = OPEN_BAR.match(block, start)
        if match is not None:
            yield Bar(int(match.group(1)), None, match.group(2), start, match.end())
        at = block.find(b"it [", at + 4)


def iteration_bars(block: bytes) -> Iterator[Bar]:
    """Yield the lines of newer NeMo versions that print a line for each step, written as bars.

    They count from zero and show the last index where a bar shows the number of steps; they have no clock.
    """
    at = block.find(b", iteration ")
    while at >= 0:
        start = max(0, block.rfind(b"\n", max(0, at - 200), at) + 1)
        match = _NEMO_ITERATION.search(block, start, min(len(block), at + SEGMENT_REACH_BYTES))
        if match is not None and match.end() < len(block):
            values = match.group(4).replace(b": ", b"=").replace(b" | ", b", ")
            yield Bar(int(match.group(2)) + 1, int(match.group(3)) + 1, b"00:00, " + values, match.start(), match.end())
        at = block.find(b", iteration ", at + 1)
