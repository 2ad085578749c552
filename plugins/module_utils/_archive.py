# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpacking an archive that somebody else made, without trusting its names. Private to this collection."""

from __future__ import annotations

import contextlib
import lzma
import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from typing import IO, Callable, Generator, cast

_BLOCK = 1024 * 1024


class ArchiveProblem(Exception):
    """Why an archive cannot be unpacked; the text is the end of a sentence that begins with its address."""


def kind_of(path: str) -> str:
    """Return ``zip``, ``tar`` (compressed or not) or an empty text."""
    if zipfile.is_zipfile(path):
        return "zip"
    with open(path, "rb") as stream:
        head = stream.read(512)
    if head[:2] == b"PK":
        # A zip file whose end, with the list of its members, is missing.
        return "zip"
    compressed = head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"))
    return "tar" if compressed or head[257:262] == b"ustar" else ""


def unpack(path: str, folder: str, root: str, alive: Callable[[], None]) -> int:
    """Write the archive's files below a folder that is there and empty, and read the archive to its end.

    :param root: the folder in the archive that holds the data, with '/' between its parts; empty for all of it.
    :param alive: called again and again while there is progress.
    :return: the number of files. Modes, owners and times are not taken over.
    :raises ArchiveProblem: it is none, is broken or cut off, or has names that lead elsewhere.
    :raises OSError: the storage is full, or not to be written to.
    """
    kind = kind_of(path)
    if not kind:
        raise ArchiveProblem("is neither a tar nor a zip archive")
    members = _tar_members if kind == "tar" else _zip_members
    count = 0
    try:
        with contextlib.closing(members(path)) as listed:
            for name, stream in listed:
                inner = _inner_name(name, root)
                if inner is None:
                    continue
                target = os.path.join(folder, *inner.split("/"))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _write(target, stream, alive)
                count += 1
    except (EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise ArchiveProblem("is broken or was cut off ({0})".format(str(error) or type(error).__name__)) from None
    except (NotImplementedError, RuntimeError) as error:
        # What zipfile says of encryption and of compressions it does not know.
        raise ArchiveProblem("cannot be unpacked ({0})".format(error)) from None
    except OSError as error:
        # gzip and bz2 report broken data as an OSError without a number.
        if error.errno is None:
            raise ArchiveProblem("is broken or was cut off ({0})".format(error)) from None
        raise
    if not count:
        raise ArchiveProblem("has no files{0}".format(" below {0}".format(root) if root else ""))
    return count


def _tar_members(path: str) -> Generator[tuple[str, IO[bytes]], None, None]:
    # Opened by its path, a member's content can be read while its neighbours are listed.
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            if member.isfile():
                stream = archive.extractfile(member)
                if stream is not None:
                    with stream:
                        yield member.name, stream
            elif not member.isdir():
                raise ArchiveProblem("holds {0!r}, which is neither a file nor a folder".format(member.name))
    _read_to_the_end(path)


def _read_to_the_end(path: str) -> None:
    """See that a tar file's two closing blocks are there, which tarfile does not ask for, and its checksum is right.

    The last members of an archive that was cut between two of them would be missing without a word.
    """
    last = b""
    with _decompressed(path) as stream:
        while True:
            block = stream.read(_BLOCK)
            if not block:
                break
            last = (last + block)[-1024:]
    if len(last) < 1024 or last.strip(b"\0"):
        raise ArchiveProblem("is broken or was cut off (it does not end as a tar archive does)")


def _decompressed(path: str) -> IO[bytes]:
    import bz2
    import gzip

    with open(path, "rb") as stream:
        head = stream.read(6)
    if head[:2] == b"\x1f\x8b":
        # A file in all but its declared type.
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if head[:3] == b"BZh":
        return bz2.open(path, "rb")
    if head == b"\xfd7zXZ\x00":
        return lzma.open(path, "rb")
    return open(path, "rb")


def _zip_members(path: str) -> Generator[tuple[str, IO[bytes]], None, None]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if member.filename.endswith("/"):
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise ArchiveProblem("holds {0!r}, which is neither a file nor a folder".format(member.filename))
            with archive.open(member) as stream:
                yield member.filename, stream


def _inner_name(name: str, root: str) -> str | None:
    """Return a member's path below the root, or None if it is not below it.

    :raises ArchiveProblem: the name leads out of the archive.
    """
    plain = posixpath.normpath(name)
    if name.startswith("/") or plain == ".." or plain.startswith("../") or "\0" in name or "\\" in name:
        raise ArchiveProblem("holds {0!r}, a name that leads elsewhere".format(name))
    if not root:
        return plain
    return plain[len(root) + 1 :] if plain.startswith(root + "/") else None


def _write(target: str, stream: IO[bytes], alive: Callable[[], None]) -> None:
    with open(target, "xb") as output:
        while True:
            block = stream.read(_BLOCK)
            if not block:
                break
            output.write(block)
            alive()
        output.flush()
        os.fsync(output.fileno())
    alive()


def remove(path: str) -> None:
    """Remove a file or a folder with all that is in it, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
