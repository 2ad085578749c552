# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the words of a training log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils import _training_log_text as text


@pytest.mark.parametrize(
    ("printed", "value", "half_width"),
    [
        ("5.640", 5.64, 0.005),  # padded: three digits are known
        ("13.40", 13.4, 0.05),
        ("0.615", 0.615, 0.0005),
        ("0.500", 0.5, 0.0005),
        ("179.0", 179.0, 0.5),
        ("100.0", 100.0, 0.5),
        ("12.00", 12.0, 0.05),
        ("1234.0", 1234.0, 0.5),
        ("92160.0", 92160.0, 0.5),
        ("2e+3", 2000.0, 5.0),  # stands for 1995 to 2005
        ("9e+3", 9000.0, 5.0),
        ("1.63e+6", 1.63e6, 5e3),
        ("2.56e+05", 2.56e5, 500.0),
        ("1.23e-5", 1.23e-5, 5e-8),
        ("0.000", 0.0, 0.0),
        ("10.917", 10.917, 0.0005),
        (".5", 0.5, 0.0005),
        ("-0.25", -0.25, 0.0005),
    ],
)
def test_a_number_carries_its_printed_precision(printed: str, value: float, half_width: float) -> None:
    number = text.parse_number(printed)
    assert number is not None
    assert number.value == value
    assert number.half_width == pytest.approx(half_width, rel=1e-12)


@pytest.mark.parametrize(
    "printed",
    ["", "nan", "nan.0", "inf", "-inf.", "m9yd", "0-56", "5.6global_step=1", "1.2.3", "1e", "1e+999", "٣", "1_0"],
)
def test_what_is_no_finite_number(printed: str) -> None:
    assert text.parse_number(printed) is None


@pytest.mark.parametrize("printed", ["nan", "NaN", "-nan", "nan.0", "nan."])
def test_nan_in_every_spelling(printed: str) -> None:
    assert text.is_nan(printed)
    assert not text.is_infinite(printed)


@pytest.mark.parametrize("printed", ["inf", "-inf", "inf.0", "-inf.", "Infinity"])
def test_infinity_in_every_spelling(printed: str) -> None:
    assert text.is_infinite(printed)
    assert not text.is_nan(printed)


def _tqdm_number(number: float) -> str:
    """Print as tqdm and Lightning do: three digits if that is shorter, padded to five characters."""
    short = f"{number:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    printed = short if len(short) < len(str(number)) else str(number)
    if "e" not in printed:
        if "." not in printed and len(printed) < 5:
            printed += "."
        printed += "0" * (5 - len(printed))
    return printed


@given(st.one_of(st.integers(0, 10**9).map(float), st.floats(1e-6, 1e9)))
def test_the_true_value_lies_within_the_precision(number: float) -> None:
    parsed = text.parse_number(_tqdm_number(number))
    assert parsed is not None
    assert abs(parsed.value - number) <= parsed.half_width * (1 + 1e-9)


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [
        (b"00:00", 0.0),
        (b"40:46", 2446.0),
        (b"1:42:42", 6162.0),
        (b"37:16:04", 134164.0),
        (b"1573:03:24", 5663004.0),
        (b"1 day, 0:00:03", 86403.0),
        (b"2 days, 1:00:00", 176400.0),
    ],
)
def test_durations(printed: bytes, seconds: float) -> None:
    assert text.parse_duration(printed) == seconds


@pytest.mark.parametrize("printed", [b"", b"?", b"40", b"40:4", b"1:2:3:4", b"aa:bb", b"-1:00"])
def test_what_is_no_duration(printed: bytes) -> None:
    assert text.parse_duration(printed) is None


def test_counts_with_thousands_commas() -> None:
    assert text.parse_count("15,406") == 15406
    assert text.parse_count(" 7,733,248") == 7733248
    assert text.parse_count("15.406") is None
    assert text.parse_count("") is None


@pytest.mark.parametrize(
    ("inside", "elapsed", "remaining", "rate", "values"),
    [
        (b"00:00<?", 0.0, None, None, {}),
        (b"27:08<00:00, 12.72s/it", 1628.0, 0.0, 12.72, {}),
        (b"00:31<00:00,  4.00it/s, loss=10.9, v_num=", 31.0, 0.0, 0.25, {"loss": "10.9", "v_num": ""}),
        (b"00:04,  4.36s/it, v_num=d3c7", 4.0, None, 4.36, {"v_num": "d3c7"}),
        (b"00:00<?, ?it/s", 0.0, None, None, {}),
        (b"1 day, 0:00:03<00:10, train_step_timing in s=1.5", 86403.0, 10.0, None, {"train_step_timing in s": "1.5"}),
    ],
)
def test_the_inside_of_a_bar(
    inside: bytes, elapsed: float, remaining: float | None, rate: float | None, values: dict[str, str]
) -> None:
    assert text.parse_bar_text(inside) == text.BarText(elapsed, remaining, rate, values)


def test_the_inside_of_something_else_is_no_bar() -> None:
    assert text.parse_bar_text(b"INFO|trainer.py:2044") is None


def test_ansi() -> None:
    assert text.strip_ansi(b"\x1b[32mloss\x1b[0m: 1.0\x1b[A") == b"loss: 1.0"


def test_evidence_is_one_bounded_line() -> None:
    line = text.readable(b"a\x00b\tc\xe2\x96" + b"x" * 1000, 100)
    assert len(line) == 100
    assert "\x00" not in line
    assert " ... " in line


def test_ranges() -> None:
    assert text.compact_ranges([]) == ""
    assert text.compact_ranges([0]) == "0"
    assert text.compact_ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
