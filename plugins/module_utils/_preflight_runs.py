# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether runs have been submitted before, so that the preflight stands in nobody's way who comes back to them.

This file is private to the collection.
"""

from __future__ import annotations

import os
import re
from typing import Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._run_record import RecordError, load_run


def was_submitted(run_dir: str) -> bool:
    """Whether the newest attempt of a run has a job, or one that has to be looked for; a refused one has none."""
    try:
        last = load_run(run_dir).last
    except (OSError, RecordError):
        return False
    return last is not None and last.refusal is None


def resumes(prefixes: Sequence[str]) -> bool:
    """Whether runs of all these names have been submitted before. A prefix is a run folder's path without its key.

    Whether it was with these very settings is not known until the scripts are written.
    """
    return bool(prefixes) and all(_was_submitted_under(prefix) for prefix in prefixes)


def _was_submitted_under(prefix: str) -> bool:
    parent, name = os.path.split(prefix)
    try:
        entries = os.listdir(parent)
    except OSError:
        return False
    shape = re.compile(re.escape(name) + "[0-9a-f]{12}")
    return any(was_submitted(os.path.join(parent, entry)) for entry in entries if shape.fullmatch(entry))
