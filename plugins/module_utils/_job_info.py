# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of jobs, as `slurm_job_info` returns it: Slurm's answers, the verdict, the progress in the log.

This file is private to the collection.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import (
    OUTCOME_ACTIVE,
    OUTCOME_FAILED,
    OUTCOME_SUCCEEDED,
    OUTCOME_UNKNOWN,
    Identity,
    Limits,
    Verdict,
    judge,
    limits_of,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import (
    Look,
    Slurm,
    SlurmNotFound,
    Wanted,
    connect,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._submission import judge_once, known_gone_for, wanted
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import (
    last_lines,
    read_log_tail,
    tail_progress,
)

#: sbatch's own log when a run names none.
DEFAULT_LOGS: Mapping[str, str] = {"stdout": "slurm-%j.out"}
#: How much of a log's end is read for the live progress (bytes); how many lines a failure shows, out of how many read.
PROGRESS_TAIL = 65536
FAILURE_LINES = 12
FAILURE_LINES_READ = 200
#: What Pyxis, Enroot and srun say for each of many tasks after the cause; it would push the cause out of sight.
_NOISE = re.compile(
    r"another task|required plugin|spank plugin stack|created \d+ |printing enroot log file|child \d+ failed with error"
    r"|Parallel unsquashfs|blocks\) to write|^\s*\[[=|/\\-]+"
)


@dataclass(frozen=True)
class Subject:
    """A job that is asked about: an attempt of a run, or a bare job id (then `attempt` is a stand-in without
    folder).
    """

    name: str
    run_dir: str | None
    attempt: record.Attempt | None
    job_id: str | None
    spec: Mapping[str, Any]


def subject_of_run(run: record.Run) -> Subject:
    """The newest attempt of a run folder."""
    spec = run.spec
    name = str(spec.get("name") or os.path.basename(run.folder))
    return Subject(name, run.folder, run.last, run.last.job_id if run.last is not None else None, spec)


def subject_of_job(job_id: str) -> Subject:
    """A job known by its id alone."""
    return Subject(f"job {job_id}", None, None, job_id, {})


def find_run_folders(root: str) -> list[str]:
    """All run folders below `<root>/<workload>/<run>`, sorted; an absent root has none."""
    folders: list[str] = []
    for workload in _folders(root):
        for run in _folders(workload):
            if os.path.isdir(os.path.join(run, "attempt-1")):
                folders.append(run)
    return folders


def _folders(path: str) -> list[str]:
    try:
        names = sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths = [os.path.join(path, name) for name in names if not name.startswith(".")]
    return [item for item in paths if os.path.isdir(item)]


def log_paths(spec: Mapping[str, Any], attempt: record.Attempt) -> dict[str, str]:
    """The absolute paths of an attempt's logs, by stream; `%j` is the job id."""
    logs = spec.get("logs") or DEFAULT_LOGS
    return {
        str(stream): os.path.join(attempt.folder, str(name).replace("%j", attempt.job_id or "%j"))
        for stream, name in logs.items()
        if name
    }


def settled(subject: Subject) -> bool:
    """Whether the outcome is on record, so that Slurm need not be asked any more."""
    result = subject.attempt.result if subject.attempt is not None else None
    return result is not None and result.get("verdict") in (OUTCOME_SUCCEEDED, OUTCOME_FAILED)


def look_at(slurm: Slurm, subjects: Sequence[Subject], now: float) -> Look:
    """One look for all subjects whose outcome is not on record."""
    asked = []
    for subject in subjects:
        if subject.attempt is None and subject.job_id is not None:
            asked.append(Wanted(subject.job_id, 0.0))
        elif subject.attempt is not None and not settled(subject) and subject.attempt.refusal is None:
            asked.append(wanted(subject.attempt))
    return slurm.look_for(asked, now) if asked else Look()


def describe(
    subject: Subject,
    look: Look,
    now: float,
    limits: Limits,
    gone_for: float | None = None,
    with_progress: bool = False,
) -> dict[str, Any]:
    """Everything known of one subject, as a dictionary with always the same keys; see `slurm_job_info`'s RETURN."""
    attempt = subject.attempt
    info = _empty(subject)
    if attempt is not None and attempt.refusal:
        info.update(verdict=OUTCOME_FAILED, failure_class="refused", message="sbatch refused: " + attempt.refusal)
        return info
    if settled(subject) and attempt is not None and attempt.result is not None:
        info.update({key: value for key, value in (attempt.result.get("job") or {}).items() if key in info})
        info.update(_identity_of(subject), recorded=True)
        for key in ("verdict", "failure_class", "message"):
            info[key] = attempt.result.get(key) or ""
        return info
    job_id = subject.job_id
    if job_id is None and attempt is not None:
        found = look.jobs_in(attempt.folder)
        job_id = found[0] if found else None
    if job_id is None:
        info["message"] = (
            "never submitted"
            if attempt is None
            else "a submission began, but no job of it is known yet; run the play again"
        )
        return info
    info["job_id"] = job_id
    if attempt is None:
        identity = Identity(job_id)
        verdict = judge(identity, look, gone_for or 0.0, now, limits)
        if gone_for is None and verdict.in_queue is False:
            verdict = judge(identity, look, known_gone_for(verdict, 0.0, now), now, limits)
    else:
        attempt.job = dict(attempt.job or {}, job_id=job_id)
        verdict = judge_once(attempt, look, now, limits, gone_for)
    info.update(_facts(verdict))
    if verdict.in_queue and info["start_time"] and not info["end_time"]:
        info["elapsed"] = max(0, int(now - info["start_time"]))
    info["queue_answer"], info["accounting_answer"] = look.queue_answer, look.accounting_answer
    if attempt is not None:
        info["logs"] = log_paths(subject.spec, attempt)
        log_format = str(subject.spec.get("log_format") or "none")
        if with_progress and verdict.outcome == OUTCOME_ACTIVE and verdict.state != "PENDING":
            info["progress"] = _progress(info["logs"], log_format)
            steps = (subject.spec.get("expect") or {}).get("steps")
            if info["progress"] is not None and steps:
                # A bar may count more than training steps (validation batches); what was asked for is the goal.
                info["progress"]["total"] = steps
        if verdict.outcome in (OUTCOME_FAILED, OUTCOME_UNKNOWN):
            info["log_tail"] = _tail(info["logs"])
    return info


def _identity_of(subject: Subject) -> dict[str, Any]:
    attempt = subject.attempt
    return {
        "name": subject.name,
        "run_dir": subject.run_dir,
        "attempt": attempt.number if attempt is not None else None,
        "attempt_dir": attempt.folder if attempt is not None else None,
        "job_id": subject.job_id,
        "cluster": attempt.cluster if attempt is not None else None,
        "logs": log_paths(subject.spec, attempt) if attempt is not None else {},
    }


def _empty(subject: Subject) -> dict[str, Any]:
    info: dict[str, Any] = _identity_of(subject)
    info.update(
        work_dir=None,
        state="",
        reason="",
        exit_code=None,
        signal=None,
        derived_exit_code=None,
        derived_signal=None,
        submit_time=None,
        start_time=None,
        end_time=None,
        elapsed=None,
        nodes=[],
        restarts=0,
        steps=[],
        cancelled_by=None,
        verdict=OUTCOME_UNKNOWN,
        failure_class="",
        message="",
        advice="",
        retry_sensible=False,
        in_queue=None,
        pending_kind="",
        pending_grace=0.0,
        queue_answer="",
        accounting_answer="",
        progress=None,
        log_tail=[],
        recorded=False,
    )
    return info


def _facts(verdict: Verdict) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "verdict": verdict.outcome,
        "state": verdict.state,
        "reason": verdict.reason,
        "failure_class": verdict.failure_class,
        "message": verdict.message,
        "advice": verdict.advice,
        "retry_sensible": verdict.retry_sensible,
        "in_queue": verdict.in_queue,
        "pending_kind": verdict.pending_kind,
        "pending_grace": verdict.pending_grace,
    }
    row = verdict.row
    if row is not None:
        facts.update(
            work_dir=row.work_dir or None,
            exit_code=row.exit_code,
            signal=row.signal,
            derived_exit_code=row.derived_exit_code,
            derived_signal=row.derived_signal,
            submit_time=row.submit_time,
            start_time=row.start_time,
            end_time=row.end_time,
            elapsed=row.elapsed,
            nodes=sorted({node for item in verdict.rows for node in item.nodes}),
            restarts=max(item.restarts for item in verdict.rows),
            steps=[asdict(step) for item in verdict.rows for step in item.steps],
            cancelled_by=row.cancelled_by,
        )
    if verdict.queue_rows:
        queued = verdict.queue_rows[0]
        facts["work_dir"] = facts.get("work_dir") or queued.work_dir or None
        facts["submit_time"] = facts.get("submit_time") or queued.submit_time
        facts["start_time"] = facts.get("start_time") or (queued.start_time if verdict.state != "PENDING" else None)
        # The queue knows the nodes of a job that runs; the accounting is told of them some seconds later. Until then,
        # when it has no working folder either, it names at most the first one.
        queued_nodes = sorted({node for item in verdict.queue_rows for node in item.nodes})
        incomplete = not all(item.work_dir for item in verdict.rows)
        facts["nodes"] = (queued_nodes if verdict.in_queue or incomplete else []) or facts.get("nodes") or queued_nodes
    return facts


def _progress(logs: Mapping[str, str], log_format: str) -> dict[str, Any] | None:
    """The newest progress in the logs' ends; the standard output is asked first."""
    for path in _streams(logs):
        try:
            data = read_log_tail(path, PROGRESS_TAIL)
        except OSError:
            # Not there yet, or not visible yet on this host.
            continue
        progress = tail_progress(data, log_format) if data else None
        if progress is not None:
            return asdict(progress)
    return None


def _tail(logs: Mapping[str, str]) -> list[str]:
    """The last lines of the error log, else of the output log, without what only repeats; none when there is no log."""
    for path in reversed(_streams(logs)):
        try:
            lines = last_lines(path, FAILURE_LINES_READ)
        except OSError:
            continue
        telling = list(dict.fromkeys(line for line in lines if not _NOISE.search(line))) or lines
        if telling:
            return telling[-FAILURE_LINES:]
    return []


def _streams(logs: Mapping[str, str]) -> list[str]:
    return [logs[name] for name in ("stdout", "stderr") if name in logs]


def subjects_of(parameters: Mapping[str, Any]) -> list[Subject]:
    """The subjects that the selectors of `slurm_job_info` name, in their order."""
    if parameters["job_ids"] is not None:
        return [subject_of_job(job_id) for job_id in parameters["job_ids"]]
    folders = parameters["run_dirs"]
    if folders is None:
        folders = find_run_folders(parameters["runs_root"])
    runs = [record.load_run(folder) for folder in folders]
    if parameters["run_dirs"] is None:
        # Nobody gave an order: the newest submission comes last.
        runs.sort(key=lambda run: run.last.intent_time if run.last is not None else 0.0)
    return [subject_of_run(run) for run in runs]


def run_slurm_job_info(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave."""
    wrong = [job_id for job_id in parameters["job_ids"] or [] if not job_id.isdigit()]
    if wrong:
        return {"failed": True, "msg": f"job_ids has {wrong[0]!r}; give whole numbers, as sbatch does."}
    try:
        subjects = subjects_of(parameters)
        look, queries = Look(), 0
        if any(not settled(subject) for subject in subjects):
            slurm = connect(parameters["slurm_bin_dir"], parameters["environment_modules"])
            look = look_at(slurm, subjects, time.time())
            queries = slurm.queries
    except (SlurmNotFound, record.RecordError) as error:
        return {"failed": True, "msg": str(error)}
    now = time.time()
    watched: Mapping[str, Any] = parameters["gone_for"] or {}
    limits = limits_of(parameters)
    jobs = []
    for subject in subjects:
        seconds = watched.get(subject.job_id or "") if parameters["gone_for"] is not None else None
        gone_for = float(seconds or 0.0) if parameters["gone_for"] is not None else None
        jobs.append(describe(subject, look, now, limits, gone_for, parameters["progress"]))
    return {
        "failed": False,
        "changed": False,
        "jobs": jobs,
        "errors": look.errors,
        "query_seconds": look.seconds,
        "queries": queries,
    }
