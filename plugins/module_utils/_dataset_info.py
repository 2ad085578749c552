# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is a file of training data whole, and how many examples does it have? Private to this collection.

A file is read once, piece by piece, so that its size does not matter. What is looked for is what really goes wrong: the
text that Git LFS leaves in the place of a file, an upload or a clone that was cut off, the wrong file.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Iterator, Mapping, Sequence

#: JSON objects, one a line or all in one list, as the library datasets takes both; one example a line of any text; and
#: a file in which nothing is counted.
FORMATS = ("json", "lines", "opaque")

PRESENT, PENDING, ABSENT, WRONG = "present", "pending", "absent", "wrong"

_BLOCK = 1 << 20
#: The longest example, in bytes (in a list: characters). A longer one is a file of another kind.
_EXAMPLE_MOST = 16 << 20
#: Git LFS's specification: a pointer is shorter than 1024 bytes and begins with this.
_LFS_BEGIN = b"version https://git-lfs.github.com/spec/"
_LFS_MOST = 1024
_NO_BLANK = re.compile(r"\S")
_LFS_SIZE = re.compile(rb"^size ([0-9]+)$", re.MULTILINE)


@dataclass
class DataFile:
    """One file that a training needs.

    ``keys`` are dotted names that every JSON object must have, such as ``translation.en``. ``examples`` is their number
    if it is known, and ``examples_of`` says of what, in words. ``optional`` files may be missing. ``made_with`` is a
    folder that an earlier task makes: while nothing may be changed, a file that is missing together with that folder is
    one that will come with it.
    """

    path: str
    format: str = "json"
    keys: Sequence[str] = ()
    examples: int | None = None
    examples_of: str = ""
    optional: bool = False
    made_with: str = ""
    remedy: str = ""


@dataclass
class FileFacts:
    """What a file is. ``examples`` and ``sha256`` are None unless it is present and whole."""

    path: str
    state: str
    examples: int | None = None
    bytes: int | None = None
    sha256: str | None = None
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(self.__dict__)


