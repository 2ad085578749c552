# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run is: its fields, its key, its folder.

This file is private to the collection.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._files import canonical_json
from ansible_collections.dgxc.workloads.plugins.module_utils._gates import expectation_problems

#: The fields of a run, with what an absent one means. `name`, `workload`, `script` and `files` have to be given.
RUN_FIELDS: dict[str, Any] = {
    "name": None,
    "workload": None,
    "script": None,
    "files": None,
    "directories": [],
    "options": {},
    "environment": {},
    "identity": {},
    "logs": {"stdout": "slurm-%j.out"},
    "log_format": "none",
    "expect": {},
    "resubmit": "never",
    "max_attempts": 3,
    "retry_on_policy_limit": False,
    "after": "",
}
#: A name that becomes one folder.
_FOLDER = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_REQUIRED = ("name", "workload", "script", "files")
#: What changes the result of a run, and so makes it another one.
_KEY_FIELDS = ("files", "script", "options", "identity")


class RunError(Exception):
    """A run is not well formed; the message names the run, the field and the remedy."""


def complete_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """The run with every field. Raises RunError for a field that is unknown, missing or wrong."""
    label = "run {!r}".format(run.get("name", "without a name"))
    for field in run:
        if field not in RUN_FIELDS:
            near = difflib.get_close_matches(str(field), RUN_FIELDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RunError("{} has the unknown field {!r}{}".format(label, field, hint))
    for field in _REQUIRED:
        if not run.get(field):
            raise RunError(f"{label} has no {field}; give one.")
    if not re.fullmatch(_FOLDER, str(run["workload"])):
        raise RunError(
            "{} has the workload {!r}, which names a folder; use letters, digits, dots, underscores and dashes.".format(
                label, run["workload"]
            )
        )
    for stream in run.get("logs") or {}:
        if stream not in ("stdout", "stderr"):
            raise RunError(f"{label}: logs has the unknown entry {stream!r}; it may have stdout and stderr.")
    problems = expectation_problems(run.get("expect") or {})
    if problems:
        raise RunError("{}: {}".format(label, " ".join(problems)))
    return {field: run[field] if run.get(field) is not None else default for field, default in RUN_FIELDS.items()}


def run_key(run: Mapping[str, Any]) -> str:
    """The run's fingerprint: SHA-256 over the canonical JSON of all that changes its result, as 64 hex digits.

    The files hold a token in the place of their folder's path, so the key does not depend on where the run lies; the
    order of variables and blanks in YAML do not change it either.
    """
    complete = complete_run(run)
    return hashlib.sha256(canonical_json({field: complete[field] for field in _KEY_FIELDS}).encode("utf-8")).hexdigest()


def run_job(run: Mapping[str, Any], root: str) -> dict[str, Any]:
    """What `slurm_job` takes for a run: its folder is `<root>/<workload>/<name>-<first 12 digits of the key>`."""
    complete = complete_run(run)
    key = run_key(complete)
    return {
        "run_dir": os.path.join(root, complete["workload"], "{}-{}".format(complete["name"], key[:12])),
        "name": complete["name"],
        "key": key,
        "script": complete["script"],
        "files": complete["files"],
        "directories": complete["directories"],
        "options": complete["options"],
        "environment": complete["environment"],
        "resubmit": complete["resubmit"],
        "max_attempts": complete["max_attempts"],
        "retry_on_policy_limit": complete["retry_on_policy_limit"],
        "after": complete["after"],
        "spec": {field: complete[field] for field in ("workload", "identity", "logs", "log_format", "expect")},
    }


def run_jobs(runs: Sequence[Mapping[str, Any]], root: str) -> list[dict[str, Any]]:
    """`run_job` of every run. Raises RunError when two runs would share a folder, or one comes after none of them."""
    jobs = [run_job(run, root) for run in runs]
    seen: dict[str, str] = {}
    for job in jobs:
        if job["run_dir"] in seen:
            raise RunError("two runs are named {!r} and do the same; leave one out.".format(job["name"]))
        seen[job["run_dir"]] = job["name"]
    names = {job["name"] for job in jobs}
    for job in jobs:
        if job["after"] and (job["after"] not in names or job["after"] == job["name"]):
            raise RunError("run {!r} comes after {!r}, which is not another run of the list; correct after.".format(
                job["name"], job["after"]))  # fmt: skip
    return jobs
