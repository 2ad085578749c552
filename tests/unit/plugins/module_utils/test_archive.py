# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpacking: every kind of archive, cut anywhere, with names that lead elsewhere."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._archive import ArchiveProblem, kind_of, remove, unpack

FILES = {"data/train/a/1.avi": b"one" * 1000, "data/train/b/2.avi": os.urandom(5000), "data/readme.txt": b""}


def make_tar(path, mode, files=None, members=()):
    with tarfile.open(path, f"w:{mode}") as archive:
        for name, content in (FILES if files is None else files).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member)


def make_zip(path, files=None, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in (FILES if files is None else files).items():
            archive.writestr(name, content)
        archive.writestr("data/empty/", b"")


MAKERS = {
    "tar": lambda path: make_tar(path, ""),
    "tar.gz": lambda path: make_tar(path, "gz"),
    "tar.bz2": lambda path: make_tar(path, "bz2"),
    "tar.xz": lambda path: make_tar(path, "xz"),
    "zip": make_zip,
}


def found(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def alive():
    alive.count += 1


alive.count = 0


@pytest.mark.parametrize("kind", MAKERS)
def test_all_that_is_in_it_comes_out(tmp_path, folder, kind):
    path = tmp_path / "archive"
    MAKERS[kind](path)
    alive.count = 0
    assert unpack(str(path), str(folder), "", alive) == 3
    assert found(folder) == FILES
    assert alive.count >= 3


@pytest.mark.parametrize("kind", MAKERS)
def test_only_what_is_below_the_root_comes_out(tmp_path, folder, kind):
    path = tmp_path / "archive"
    MAKERS[kind](path)
    assert unpack(str(path), str(folder), "data/train", alive) == 2
    assert found(folder) == {name[11:]: FILES[name] for name in list(FILES)[:2]}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_cut_is_noticed_wherever_it_is(tmp_path, folder, kind):
    path = tmp_path / "archive"
    MAKERS[kind](path)
    whole = path.read_bytes()
    # Tar files are filled up with nothing; of that, all but two blocks may be missing.
    content = whole.rstrip(b"\0") if kind == "tar" else whole
    for number, length in enumerate(range(0, len(content), max(1, len(content) // 40))):
        path.write_bytes(whole[:length])
        target = folder / str(number)
        target.mkdir()
        with pytest.raises(ArchiveProblem):
            unpack(str(path), str(target), "", alive)


def test_a_tar_file_cut_between_two_members_is_noticed(tmp_path, folder):
    path = tmp_path / "archive"
    make_tar(path, "", {"a": b"x" * 512, "b": b"y" * 512})
    path.write_bytes(path.read_bytes()[:1024])
    with pytest.raises(ArchiveProblem, match="does not end as a tar archive does"):
        unpack(str(path), str(folder), "", alive)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_wrong_byte_is_noticed(tmp_path, folder, kind):
    path = tmp_path / "archive"
    MAKERS[kind](path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ArchiveProblem, match="broken"):
        unpack(str(path), str(folder), "", alive)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "..", "a\\b"])
@pytest.mark.parametrize("make", [lambda path, files: make_tar(path, "gz", files), make_zip])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, folder, name, make):
    path = tmp_path / "archive"
    make(path, {name: b"x"})
    with pytest.raises(ArchiveProblem, match="leads elsewhere"):
        unpack(str(path), str(folder), "", alive)
    assert found(tmp_path).keys() == {"archive"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_tar_file_with_more_than_files_and_folders_is_refused(tmp_path, folder, kind):
    path = tmp_path / "archive"
    member = tarfile.TarInfo("trap")
    member.type, member.linkname = kind, "/etc"
    make_tar(path, "gz", {}, [member])
    with pytest.raises(ArchiveProblem, match="'trap', which is neither a file nor a folder"):
        unpack(str(path), str(folder), "", alive)


def test_a_zip_file_with_a_link_is_refused(tmp_path, folder):
    path = tmp_path / "archive"
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo("trap")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc")
    with pytest.raises(ArchiveProblem, match="neither a file nor a folder"):
        unpack(str(path), str(folder), "", alive)


def test_an_archive_without_the_root_is_told(tmp_path, folder):
    path = tmp_path / "archive"
    make_zip(path)
    with pytest.raises(ArchiveProblem, match="has no files below other"):
        unpack(str(path), str(folder), "other", alive)


@pytest.mark.parametrize("content", [b"", b"hello", b"<html></html>" * 100])
def test_another_file_is_told(tmp_path, folder, content):
    path = tmp_path / "archive"
    path.write_bytes(content)
    assert kind_of(str(path)) == ""
    with pytest.raises(ArchiveProblem, match="neither a tar nor a zip archive"):
        unpack(str(path), str(folder), "", alive)


def test_a_locked_zip_file_is_told(tmp_path, folder):
    path = tmp_path / "archive"
    make_zip(path, {"a": b"x"})
    content = bytearray(path.read_bytes())
    # The flag "encrypted" in the member's own head and in the list at the end.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ArchiveProblem, match=r"cannot be unpacked .*encrypted"):
        unpack(str(path), str(folder), "", alive)


def test_a_full_storage_is_the_callers_affair(tmp_path):
    path = tmp_path / "archive"
    make_zip(path)
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        unpack(str(path), str(path), "", alive)


def test_removing_takes_files_and_folders_and_nothing(tmp_path):
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    for name in ("folder", "file", "nothing"):
        remove(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
