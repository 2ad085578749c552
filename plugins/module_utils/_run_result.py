# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a run: ask Slurm once more, read the log and the output, judge by the gates, put it on record.

This file is private to the collection. Beside `result.json` an attempt gets `metrics.json`, the numbers alone, and
`series.json`, the curves of step time and loss that a report draws.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Any, Callable, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils import _gates as gates
from ansible_collections.dgxc.workloads.plugins.module_utils import _job_info as job_info
from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils._files import (
    canonical_json,
    pretty_json,
    read_json_object,
    write_text,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import (
    OUTCOME_ACTIVE,
    OUTCOME_FAILED,
    OUTCOME_SUCCEEDED,
    OUTCOME_UNKNOWN,
    limits_of,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import run as run_command
from ansible_collections.dgxc.workloads.plugins.module_utils._site_versions import find_versions
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import (
    Look,
    Slurm,
    SlurmNotFound,
    find_environment,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._trainer_state import OutputFacts, read_output
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import LogFacts, read_log_files

#: Parts of a job's description that belong to the moment and not to the record.
_PASSING = ("progress", "queue_answer", "accounting_answer", "in_queue", "recorded", "pending_kind", "pending_grace")
#: Where the containers of the workloads write down what they consist of, relative to the attempt's folder.
ENVIRONMENT_FILE = "environment.json"
ENVIRONMENT_LIMIT = 256 * 1024
SERIES_FILE = "series.json"
#: What of the log's facts is on record elsewhere: the curves in a file of their own.
_NOT_RECORDED = ("series",)


def run_run_result(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave."""
    try:
        runs = [record.load_run(folder) for folder in parameters["run_dirs"]]
        subjects = [job_info.subject_of_run(run) for run in runs]
        look, queries, versions = Look(), 0, {}
        if any(not job_info.settled(subject) for subject in subjects):
            environment = find_environment(
                run_command, os.environ, parameters["slurm_bin_dir"], parameters["environment_modules"]
            )
            slurm = Slurm(run_command, environment, os.getuid(), time.monotonic)
            look = job_info.look_at(slurm, subjects, time.time())
            queries = slurm.queries
            versions = find_versions(run_command, environment)
        limits = limits_of(parameters)
        results = []
        changed = False
        for run, subject in zip(runs, subjects):
            info = job_info.describe(subject, look, time.time(), limits)
            result, new = _result(run, subject, info, parameters["log_timeout"], check_mode, versions)
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
    versions: Mapping[str, str],
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
    expect = subject.spec.get("expect") or {}
    output = None
    if expect.get("output"):
        # Only a job that succeeded is worth the wait for files that a network file system shows late.
        patience = log_timeout if info["verdict"] == OUTCOME_SUCCEEDED else 0.0
        output = _read_output(attempt.folder, expect["output"], patience, time.sleep)
    judgement = gates.judge(expect, info, facts, output)
    told = judgement.as_dict()
    succeeded = _final_verdict(info, judgement) == OUTCOME_SUCCEEDED
    result = {
        "verdict": _final_verdict(info, judgement),
        "failure_class": info["failure_class"] or _gate_class(judgement),
        "message": _message(info, judgement),
        "cause": None if succeeded else _cause(facts),
        "state": info["state"],
        "retry_sensible": info["retry_sensible"],
        "gates": told["gates"],
        "metrics": told["metrics"],
        "steps_done": facts.last_step if facts is not None else None,
        "log": _recorded_facts(facts),
        "output": _recorded_output(output),
        "gpu_hours": gpu_hours(info, expect),
        "user": record.user_of(attempt.folder),
        "versions": dict(versions),
        "environment": read_environment(attempt.folder),
        "job": {key: value for key, value in info.items() if key not in _PASSING},
    }
    known = {key: value for key, value in (attempt.result or {}).items() if key != "schema"}
    if known == result or check_mode:
        return _row(run, subject, result), known != result
    write_text(os.path.join(attempt.folder, "metrics.json"), pretty_json(told["metrics"]))
    write_text(os.path.join(attempt.folder, SERIES_FILE), canonical_json(_series(facts, output)) + "\n")
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


def _read_output(folder: str, wanted: Mapping[str, Any], timeout: float, sleep: Callable[[float], None]) -> OutputFacts:
    """What the run left behind, after a wait for what is missing."""
    waited, pause = 0.0, 1.0
    while True:
        output = read_output(folder, wanted)
        if output.is_complete() or waited >= timeout:
            return output
        sleep(pause)
        waited, pause = waited + pause, min(pause * 2, 10.0)


def _cause(facts: LogFacts | None) -> dict[str, Any] | None:
    """The likeliest cause in the log of a run that is not good: its short name, what it means, what to do, the line."""
    failure = gates.likely_cause(facts)
    if failure is None:
        return None
    return {
        "name": failure.name,
        "cause": failure.cause,
        "remedy": failure.remedy,
        "evidence": failure.first_line,
        "count": failure.count,
    }


def _recorded_facts(facts: LogFacts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {name: value for name, value in facts.as_dict().items() if name not in _NOT_RECORDED}


def _recorded_output(output: OutputFacts | None) -> dict[str, Any] | None:
    """What was looked at in the folder; the trainer's state without its curve."""
    if output is None:
        return None
    told = asdict(output)
    if told["trainer_state"] is not None:
        del told["trainer_state"]["losses"]
    return told


def _series(facts: LogFacts | None, output: OutputFacts | None) -> dict[str, Any]:
    """The curves: seconds per step from the log, the loss from the trainer's own state where there is one."""
    points = [[step, seconds, loss] for step, seconds, loss in (facts.series if facts is not None else [])]
    state = output.trainer_state if output is not None else None
    if state is not None and state.losses:
        every = max(1, len(state.losses) // 400)
        points = [[step, seconds, None] for step, seconds, _loss in points if seconds is not None]
        points += [[float(step), None, loss] for step, loss in state.losses[::every]]
    points.sort(key=lambda point: point[0] or 0.0)
    return {"schema": record.SCHEMA, "columns": ["step", "seconds_per_step", "loss"], "points": points}


def gpu_hours(job: Mapping[str, Any], expect: Mapping[str, Any]) -> float | None:
    """Nodes x GPUs per node x elapsed hours of a job; None when one of them is not known."""
    nodes, gpus, elapsed = len(job.get("nodes") or []), expect.get("gpus_per_node"), job.get("elapsed")
    if not nodes or not isinstance(gpus, int) or not isinstance(elapsed, (int, float)):
        return None
    return round(nodes * gpus * elapsed / 3600.0, 6)


def read_environment(folder: str) -> dict[str, Any] | None:
    """What the container wrote down of itself (versions of libraries, driver), or None."""
    path = os.path.join(folder, ENVIRONMENT_FILE)
    try:
        if os.path.getsize(path) > ENVIRONMENT_LIMIT:
            return None
        found = read_json_object(path)
        # A record is strict JSON; what is not cannot be put into it.
        canonical_json(found)
    except (OSError, ValueError):
        return None
    return found


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
        "cause": result.get("cause"),
        "retry_sensible": bool(result.get("retry_sensible")),
        "message": result.get("message") or _plain(result.get("verdict")),
        "gpu_hours": result.get("gpu_hours"),
        "steps_done": result.get("steps_done"),
        "steps": expect.get("steps"),
        "gates": result.get("gates") or [],
        "metrics": result.get("metrics") or {},
        "progress": job.get("progress"),
        "logs": job_info.log_paths(subject.spec, attempt) if attempt is not None else {},
    }


def _plain(verdict: Any) -> str:
    return {OUTCOME_ACTIVE: "the job has not ended yet", OUTCOME_SUCCEEDED: "all gates passed"}.get(str(verdict), "")