class _Reader:
    """A stream of which all that is read is counted and digested."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.bytes = 0
        self._digest = hashlib.sha256()

    def block(self) -> bytes:
        """Return the next piece; b"" at the end."""
        return self._seen(self._stream.read(_BLOCK))

    def lines(self) -> Iterator[bytes]:
        """Give the lines with their line feeds, which only the last may lack, or a piece of one that is too long."""
        for line in iter(lambda: self._stream.readline(_EXAMPLE_MOST + 1), b""):
            yield self._seen(line)

    def sha256(self) -> str:
        """Return the digest of what was read."""
        return self._digest.hexdigest()

    def _seen(self, piece: bytes) -> bytes:
        self.bytes += len(piece)
        self._digest.update(piece)
        return piece


class _Problem(Exception):
    """What is wrong with a file, as the end of a sentence that begins with its path."""


def look(wanted: DataFile, rehearsal: bool) -> FileFacts:
    """Look at one file.

    :param rehearsal: whether nothing may be changed, so that what an earlier task makes may be missing.
    :raises OSError: if it cannot be read for a reason that says nothing about its content.
    """
    path = wanted.path
    try:
        size = os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        if rehearsal and wanted.made_with and not os.path.lexists(wanted.made_with):
            return FileFacts(path, PENDING)
        if wanted.optional:
            return FileFacts(path, ABSENT)
        return FileFacts(path, WRONG, message=_sentence(wanted, "is not there"))
    if os.path.isdir(path):
        return FileFacts(path, WRONG, message=_sentence(wanted, "is a folder and not a file"))
    with open(path, "rb") as stream:
        reader = _Reader(stream)
        try:
            head = stream.read(_LFS_MOST)
            _refuse_foreign(head, size)
            stream.seek(0)
            examples = _count(reader, wanted, head.lstrip()[:1] == b"[")
        except _Problem as problem:
            return FileFacts(path, WRONG, bytes=size, message=_sentence(wanted, str(problem)))
    return FileFacts(path, PRESENT, examples, reader.bytes, reader.sha256())


def _sentence(wanted: DataFile, problem: str) -> str:
    remedy = wanted.remedy or "bring it there anew"
    return "{0} {1}: {2}.".format(wanted.path, problem, remedy)


def _refuse_foreign(head: bytes, size: int) -> None:
    """Raise _Problem if the head shows that there is something in the place of data."""
    if size == 0:
        raise _Problem("is empty")
    if size < _LFS_MOST and head.startswith(_LFS_BEGIN):
        told = _LFS_SIZE.search(head)
        raise _Problem(
            "is the {0} bytes that Git LFS leaves in the place of a file{1} where git-lfs is not installed".format(
                size, " of {0} bytes".format(int(told[1])) if told else ""
            )
        )
    if not head.strip(b"\0"):
        raise _Problem("begins with nothing but zeros, as a file does whose blocks were never written")


def _count(reader: _Reader, wanted: DataFile, one_list: bool) -> int | None:
    """Read all and return the number of examples. Raises _Problem."""
    if wanted.format == "opaque":
        while reader.block():
            pass
        return None
    counted = _count_list(reader, wanted) if wanted.format == "json" and one_list else _count_lines(reader, wanted)
    if not counted:
        raise _Problem("has no example")
    if wanted.examples is not None and counted != wanted.examples:
        raise _Problem(
            "{0} {1} examples of the {2}{3}".format(
                "is not whole: it has" if counted < wanted.examples else "is another file: it has",
                counted,
                wanted.examples,
                " of " + wanted.examples_of if wanted.examples_of else " that are expected",
            )
        )
    return counted


def _count_lines(reader: _Reader, wanted: DataFile) -> int:
    counted = 0
    for number, line in enumerate(reader.lines(), start=1):
        if len(line) > _EXAMPLE_MOST:
            raise _Problem("has a line {0} of more than {1} bytes, which is no example".format(number, _EXAMPLE_MOST))
        if not line.strip():
            # Readers pass over empty lines, and so does the count.
            continue
        counted += 1
        if wanted.format == "json":
            try:
                example = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                # Only the last line may lack its line feed, and a broken one there is where something was cut off.
                cut = not line.endswith(b"\n")
                raise _Problem(
                    "was cut off in line {0}".format(number) if cut else "has a line {0} that is no JSON".format(number)
                ) from None
            _refuse_stranger(example, wanted, "a line {0}".format(number))
    return counted


def _count_list(reader: _Reader, wanted: DataFile) -> int:
    """Count the objects of one JSON list, of which only the one that is looked at is held."""
    decoder = json.JSONDecoder()
    text = _Text(reader)
    text.position = text.next_character() + 1
    counted = 0
    while True:
        begin = text.next_character()
        if begin < 0:
            raise _Problem("was cut off after {0} examples, before the end of its list".format(counted))
        if text.held[begin] == "]":
            break
        if counted:
            if text.held[begin] != ",":
                raise _Problem("has no comma behind example {0} of its list".format(counted))
            text.position = begin + 1
            begin = text.next_character()
        counted += 1
        example, text.position = _object(decoder, text, begin, counted)
        _refuse_stranger(example, wanted, "an example {0} of its list".format(counted))
    text.position = begin + 1
    if text.next_character() >= 0:
        raise _Problem("goes on behind the end of its list")
    return counted


def _object(decoder: json.JSONDecoder, text: _Text, begin: int, number: int) -> tuple[Any, int]:
    """Return the value that begins there and where it ends. Raises _Problem."""
    text.position = max(begin, 0)
    while True:
        try:
            if begin < 0:
                raise ValueError
            return decoder.raw_decode(text.held, text.position)
        except (ValueError, RecursionError):
            if text.length() > _EXAMPLE_MOST:
                raise _Problem("has an example {0} in its list that is no JSON".format(number)) from None
            if not text.more():
                raise _Problem("was cut off in example {0} of its list".format(number)) from None


class _Text:
    """The text of a file from a position on, of which no more is held than is needed."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.held = ""
        self.position = 0

    def length(self) -> int:
        """Return how many characters are held from the position on."""
        return len(self.held) - self.position

    def more(self) -> bool:
        """Read a piece, and let go of what lies before the position. False at the end."""
        block = self._reader.block()
        self.held = self.held[self.position :] + self._decoder.decode(block, not block)
        self.position = 0
        return bool(block)

    def next_character(self) -> int:
        """Move to the next character that is no blank; return its place, -1 at the end."""
        while True:
            match = _NO_BLANK.search(self.held, self.position)
            if match:
                self.position = match.start()
                return self.position
            self.position = len(self.held)
            if not self.more():
                return -1


def _refuse_stranger(example: Any, wanted: DataFile, where: str) -> None:
    """Raise _Problem if an example is no object with the keys."""
    if not isinstance(example, dict):
        raise _Problem("has {0} that is no JSON object".format(where))
    for key in wanted.keys:
        value: Any = example
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            raise _Problem("has {0} without {1}, so it is another kind of data".format(where, key))


def problems_of(wanted: Sequence[DataFile]) -> list[str]:
    """Return what is wrong with the request itself."""
    found = []
    for one in wanted:
        if not os.path.isabs(one.path):
            found.append("files has the path {0!r}: give an absolute path.".format(one.path))
        if one.format not in FORMATS:
            found.append("files has the format {0!r}: give one of {1}.".format(one.format, ", ".join(FORMATS)))
    return found
