# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the parameters of `slurm_job` to its result.

This file is private to the collection.
"""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils import _submission as submission
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import limits_of
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import SlurmNotFound, connect

#: The file that a script of the cluster is copied to.
COPIED_SCRIPT = "job.sh"


def job_spec() -> dict[str, Any]:
    """The options of one run, in `jobs` and directly."""
    return {
        "run_dir": {"type": "path"},
        "name": {"type": "str"},
        "key": {"type": "str", "default": "", "no_log": False},
        "script": {"type": "str"},
        "files": {"type": "dict", "default": {}},
        "directories": {"type": "list", "elements": "str", "default": []},
        "options": {"type": "dict", "default": {}},
        "environment": {"type": "dict", "default": {}},
        "resubmit": {
            "type": "str",
            "choices": [submission.RESUBMIT_NEVER, submission.RESUBMIT_ON_FAILURE, submission.RESUBMIT_ALWAYS],
            "default": submission.RESUBMIT_NEVER,
        },
        "max_attempts": {"type": "int", "default": 3},
        "retry_on_policy_limit": {"type": "bool", "default": False},
        "after": {"type": "str", "default": ""},
        "spec": {"type": "dict", "default": {}},
    }


def run_slurm_job(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave, `module_warnings` are to be
    said.
    """
    entries = parameters["jobs"] if parameters["jobs"] is not None else [parameters]
    cancelling = parameters["state"] == "cancelled"
    problems: list[str] = []
    requests = [_request(entry, cancelling, problems) for entry in entries]
    for request in requests:
        problems.extend(submission.problems_of(request))
    problems.extend(_duplicates(requests))
    if problems:
        return _failure(" ".join(problems))
    if not requests:
        return {"failed": False, "changed": False, "jobs": [], "queries": 0, "module_warnings": []}
    try:
        slurm = connect(parameters["slurm_bin_dir"], parameters["environment_modules"])
        submitter = submission.Submitter(
            slurm,
            record.this_process(),
            time.time,
            time.sleep,
            submission.Timing(absence_window=parameters["absence_window"]),
            limits_of(parameters),
        )
        reports = submitter.cancel(requests, check_mode) if cancelling else submitter.submit(requests, check_mode)
    except (SlurmNotFound, record.RecordError) as error:
        return _failure(str(error))
    except OSError as error:
        return _failure("{}: {}".format(error.filename or "the run folder", error.strerror or error))
    return _result(requests, reports, slurm.queries)


def _request(entry: Mapping[str, Any], cancelling: bool, problems: list[str]) -> submission.Request:
    name = entry["name"] or os.path.basename(entry["run_dir"] or "")
    files = {str(key): _text(value) for key, value in entry["files"].items()}
    script = entry["script"] or ""
    if not cancelling and script.startswith("/"):
        try:
            with open(script, encoding="utf-8", errors="surrogateescape") as stream:
                files[COPIED_SCRIPT] = stream.read()
            script = COPIED_SCRIPT
        except OSError as error:
            problems.append(f"job {name!r}: script {script}: {error.strerror}.")
    elif not cancelling and script not in files:
        problems.append(
            f"job {name!r}: script is {script!r}; give the name of one of files, or the absolute path of a "
            "script on the "
            "cluster."
        )
    options = submission.option_texts(entry["options"])
    spec = dict(entry["spec"], schema=record.SCHEMA, key=entry["key"], name=name, script=script, options=options)
    return submission.Request(
        name=name,
        run_dir=(entry["run_dir"] or "").rstrip("/"),
        key=entry["key"],
        script=script,
        files=files,
        directories=entry["directories"],
        options=options,
        environment={str(key): _text(value) for key, value in entry["environment"].items()},
        resubmit=entry["resubmit"],
        max_attempts=entry["max_attempts"],
        retry_on_policy_limit=entry["retry_on_policy_limit"],
        after=entry["after"],
        spec=spec,
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _duplicates(requests: list[submission.Request]) -> list[str]:
    seen: dict[str, submission.Request] = {}
    problems = []
    for request in requests:
        other = seen.setdefault(request.run_dir, request)
        if other is not request:
            problems.append(
                f"jobs {other.name!r} and {request.name!r} have the same run_dir {request.run_dir}; give each "
                "run its own."
            )
    return problems


def _new_files(request: submission.Request, folder: str, shown: set[tuple[str, str]]) -> list[dict[str, str]]:
    """What an attempt's folder holds, the script first. What the runs of a sweep have in common is shown once."""
    diffs = []
    for name in sorted(request.files, key=lambda name: (name != request.script, name)):
        text = request.files[name]
        if (name, text) in shown:
            continue
        shown.add((name, text))
        path = f"{folder}/{name}"
        text = text.replace(record.ATTEMPT_DIR_TOKEN, folder)
        diffs.append({"before": "", "after": text, "before_header": path, "after_header": path})
    return diffs


def _failure(message: str) -> dict[str, Any]:
    return {"failed": True, "msg": message, "jobs": [], "queries": 0, "module_warnings": []}


def _result(requests: list[submission.Request], reports: list[submission.Report], queries: int) -> dict[str, Any]:
    jobs = [report.as_json() for report in reports]
    diffs: list[dict[str, str]] = []
    shown: set[tuple[str, str]] = set()
    for request, report, job in zip(requests, reports, jobs):
        rehearsed = job.pop("rehearsed")
        if report.action == "submitted" or (report.action == "planned" and rehearsed):
            diffs.extend(_new_files(request, str(report.attempt_dir), shown))
    result: dict[str, Any] = {
        "changed": any(report.changed for report in reports),
        "jobs": jobs,
        "queries": queries,
        "module_warnings": [f"{report.name}: {text}" for report in reports for text in report.warnings],
    }
    if diffs:
        result["diff"] = diffs
    bad = [report for report in reports if report.action in ("refused", "unknown")]
    result["failed"] = bool(bad)
    if bad:
        more = f" ({len(bad) - 1} more like it)" if len(bad) > 1 else ""
        result["msg"] = "{}: {}{}".format(bad[0].name, bad[0].message, more)
    return result
