# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a file is a whole squashfs image. Private to this collection.

A cut file has the right magic number, and ``unsquashfs -s`` answers 0 to it; a killed mksquashfs leaves a superblock of
zeros. So three things are looked at: the superblock, the file's size against what the superblock says, and all tables
at the end of the file, by listing every name. The blocks of data are not read: they lie before the tables, so a file
whose tables are whole was written, or was carried over with a check sum, as a whole.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from typing import Mapping, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._process import NOT_FOUND, TIMED_OUT, Run, last_line

# magic, inodes, time, block size, fragments, compressor, log2 of the block size, flags, ids, version (major, minor),
# root inode, bytes used, and the starts of the tables: ids, attributes, inodes, directories, fragments, exports
_SUPERBLOCK = struct.Struct("<5I6H8Q")
_MAGIC = 0x73717368
# mksquashfs fills up to this, so that the file can be mounted through a loop device; -nopad leaves it out.
_PADDING = 4096
_ABSENT = 0xFFFFFFFFFFFFFFFF
LISTING_SECONDS = 1800.0


class Superblock(NamedTuple):
    """What the first 96 bytes tell: bytes used, and where the tables begin."""

    bytes_used: int
    tables_start: int


class NotWhole(Exception):
    """A file is not a whole squashfs image; the text goes behind the file's name."""


def read_superblock(path: str) -> Superblock:
    """Read and judge the superblock, and the size of the file against it.

    :raises NotWhole: what is wrong. :raises OSError: it cannot be read.
    """
    with open(path, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotWhole("is not a regular file")
        head = stream.read(_SUPERBLOCK.size)
    if not head:
        raise NotWhole("is empty")
    if not head.strip(b"\0"):
        raise NotWhole("begins with zeros: mksquashfs was ended before it had finished")
    if head[:4] != struct.pack("<I", _MAGIC)[: len(head)]:
        raise NotWhole("is not a squashfs file")
    if len(head) < _SUPERBLOCK.size:
        raise NotWhole("is cut: it has {0} bytes".format(len(head)))
    fields = _SUPERBLOCK.unpack(head)
    major, used = fields[9], fields[12]
    tables = [start for start in fields[13:] if start != _ABSENT]
    if major != 4:
        raise NotWhole("is squashfs of version {0}, which current systems do not read".format(major))
    if used < _SUPERBLOCK.size or not tables or max(tables) > used:
        raise NotWhole("has a superblock that contradicts itself")
    padded = -(-used // _PADDING) * _PADDING
    if status.st_size < used or used < status.st_size < padded:
        raise NotWhole("is cut: it has {0} of {1} bytes".format(status.st_size, padded))
    return Superblock(used, min(tables))


def prove(path: str, run: Run, environment: Mapping[str, str], need_listing: bool = True) -> None:
    """Prove that a file is a whole image.

    :param need_listing: whether a missing unsquashfs is an error; otherwise the superblock has to do then.
    :raises NotWhole: it is not. :raises OSError: it cannot be read, or unsquashfs is missing.
    """
    read_superblock(path)
    # Its list of a large image is tens of megabytes, which nobody needs.
    command = ["/bin/sh", "-c", 'exec unsquashfs -l "$1" > /dev/null', "sh", path]
    answer = run(command, environment, None, LISTING_SECONDS)
    if answer.code == TIMED_OUT:
        raise OSError(0, "unsquashfs did not list it within {0:.0f} seconds".format(LISTING_SECONDS), path)
    if answer.code == NOT_FOUND:
        if need_listing:
            raise OSError(0, "there is no unsquashfs to prove it with; install squashfs-tools", path)
        return
    if answer.code != 0:
        raise NotWhole("cannot be listed: {0}".format(last_line(answer.text) or "unsquashfs failed"))


def fingerprint(path: str) -> str:
    """Return a digest over superblock and tables, which tell the time of making and the length of every block.

    It identifies an image of 20 GB by reading some megabytes of it.
    """
    block = read_superblock(path)
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        digest.update(stream.read(_SUPERBLOCK.size))
        stream.seek(block.tables_start)
        left = block.bytes_used - block.tables_start
        while left > 0:
            piece = stream.read(min(left, 1 << 20))
            if not piece:
                raise NotWhole("is cut")
            digest.update(piece)
            left -= len(piece)
    return "squashfs-tables:" + digest.hexdigest()


def sha256(path: str) -> str:
    """Return the digest of a whole file, in constant memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            piece = stream.read(1 << 22)
            if not piece:
                return digest.hexdigest()
            digest.update(piece)
