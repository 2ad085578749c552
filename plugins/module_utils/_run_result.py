# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a run: ask Slurm once more, read the log, judge by three gates, put it on record.

This file is private to the collection.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils import _gates as gates
from ansible_collections.dgxc.workloads.plugins.module_utils import _job_info as job_info
from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils._files import pretty_json, write_text
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import (
    OUTCOME_ACTIVE,
    OUTCOME_FAILED,
    OUTCOME_SUCCEEDED,
    OUTCOME_UNKNOWN,
    limits_of,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import Look, SlurmNotFound, connect
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import LogFacts, read_log_files

#: Parts of a job's description that belong to the moment and not to the record.
_PASSING = ("progress", "queue_answer", "accounting_answer", "in_queue", "recorded", "pending_kind", "pending_grace")


def run_run_result(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave."""
    try:
        runs = [record.load_run(folder) for folder in parameters["run_dirs"]]
        subjects = [job_info.subject_of_run(run) for run in runs]
        look, queries = Look(), 0
        if any(not job_info.settled(subject) for subject in subjects):
            slurm = connect(parameters["slurm_bin_dir"], parameters["environment_modules"])
            look = job_info.look_at(slurm, subjects, time.time())
            queries = slurm.queries
        limits = limits_of(parameters)
        results = []
        changed = False
        for run, subject in zip(runs, subjects):
            info = job_info.describe(subject, look, time.time(), limits)
            result, new = _result(run, subject, info, parameters["log_timeout"], check_mode)
            results.append(result)
            changed = changed or new
    except (SlurmNotFound, record.RecordError) as error:
        return {"failed": True, "msg": str(error)}
    except OSError as error:
        return {"failed": True, "msg": "{}: {}".format(error.filename or "run folder", error.strerror or error)}
    answer: dict[str, Any] = {"failed": False, "changed": changed, "runs": results, "queries": queries}
    bad = [result for result in results if result["verdict"] != OUTCOME_SUCCEEDED]
    if bad and parameters["fail_unless_succeeded"]:
        answer["failed"] = True
        answer["msg"] = "\n".join("{}: {}".format(result["name"], result["message"]) for result in bad[:5])
    return answer


def _result(
    run: record.Run,
    subject: job_info.Subject,
    info: Mapping[str, Any],
    log_timeout: float,
    check_mode: bool,
) -> tuple[dict[str, Any], bool]:
    """The row of one run, and whether its record was written."""
    attempt = subject.attempt
    if attempt is not None and job_info.settled(subject) and attempt.result is not None:
        written = False if check_mode else record.store_record(run)
        return _row(run, subject, attempt.result), written
    if info["verdict"] not in (OUTCOME_SUCCEEDED, OUTCOME_FAILED) or attempt is None or attempt.refusal:
        # Running, unknown or refused: nothing final to put on record.
        return _row(run, subject, {"verdict": info["verdict"], "message": info["message"], "job": info}), False
    facts = _read_logs(info["logs"], str(subject.spec.get("log_format") or "none"), log_timeout, time.sleep)
    judgement = gates.judge(subject.spec.get("expect") or {}, info, facts)
    told = judgement.as_dict()
    result = {
        "verdict": _final_verdict(info, judgement),
        "failure_class": info["failure_class"] or _gate_class(judgement),
        "message": _message(info, judgement),
        "state": info["state"],
        "retry_sensible": info["retry_sensible"],
        "gates": told["gates"],
        "metrics": told["metrics"],
        "steps_done": facts.last_step if facts is not None else None,
        "job": {key: value for key, value in info.items() if key not in _PASSING},
    }
    known = {key: value for key, value in (attempt.result or {}).items() if key != "schema"}
    if known == result or check_mode:
        return _row(run, subject, result), known != result
    write_text(os.path.join(attempt.folder, "metrics.json"), pretty_json(told["metrics"]))
    record.store_result(attempt, result)
    record.store_record(run)
    return _row(run, subject, result), True


def _final_verdict(info: Mapping[str, Any], judgement: gates.Judgement) -> str:
    """Slurm's failure stands whatever the log says; Slurm's success needs the other gates as well."""
    return OUTCOME_FAILED if info["verdict"] == OUTCOME_FAILED else judgement.verdict


def _gate_class(judgement: gates.Judgement) -> str:
    failed = [gate.name for gate in judgement.gates if gate.passed is not True]
    return "" if judgement.verdict == OUTCOME_SUCCEEDED or not failed else f"{failed[0]}_gate"


def _message(info: Mapping[str, Any], judgement: gates.Judgement) -> str:
    """Slurm's own sentence first, then what the gates that did not pass say, with the lines of the log that show it."""
    parts = [info["message"]] if info["message"] else []
    for gate in judgement.gates:
        repeats = gate.name == "slurm" and info["verdict"] == OUTCOME_FAILED and bool(info["message"])
        if gate.passed is True or repeats:
            continue
        parts.append(gate.message)
        if gate.name == "log" and gate.passed is False and gate.evidence:
            parts.append(f'In the log: "{gate.evidence}".')
    return " ".join(part for part in parts if part)


def _read_logs(
    logs: Mapping[str, str], log_format: str, timeout: float, sleep: Callable[[float], None]
) -> LogFacts | None:
    """The facts of all log streams together; None when no log appears (a network file system may show it late).

    A log in no known format is looked through if it is there, and missed by nobody.
    """
    paths = list(logs.values())
    if log_format == "none":
        return read_log_files(paths, log_format) or LogFacts(log_format)
    waited, pause = 0.0, 1.0
    while not any(os.path.exists(path) for path in paths) and waited < timeout:
        sleep(pause)
        waited, pause = waited + pause, min(pause * 2, 10.0)
    return read_log_files(paths, log_format)


def _row(run: record.Run, subject: job_info.Subject, result: Mapping[str, Any]) -> dict[str, Any]:
    attempt = subject.attempt
    job = result.get("job") or {}
    expect = subject.spec.get("expect") or {}
    return {
        "name": subject.name,
        "key": subject.spec.get("key"),
        "workload": subject.spec.get("workload"),
        "run_dir": run.folder,
        "record": os.path.join(run.folder, "record.json"),
        "attempt": attempt.number if attempt is not None else None,
        "attempt_dir": attempt.folder if attempt is not None else None,
        "job_id": subject.job_id or job.get("job_id"),
        "state": job.get("state") or result.get("state") or "",
        "nodes": job.get("nodes") or [],
        "node_count": expect.get("nodes"),
        "gpus_per_node": expect.get("gpus_per_node"),
        "elapsed": job.get("elapsed"),
        "verdict": result.get("verdict") or OUTCOME_UNKNOWN,
        "failure_class": result.get("failure_class") or "",
        "retry_sensible": bool(result.get("retry_sensible")),
        "message": result.get("message") or _plain(result.get("verdict")),
        "steps_done": result.get("steps_done"),
        "steps": expect.get("steps"),
        "gates": result.get("gates") or [],
        "metrics": result.get("metrics") or {},
        "progress": job.get("progress"),
        "logs": job_info.log_paths(subject.spec, attempt) if attempt is not None else {},
    }


def _plain(verdict: Any) -> str:
    return {OUTCOME_ACTIVE: "the job has not ended yet", OUTCOME_SUCCEEDED: "all gates passed"}.get(str(verdict), "")
