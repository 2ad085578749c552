# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing a file whole or not at all.

This file is private to the collection.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any


def fsync_directory(path: str) -> None:
    """Make the names in a folder last; file systems that cannot sync a folder are left as they are."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def write_text(path: str, text: str, mode: int = 0o644, lasting: bool = True) -> None:
    """Replace the file by `text`: temporary name in the same folder, fsync, rename. The mode holds from birth.

    Without `lasting` the fsync is left out, for a file that can be derived again from others.
    """
    folder = os.path.dirname(path)
    descriptor, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def canonical_json(value: Any) -> str:
    """`value` as JSON with one spelling: sorted keys, no blanks, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def pretty_json(value: Any) -> str:
    """`value` as JSON for people: sorted keys, two blanks, a newline at the end, no NaN."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json_object(path: str) -> dict[str, Any] | None:
    """The JSON object in a file, or None when the file is absent, cut, empty or holds something else.

    Any other trouble (no permission, a stale handle of a network file system) is raised: it says nothing of the
    content.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None
