# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the log of a training job, of any size, in constant memory. Private to this collection.

The entrance to the files beside it: ``_training_log_reader.py`` reads a log from its first byte, by rules that its
header lists; ``_training_log_bars.py`` knows how the frameworks draw their progress, ``_training_log_text.py`` what
stands in a bar, ``_training_log_lines.py`` what other lines tell, ``_training_log_failures.py`` what the known failures
write; ``_training_log_attempt.py`` gathers, and ``_training_log_facts.py`` is what comes of it. Here are also the end
of a log, for the live progress, and its last lines, for a message.
"""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_bars import (
    LOG_FORMATS,
    iteration_bars,
    last_training_bar,
    open_bars,
    style_of,
    text_before,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_facts import (
    STOP_COMPLETED,
    STOP_MAX_STEPS,
    STOP_MAX_TIME,
    Failure,
    LogFacts,
    Progress,
    StepTiming,
    merge_facts,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_reader import (
    BLOCK_BYTES,
    EVIDENCE_CHARACTERS,
    Reader,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_text import (
    parse_bar_text,
    parse_number,
    readable,
    strip_ansi,
)

# Live progress is in the last bytes of a log: one bar has some 200, and other ranks may write between.
TAIL_BYTES = 64 * 1024


def read_log(chunks: Iterable[bytes], log_format: str) -> LogFacts:
    """Read a log given in pieces of any size.

    ``log_format`` is ``nemo``, ``huggingface`` or ``none`` (failures and ranks only). Any bytes are accepted. Raises
    ValueError for an unknown format.
    """
    reader = Reader(log_format)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def tail_progress(read_tail: bytes | Callable[[], bytes], log_format: str, total: int | None = None) -> Progress | None:
    """Return the progress that the last whole training bar in the last bytes of a log shows; None without one.

    ``read_tail`` gives those bytes, or is a function that reads them; they may begin in the middle of a line. ``total``
    is the number of steps to expect: with it, bars of another length (evaluations of Hugging Face's Trainer have no
    name) are passed over. Raises ValueError for an unknown format.
    """
    style = style_of(log_format)
    if not style.has_bars:
        return None
    data = strip_ansi(read_tail if isinstance(read_tail, bytes) else read_tail())
    progress_bar = last_training_bar(data, style, total)
    if progress_bar is None and log_format == "nemo":
        bars = [
            progress_bar
            for progress_bar in open_bars(data)
            if style.bar_kind(text_before(data, progress_bar.start))[0] == "train"
        ]
        bars = bars or list(iteration_bars(data))
        progress_bar = bars[-1] if bars else None
    if progress_bar is None:
        return None
    text = parse_bar_text(progress_bar.inside)
    if text is None:
        return None
    loss: float | None = None
    for key in style.loss_keys:
        number = parse_number(text.values[key]) if key in text.values else None
        if number is not None:
            loss = number.value
            break
    seconds = text.seconds_per_step
    key = style.timing_key or ""
    timing = parse_number(text.values[key]) if key in text.values else None
    if timing is not None:
        seconds = timing.value
    elif seconds is None and progress_bar.step > 0 and text.elapsed_seconds > 0.0:
        seconds = text.elapsed_seconds / progress_bar.step
    remaining = text.remaining_seconds
    if remaining is None and seconds is not None and progress_bar.total is not None:
        remaining = max(0.0, seconds * (progress_bar.total - progress_bar.step))
    return Progress(progress_bar.step, progress_bar.total, seconds, loss, text.elapsed_seconds, remaining)


def read_log_file(path: str, log_format: str) -> LogFacts:
    """Read one log file in constant memory. Raises OSError when it cannot be read, ValueError for a bad format."""
    with open(path, "rb", buffering=0) as stream:
        return read_log(iter(lambda: stream.read(BLOCK_BYTES), b""), log_format)


def read_log_files(paths: Sequence[str], log_format: str) -> LogFacts | None:
    """Read the log files of one job and join their facts; a file that does not exist is left out.

    Returns None when none of them exists. Raises OSError when one exists and cannot be read.
    """
    parts = []
    for path in paths:
        try:
            parts.append(read_log_file(path, log_format))
        except FileNotFoundError:
            continue
    return merge_facts(parts) if parts else None


def read_log_tail(path: str, size: int = TAIL_BYTES) -> bytes:
    """Return the last ``size`` bytes of a file. Raises OSError when it cannot be read."""
    with open(path, "rb", buffering=0) as stream:
        end = stream.seek(0, 2)
        stream.seek(max(0, end - size))
        pieces = []
        missing = size
        while missing > 0:
            piece = stream.read(missing)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
    return b"".join(pieces)


def last_lines(path: str, count: int) -> list[str]:
    """Return the last ``count`` lines of a file for a message: a redrawn bar shows its last drawing only.

    Raises OSError when the file cannot be read.
    """
    return tail_lines(read_log_tail(path), count)


def tail_lines(data: bytes, count: int) -> list[str]:
    """Return the last ``count`` lines that say something; of redrawn text the last drawing, each of bounded length."""
    lines: list[str] = []
    if count <= 0:
        return lines
    for line in reversed(data.split(b"\n")):
        drawings = [drawing for drawing in line.split(b"\r") if drawing.strip()]
        text = readable(drawings[-1], EVIDENCE_CHARACTERS) if drawings else ""
        if text:
            lines.append(text)
            if len(lines) == count:
                break
    lines.reverse()
    return lines


__all__ = [
    "LOG_FORMATS",
    "STOP_COMPLETED",
    "STOP_MAX_STEPS",
    "STOP_MAX_TIME",
    "Failure",
    "LogFacts",
    "Progress",
    "StepTiming",
    "last_lines",
    "merge_facts",
    "read_log",
    "read_log_file",
    "read_log_files",
    "read_log_tail",
    "tail_lines",
    "tail_progress",
]
