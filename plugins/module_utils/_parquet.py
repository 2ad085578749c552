# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many rows a Parquet file has, read from its end. Private to this collection.

A login node need not have pyarrow, and this takes one small read whatever the file's size. The format: the file begins
and ends with ``PAR1``; before the last four bytes stand the length of the footer (4 bytes, little-endian) and the
footer, the structure FileMetaData in Thrift's compact protocol, whose third field is num_rows
(https://github.com/apache/parquet-format, https://github.com/apache/thrift/blob/master/doc/specs).
"""

from __future__ import annotations

import os

MAGIC = b"PAR1"
_TAIL = 8
_LARGEST_FOOTER = 256 * 1024 * 1024
_NUM_ROWS = 3
# Kinds of values in the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 32


class ParquetProblem(Exception):
    """Why the rows cannot be told; the text is the end of a sentence that begins with the file's name."""


def count_rows(path: str) -> int:
    """Return the rows of a file.

    :raises ParquetProblem: it is no Parquet file, or was cut off.
    :raises OSError: it cannot be read.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ParquetProblem("is not a Parquet file")
        if size < len(MAGIC) + _TAIL:
            raise ParquetProblem("was cut off")
        stream.seek(size - _TAIL)
        tail = stream.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or not 0 < length <= min(_LARGEST_FOOTER, size - len(MAGIC) - _TAIL):
            raise ParquetProblem("was cut off: it does not end as a Parquet file does")
        stream.seek(size - _TAIL - length)
        footer = stream.read(length)
    try:
        return _Footer(footer).rows()
    except (IndexError, ValueError):
        raise ParquetProblem("has a footer that cannot be read") from None


class _Footer:
    """A reader of Thrift's compact protocol that knows as much as it takes to pass over what it does not want."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def rows(self) -> int:
        """Return num_rows. Raises ValueError or IndexError where the footer is not what it should be."""
        field = 0
        while True:
            field, kind = self._field(field)
            if kind == 0:
                raise ValueError("no num_rows")
            if field == _NUM_ROWS:
                rows = self._whole()
                if kind != _I64 or rows < 0:
                    raise ValueError("no count")
                return rows
            self._skip(kind, 0)

    def _byte(self) -> int:
        value = self._data[self._place]
        self._place += 1
        return value

    def _plain(self) -> int:
        """Read a number of 7 bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("too long a number")

    def _whole(self) -> int:
        """Read a number with a sign, which is its lowest bit."""
        value = self._plain()
        return (value >> 1) ^ -(value & 1)

    def _field(self, before: int) -> tuple[int, int]:
        """Return the number and the kind of the next field; kind 0 ends the structure."""
        head = self._byte()
        kind = head & 0x0F
        if kind == 0:
            return before, 0
        step = head >> 4
        return (before + step if step else self._whole()), kind

    def _skip(self, kind: int, depth: int, element: bool = False) -> None:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        if kind in (_TRUE, _FALSE):
            # As a field, its kind is its value; in a list it takes a byte.
            self._place += 1 if element else 0
        elif kind == _BYTE:
            self._place += 1
        elif kind in (_I16, _I32, _I64):
            self._plain()
        elif kind == _DOUBLE:
            self._place += 8
        elif kind == _BINARY:
            # The length first: reading it moves the place.
            length = self._plain()
            self._place += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4
            for _number in range(count if count < 15 else self._plain()):
                self._skip(head & 0x0F, depth + 1, True)
        elif kind == _MAP:
            count = self._plain()
            kinds = self._byte() if count else 0
            for _number in range(count):
                self._skip(kinds >> 4, depth + 1, True)
                self._skip(kinds & 0x0F, depth + 1, True)
        elif kind == _STRUCT:
            field = 0
            while True:
                field, inner = self._field(field)
                if inner == 0:
                    break
                self._skip(inner, depth + 1)
        else:
            raise ValueError("unknown kind")
        if self._place > len(self._data):
            raise IndexError
