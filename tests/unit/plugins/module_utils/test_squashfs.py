# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _squashfs
from ansible_collections.dgxc.workloads.plugins.module_utils._process import NOT_FOUND, TIMED_OUT, Finished, run

ABSENT = 0xFFFFFFFFFFFFFFFF
needs_tools = pytest.mark.skipif(
    not (shutil.which("mksquashfs") and shutil.which("unsquashfs")), reason="needs squashfs-tools"
)


def squashfs(used=5000, tables=4000, major=4, pad=True, data=b"d"):
    """The bytes of a file that has all that the superblock promises."""
    head = struct.pack(
        "<5I6H8Q", 0x73717368, 2, 1700000000, 131072, 1, 1, 17, 192, 1, major, 0, 32, used, used - 8, ABSENT,
        tables, tables + 100, tables + 200, tables + 300,
    )  # fmt: skip
    body = (head + data * used)[:used]
    return body + b"\0" * (-len(body) % 4096 if pad else 0)


def lists(code=0, err=""):
    return lambda _command, _environment, _folder, _limit: Finished(code, "", err)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\0" * 8192, "begins with zeros"),
        (b"\0" * 10, "begins with zeros"),
        (b"\x7fELF" + b"x" * 5000, "is not a squashfs file"),
        (b"h", "is cut"),
        (b"hsqs", "is cut: it has 4 bytes"),
        (squashfs()[:95], "is cut: it has 95 bytes"),
        (squashfs()[:96], "is cut: it has 96 of 8192"),
        (squashfs()[:4999], "is cut"),
        (squashfs()[:5001], "is cut"),
        (squashfs()[:8191], "is cut"),
        (squashfs(major=3), "version 3"),
        (squashfs(used=90), "contradicts itself"),
        (squashfs(tables=6000), "contradicts itself"),
        (squashfs(), ""),
        (squashfs(pad=False), ""),
        (squashfs() + b"\0" * 4096, ""),
    ],
)
def test_the_superblock_tells_what_is_missing(tmp_path, content, problem):
    path = tmp_path / "x.sqsh"
    path.write_bytes(content)
    if not problem:
        assert _squashfs.read_superblock(str(path)) == (5000, 4000)
        return
    with pytest.raises(_squashfs.NotWhole, match=problem):
        _squashfs.read_superblock(str(path))


def test_what_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        _squashfs.read_superblock(str(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    descriptor = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        with pytest.raises(_squashfs.NotWhole, match="not a regular file"):
            _squashfs.read_superblock(str(tmp_path / "fifo"))
    finally:
        os.close(descriptor)


def test_a_listing_proves_the_tables(tmp_path):
    path = str(tmp_path / "x.sqsh")
    (tmp_path / "x.sqsh").write_bytes(squashfs())
    _squashfs.prove(path, lists(), {})
    with pytest.raises(_squashfs.NotWhole, match="cannot be listed: FATAL ERROR: read failed"):
        _squashfs.prove(path, lists(1, "\nFATAL ERROR: read failed\n"), {})
    with pytest.raises(OSError, match="install squashfs-tools"):
        _squashfs.prove(path, lists(NOT_FOUND), {})
    _squashfs.prove(path, lists(NOT_FOUND), {}, need_listing=False)
    with pytest.raises(OSError, match="within 1800 seconds"):
        _squashfs.prove(path, lists(TIMED_OUT), {})


def test_the_fingerprint_reads_the_tables_only(tmp_path):
    path = tmp_path / "x.sqsh"
    path.write_bytes(squashfs(data=b"d"))
    first = _squashfs.fingerprint(str(path))
    content = bytearray(squashfs())
    content[2000] = 1
    path.write_bytes(content)
    assert _squashfs.fingerprint(str(path)) == first
    content[4500] = 1
    path.write_bytes(content)
    assert _squashfs.fingerprint(str(path)) != first
    assert _squashfs.sha256(str(path)) == hashlib.sha256(content).hexdigest()


@needs_tools
def test_a_real_image_cut_at_any_length_is_found(tmp_path):
    tree = tmp_path / "tree"
    for number in range(40):
        (tree / str(number)).mkdir(parents=True)
        (tree / str(number) / "data").write_bytes(os.urandom(700))
    path = tmp_path / "x.sqsh"
    subprocess.run(["mksquashfs", tree, path, "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    _squashfs.prove(str(path), run, dict(os.environ))
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 997), *range(len(whole) - 20, len(whole))]:
        path.write_bytes(whole[:length])
        try:
            _squashfs.prove(str(path), run, dict(os.environ))
        except _squashfs.NotWhole:
            continue
        # Without all of its padding it is as mksquashfs -nopad makes it.
        assert length == _squashfs.read_superblock(str(path)).bytes_used
    damaged = bytearray(whole)
    start = _squashfs.read_superblock(str(path)).tables_start if path.write_bytes(whole) else 0
    damaged[start : start + 200] = b"\xff" * 200
    path.write_bytes(damaged)
    with pytest.raises(_squashfs.NotWhole, match="cannot be listed"):
        _squashfs.prove(str(path), run, dict(os.environ))
