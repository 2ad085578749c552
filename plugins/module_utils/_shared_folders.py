# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders below a root that somebody else made. Private to this collection."""

from __future__ import annotations

import os
import tempfile
from typing import Iterable


class FolderProblem(Exception):
    """Why the folders cannot be there; the text is a sentence for the user."""


def check_root(root: str, setting: str) -> None:
    """See that the root is a folder under its canonical name.

    Slurm keeps a working folder as it was written, so that a link or ``..`` in it would make one folder look like two.

    :raises FolderProblem: it is missing, a file, or not canonical.
    """
    if not os.path.isabs(root) or os.path.normpath(root) != root:
        raise FolderProblem(
            "{0} is {1!r}: give an absolute path without '..', '.' or a '/' at its end.".format(setting, root)
        )
    if not os.path.isdir(root):
        raise FolderProblem(
            "{0} is {1!r}, which is not a folder on this host: give the folder on the shared"
            " file system that you own.".format(setting, root)
        )
    real = os.path.realpath(root)
    if real != root:
        raise FolderProblem("{0} is {1!r}, which leads over a link to {2}: set it to {2}.".format(setting, root, real))


def missing(root: str, names: Iterable[str]) -> list[str]:
    """Return the absolute paths of the folders that are not there yet.

    :raises FolderProblem: a name leads out of the root, or a file is in the way.
    """
    absent = []
    for name in names:
        path = os.path.normpath(os.path.join(root, name))
        if os.path.commonpath([root, path]) != root:
            raise FolderProblem("The folder {0!r} is not below {1}: give a path below it.".format(name, root))
        if os.path.isdir(path):
            continue
        if os.path.lexists(path):
            raise FolderProblem("{0} is in the way of a folder of that name: move it away.".format(path))
        absent.append(path)
    return absent


def make(root: str, paths: Iterable[str], setting: str) -> None:
    """Make the folders; one that somebody else makes at the same time is as good.

    :raises FolderProblem: the root cannot be written to.
    """
    for path in paths:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise FolderProblem(
                "{0} is {1!r}, but {2} cannot be made in it: {3}. Choose a folder that you own,"
                " or free your quota.".format(setting, root, path, error.strerror)
            ) from error


def writable(folder: str) -> bool:
    """Tell whether a file can really be written, which permission bits do not say on a full or read-only storage."""
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(b"x")
            stream.flush()
    except OSError:
        return False
    return True
