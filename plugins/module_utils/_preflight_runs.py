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

from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import OUTCOME_FAILED, OUTCOME_SUCCEEDED
from ansible_collections.dgxc.workloads.plugins.module_utils._run_record import RecordError, load_run
from ansible_collections.dgxc.workloads.plugins.module_utils._submission import RESUBMIT_ALWAYS, RESUBMIT_ON_FAILURE


def was_submitted(run_dir: str, resubmit: str = "never", max_attempts: int = 0) -> bool:
    """Whether the newest attempt of a run has a job, or one that has to be looked for, and no other will follow it.

    A refused one has no job. One whose recorded verdict is final is followed by another as the policy says.

    :param resubmit: never, on_failure or always, as the run has it. :param max_attempts: how many jobs it may have with
        that; 0 for no limit.
    """
    try:
        run = load_run(run_dir)
    except (OSError, RecordError):
        return False
    last = run.last
    if last is None or last.refusal is not None:
        return False
    verdict = (last.result or {}).get("verdict")
    if verdict not in (OUTCOME_SUCCEEDED, OUTCOME_FAILED):
        return True
    again = resubmit == RESUBMIT_ALWAYS or (resubmit == RESUBMIT_ON_FAILURE and verdict == OUTCOME_FAILED)
    used = sum(1 for attempt in run.attempts if attempt.job_id is not None)
    return not (again and (not max_attempts or used < max_attempts or verdict == OUTCOME_SUCCEEDED))


def resumes(prefixes: Sequence[str], resubmit: str = "never", max_attempts: int = 0) -> bool:
    """Whether runs of all these names have been submitted before. A prefix is a run folder's path without its key.

    Whether it was with these very settings is not known until the scripts are written. The policy is that of all runs.
    """
    return bool(prefixes) and all(_was_submitted_under(prefix, resubmit, max_attempts) for prefix in prefixes)


def _was_submitted_under(prefix: str, resubmit: str, max_attempts: int) -> bool:
    parent, name = os.path.split(prefix)
    try:
        entries = os.listdir(parent)
    except OSError:
        return False
    shape = re.compile(re.escape(name) + "[0-9a-f]{12}")
    folders = [os.path.join(parent, entry) for entry in entries if shape.fullmatch(entry)]
    return any(was_submitted(folder, resubmit, max_attempts) for folder in folders)
