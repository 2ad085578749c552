# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of a run root, each as one row that answers what ran: for reports, at any time, without asking Slurm.

This file is private to the collection. The attempts' own files are read rather than `record.json`, which is derived
from them and may be older. What was written by an earlier release lacks some fields; they are then None.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils._files import read_json_object
from ansible_collections.dgxc.workloads.plugins.module_utils._job_info import find_run_folders, log_paths
from ansible_collections.dgxc.workloads.plugins.module_utils._run_result import (
    SERIES_FILE,
    gpu_hours,
    read_environment,
)

#: Points of a curve that are handed to a report: enough for a line of the width of a screen.
SERIES_POINTS = 200
#: A script beyond this size (bytes) is not fingerprinted.
SCRIPT_LIMIT = 16 << 20
# Of an image in a registry or in Docker, or the fingerprint of a .sqsh that somebody put there.
_DIGEST = re.compile(r"(?:sha256|squashfs-tables):[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def run_records_info(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave."""
    root = parameters["root"]
    if parameters["must_exist"] and not os.path.isdir(root):
        message = "root is {!r}, but there is no such folder: name the folder of all runs (<dgxc_shared_root>/runs)."
        return {"failed": True, "msg": message.format(root)}
    runs = []
    try:
        for folder in find_run_folders(root):
            workload, name = os.path.basename(os.path.dirname(folder)), os.path.basename(folder)
            if not _wanted(workload, parameters["workloads"]):
                continue
            row = run_row(folder, parameters["series"])
            if _wanted(str(row["name"]), parameters["names"]) or _wanted(name, parameters["names"]):
                runs.append(row)
    except OSError as error:
        return {"failed": True, "msg": "{}: {}".format(error.filename or root, error.strerror or error)}
    runs.sort(key=lambda row: (str(row["workload"]), row["started"] or row["requested"] or 0.0, str(row["name"])))
    return {"failed": False, "changed": False, "root": root, "runs": runs}


def _wanted(name: str, patterns: Sequence[str] | None) -> bool:
    """Whether a name matches one of the shell patterns; without any, every name does."""
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def run_row(folder: str, series: bool = True) -> dict[str, Any]:
    """All that is on record of one run. Never raises for what is in the files; a damaged record is told as such."""
    run = record.load_run(folder)
    attempts = [_attempt_row(attempt) for attempt in run.attempts]
    last = run.last
    result = _strict((last.result if last is not None else None) or {})
    spec = _strict(run.spec)
    job = _object(result.get("job"))
    expect, identity = _object(spec.get("expect")), _object(spec.get("identity"))
    verdict, message = _verdict(last, spec, result)
    nodes = job.get("nodes") or []
    node_count = expect.get("nodes") or len(nodes) or None
    gpus_per_node = expect.get("gpus_per_node")
    hours = [attempt["gpu_hours"] for attempt in attempts if attempt["gpu_hours"] is not None]
    row: dict[str, Any] = {
        "workload": spec.get("workload") or os.path.basename(os.path.dirname(run.folder)),
        "name": spec.get("name") or os.path.basename(run.folder),
        "key": spec.get("key"),
        "run_dir": run.folder,
        "record": os.path.join(run.folder, "record.json"),
        "verdict": verdict,
        "message": message,
        "failure_class": result.get("failure_class") or "",
        "cause": result.get("cause"),
        "gates": result.get("gates") or [],
        "metrics": result.get("metrics") or {},
        "log": result.get("log"),
        "output": result.get("output"),
        "expect": expect,
        "steps": expect.get("steps"),
        "steps_done": result.get("steps_done"),
        "node_count": node_count,
        "gpus_per_node": gpus_per_node,
        "gpus": node_count * gpus_per_node if node_count and isinstance(gpus_per_node, int) else None,
        "nodes": nodes,
        "identity": identity,
        "commits": _commits(identity),
        "image": _image(identity),
        "image_digest": _digest(identity),
        "script": None,
        "script_sha256": None,
        "options": spec.get("options") or {},
        "state": job.get("state") or "",
        "job_ids": [attempt["job_id"] for attempt in attempts if attempt["job_id"]],
        "cluster": last.cluster if last is not None else None,
        "requested": attempts[0]["requested"] if attempts else None,
        "submitted": job.get("submit_time"),
        "started": job.get("start_time"),
        "ended": job.get("end_time"),
        "elapsed": job.get("elapsed"),
        "gpu_hours": round(sum(hours), 6) if hours else None,
        "user": result.get("user") or record.user_of(run.folder),
        "host": _object(last.intent.get("owner")).get("host") if last is not None else None,
        "versions": result.get("versions") or {},
        "environment": result.get("environment"),
        "attempts": attempts,
        "logs": {},
        "series": None,
    }
    if last is not None:
        row["logs"] = log_paths(spec, last)
        if row["environment"] is None:
            row["environment"] = _strict(read_environment(last.folder))
        if spec.get("script"):
            row["script"] = os.path.join(last.folder, str(spec["script"]))
            row["script_sha256"] = _fingerprint(row["script"])
        if series:
            row["series"] = _series(os.path.join(last.folder, SERIES_FILE))
    return row


def _verdict(last: record.Attempt | None, spec: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, str]:
    if last is None:
        return "unknown", "the run folder has no attempt"
    if result.get("verdict"):
        return str(result["verdict"]), str(result.get("message") or "")
    if last.refusal:
        return "failed", "sbatch refused: " + last.refusal
    if not spec:
        return "unknown", "the record cannot be read: intent.json of the newest attempt is missing or damaged"
    if last.job_id:
        return "open", f"job {last.job_id} has no verdict on record; run the workload's playbook again to collect it"
    return "open", "no job is on record; run the workload's playbook again"


def _attempt_row(attempt: record.Attempt) -> dict[str, Any]:
    result = _strict(attempt.result or {})
    job = _object(result.get("job"))
    expect = _object(_object(attempt.intent.get("spec")).get("expect"))
    hours = result.get("gpu_hours")
    return {
        "number": attempt.number,
        "folder": attempt.folder,
        "requested": _strict(attempt.intent_time),
        "job_id": attempt.job_id,
        "refused": attempt.refusal,
        "state": job.get("state") or "",
        "verdict": result.get("verdict"),
        "failure_class": result.get("failure_class") or "",
        "elapsed": job.get("elapsed"),
        "nodes": job.get("nodes") or [],
        "gpu_hours": hours if hours is not None else gpu_hours(job, expect),
    }


def _object(value: Any) -> dict[str, Any]:
    """A dictionary of a record; nothing where a damaged record holds something else."""
    return value if isinstance(value, dict) else {}


def _strict(value: Any) -> Any:
    """The value without numbers that strict JSON lacks: NaN and infinite ones become None."""
    if isinstance(value, dict):
        return {str(name): _strict(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value


def _commits(identity: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in identity.items() if _COMMIT.fullmatch(str(value))}


def _image(identity: Mapping[str, Any]) -> str | None:
    for name in ("image_reference", "image", "container_image"):
        if identity.get(name):
            return str(identity[name])
    return None


def _digest(identity: Mapping[str, Any]) -> str | None:
    """The image's digest where the identity names one, under whatever name."""
    for name, value in sorted(identity.items()):
        match = _DIGEST.search(str(value))
        if match is not None and "image" in name:
            return match.group()
    return None


def _fingerprint(path: str) -> str | None:
    try:
        if os.path.getsize(path) > SCRIPT_LIMIT:
            return None
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return None


def _series(path: str) -> list[list[Any]] | None:
    """The points of a curve, thinned, or None where there is none or the file is damaged."""
    found = read_json_object(path)
    points = (found or {}).get("points")
    if not isinstance(points, list):
        return None
    good = [point for point in points if isinstance(point, list) and len(point) == 3]
    # Seconds and losses may come from different sources, so each is thinned for itself.
    thinned = [point for column in (1, 2) for point in _thin([point for point in good if point[column] is not None])]
    unique = {(point[0], point[1], point[2]): point for point in thinned}
    strict: list[list[Any]] = _strict(sorted(unique.values(), key=lambda point: point[0] or 0.0))
    return strict


def _thin(points: list[list[Any]]) -> list[list[Any]]:
    """At most `SERIES_POINTS` of the points, evenly spaced, the last one always among them."""
    every = -(-len(points) // SERIES_POINTS) or 1
    return points[::-1][::every][::-1]
