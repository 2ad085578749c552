# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a training log: printed numbers, durations, progress bars.

Everything here is a pure function of bytes. The shapes are those of ``tqdm`` (``format_meter``, ``format_num``,
``format_interval``) and of Lightning's ``TQDMProgressBar``, which pads short numbers with zeros to five characters.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

# tqdm prints a float with three significant digits whenever that is shorter than the full number.
TQDM_SIGNIFICANT_DIGITS = 3

# No counter of a training run is longer; a longer run of digits is damage.
_MAX_DIGITS = 15

# Escape sequences of terminals: colours and cursor movements (ECMA-48 "CSI" sequences) and two-character ones.
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")

_NUMBER = re.compile(r"[+-]?(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d{1,3}))?$", re.ASCII)
_NOT_A_NUMBER = re.compile(r"[+-]?nan(?:\.0*)?$", re.IGNORECASE)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?(?:\.0*)?$", re.IGNORECASE)

_DURATION = re.compile(rb"(?:(\d{1,6}) days?, )?(?:(\d{1,9}):)?(\d{1,2}):(\d{2})$")

_TIME = rb"(?:\d{1,6} days?, )?\d{1,9}(?::\d{2}){1,2}"

# Inside the brackets of a bar: the elapsed time first. `[`, `|` and line ends mean that two writers were mixed: such a
# bar says nothing.
_INSIDE = rb"\[(" + _TIME + rb"(?=[<,\]])[^\[\]|\r\n]{0,4000})\]"

# From the percent sign on: the drawing, step/total, and a bracket that closes.
BAR = re.compile(rb"%\|[^|\r\n]{0,2000}\| {0,3}(\d{1,15})/(\d{1,15}|\?) " + _INSIDE)

# The form for an unknown total has no drawing: `7it [00:31, 4.36s/it, loss=1.0]`.
OPEN_BAR = re.compile(rb"(?<![\d.])(\d{1,15})it " + _INSIDE)

_ELAPSED = re.compile(_TIME)
_BAR_TIMES = re.compile(rb"\s*(" + _TIME + rb")(?:<(" + _TIME + rb"|\?))?\s*(?:,|$)")
_RATE = re.compile(rb"^(?:(\d{1,9}(?:\.\d+)?)|\?)(s/it|it/s)$")


class Printed(NamedTuple):
    """A number as printed: the true value lies within ``value`` +- ``half_width``.

    ``half_width`` is half a unit of the last digit that can be trusted; padding zeros are not trusted.
    """

    value: float
    half_width: float
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return the three fields, ready for JSON."""
        return {"value": self.value, "half_width": self.half_width, "text": self.text}


class BarText(NamedTuple):
    """What stands inside the brackets of a bar: times in seconds, seconds per step, and the named values."""

    elapsed_seconds: float
    remaining_seconds: float | None
    seconds_per_step: float | None
    values: dict[str, str]


def strip_ansi(data: bytes) -> bytes:
    """Remove terminal escape sequences."""
    if b"\x1b" not in data:
        return data
    return _ANSI.sub(b"", data)


def readable(segment: bytes, limit: int) -> str:
    """Turn raw bytes into one line of printable text of at most ``limit`` characters (the middle is left out)."""
    text = strip_ansi(segment).decode("utf-8", "replace")
    text = _CONTROL.sub(" ", text).replace("\t", " ").strip()
    if len(text) > limit:
        head = limit * 2 // 3
        text = text[:head] + " ... " + text[len(text) - (limit - head - 5) :]
    return text


def is_nan(text: str) -> bool:
    """Tell whether a printed value is "not a number", also in Lightning's padded form ``nan.0``."""
    return _NOT_A_NUMBER.match(text) is not None


def is_infinite(text: str) -> bool:
    """Tell whether a printed value is infinite, also in Lightning's padded forms ``inf.0`` and ``-inf.``."""
    return _INFINITE.match(text) is not None


def parse_number(text: str) -> Printed | None:
    """Read a printed finite number with the precision that its form allows; None when it is not one.

    ``f"{x:.3g}"`` is printed when shorter than ``str(x)``, so a form with an exponent, or with at most three
    significant digits, is trusted to its third digit: ``2e+3`` stands for 1995 to 2005, ``13.40`` for 13.35 to 13.45.
    A longer form is the full number.
    """
    match = _NUMBER.match(text)
    if match is None:
        return None
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return None
    if value == 0.0:
        return Printed(0.0, 0.0, text)
    whole, fraction, bare_fraction, exponent = match.groups()
    whole = (whole or "").lstrip("0")
    fraction = (fraction if fraction is not None else bare_fraction or "").rstrip("0")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) - 1 if whole else -(len(fraction) - len(fraction.lstrip("0"))) - 1
    leading += int(exponent or 0)
    if exponent is not None or len(digits) <= TQDM_SIGNIFICANT_DIGITS:
        last = leading - (max(TQDM_SIGNIFICANT_DIGITS, len(digits)) - 1)
    else:
        last = -len(fraction)
    return Printed(value, float("5e%d" % (last - 1)), text)


def parse_count(text: str) -> int | None:
    """Read a whole number with optional thousands commas; None when it is not one."""
    plain = text.strip().replace(",", "")
    if not plain.isascii() or not plain.isdigit() or len(plain) > _MAX_DIGITS:
        return None
    return int(plain)


def parse_duration(text: bytes) -> float | None:
    """Read ``MM:SS``, ``H:MM:SS`` or ``D days, H:MM:SS`` as seconds; None when it is not one."""
    match = _DURATION.match(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_elapsed(inside: bytes) -> float | None:
    """Read only the elapsed seconds from what stands between the brackets of a bar."""
    match = _ELAPSED.match(inside)
    return parse_duration(match.group()) if match is not None else None


def parse_bar_text(inside: bytes) -> BarText | None:
    """Read what stands between the brackets of a bar; None when it does not begin with an elapsed time."""
    match = _BAR_TIMES.match(inside)
    if match is None:
        return None
    elapsed = parse_duration(match.group(1))
    if elapsed is None:
        return None
    remaining = parse_duration(match.group(2)) if match.group(2) else None
    rate: float | None = None
    values: dict[str, str] = {}
    for item in inside[match.end() :].split(b","):
        key, separator, value = item.strip().partition(b"=")
        if separator:
            values[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        elif rate is None:
            rate = _seconds_per_step(key)
    return BarText(elapsed, remaining, rate, values)


def _seconds_per_step(text: bytes) -> float | None:
    match = _RATE.match(text)
    if match is None or match.group(1) is None:
        return None
    rate = float(match.group(1))
    if match.group(2) == b"s/it":
        return rate
    return 1.0 / rate if rate > 0.0 else None


def compact_ranges(numbers: list[int]) -> str:
    """Write distinct sorted whole numbers as ranges: ``[0, 1, 2, 5]`` becomes ``0-2,5``."""
    parts: list[str] = []
    start: int | None = None
    previous: int | None = None
    for number in numbers:
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None:
            parts.append(str(start) if start == previous else "%d-%d" % (start, previous or 0))
        start = previous = number
    if start is not None:
        parts.append(str(start) if start == previous else "%d-%d" % (start, previous or 0))
    return ",".join(parts)
