# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of Parquet files. The fixtures are real ones, written by pyarrow 16."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._parquet import ParquetProblem, count_rows

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parquet"


@pytest.mark.parametrize(("name", "rows"), [("plain", 17), ("groups", 17), ("wide", 3), ("empty", 0)])
def test_rows_are_counted(name, rows):
    assert count_rows(str(FIXTURES / f"{name}.parquet")) == rows


def footer(content):
    """A file with this footer."""
    return b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1"


# Field headers: step << 4 | kind. Before num_rows (3), any kind of field has to be passed over.
VERSION = b"\x15\x02"
ROWS = b"\x06\x06\xd0\x0f"  # field 3 given in full, 1000


@pytest.mark.parametrize(
    "before",
    [
        b"",
        VERSION,
        b"\x11\x12",  # true, false: no bytes of their own
        b"\x13\x01",
        b"\x14\x02",
        b"\x17" + b"\0" * 8,
        b"\x18\x03abc",
        b"\x19\x23ab",  # a list of two bytes
        b"\x19\x21\x01\x02",  # of two truth values
        b"\x19\xf3\x10" + b"x" * 16,  # the count on its own
        b"\x1a\x15\x02",  # a set
        b"\x1b\0",  # an empty map
        b"\x1b\x01\x88\x01k\x01v",
        b"\x1c\x15\x02\x1c\0\0",  # structures in structures
    ],
)
def test_what_stands_before_is_passed_over(tmp_path, before):
    path = tmp_path / "x.parquet"
    path.write_bytes(footer(before + ROWS + b"\0"))
    assert count_rows(str(path)) == 1000


@pytest.mark.parametrize(
    "content",
    [
        VERSION + b"\0",  # ends before num_rows
        VERSION,
        b"\x35\x02",  # num_rows of another kind
        b"\x36\x01",  # less than none
        b"\x18\x7fabc",  # longer than there is
        b"\x1d\0" + ROWS,  # a kind that is none
        b"\x16" + b"\xff" * 12,
        b"\x1c" * 200,
    ],
)
def test_a_footer_that_is_none_is_told(tmp_path, content):
    path = tmp_path / "x.parquet"
    path.write_bytes(footer(content))
    with pytest.raises(ParquetProblem, match="has a footer that cannot be read"):
        count_rows(str(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a Parquet file"),
        (b"<html>no such file</html>", "is not a Parquet file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is not a Parquet file"),
        (b"PAR1", "was cut off"),
        (b"PAR1" + b"\0" * 100, "was cut off"),
        (footer(VERSION + ROWS)[:-3], "was cut off"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "was cut off"),
        (b"PAR1\0\0\0\0PAR1", "was cut off"),
    ],
)
def test_another_or_a_cut_file_is_told(tmp_path, content, said):
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(ParquetProblem, match=said):
        count_rows(str(path))


def test_every_cut_of_a_real_file_is_noticed(tmp_path):
    whole = (FIXTURES / "plain.parquet").read_bytes()
    path = tmp_path / "x.parquet"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ParquetProblem):
            count_rows(str(path))
