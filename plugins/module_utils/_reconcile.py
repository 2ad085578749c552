# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the parameters of `reconcile_runs` to its result: one look for all specs, whatever their number.

This file is private to the collection.
"""

from __future__ import annotations

import os
import time
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _job_info as job_info
from ansible_collections.dgxc.workloads.plugins.module_utils import _reconcile_decide as deciding
from ansible_collections.dgxc.workloads.plugins.module_utils import _reconcile_state as memory
from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils import _submission as submission
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import limits_of
from ansible_collections.dgxc.workloads.plugins.module_utils._run_result import run_run_result
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import Look, SlurmNotFound, connect

#: What of an attempt is compared with the next one: texts with these endings, of at most this size (bytes), at most so
#: many, and not deeper than this below the attempt's folder.
_COMPARED = (".sh", ".sbatch", ".yaml", ".yml", ".py", ".json")
_FILE_LIMIT = 1 << 18
_MOST_FILES = 40
_FILE_DEPTH = 3
_FINAL = ("succeeded", "failed")


def run_reconcile(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave."""
    try:
        return _reconcile(parameters, check_mode)
    except (SlurmNotFound, record.RecordError) as error:
        return {"failed": True, "msg": str(error)}
    except OSError as error:
        return {"failed": True, "msg": "{}: {}".format(error.filename or "state folder", error.strerror or error)}


def _reconcile(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    now = time.time()
    folder = parameters["state_dir"]
    changed = False
    if not check_mode:
        changed = _remember(folder, parameters["record"], now)
    state = memory.read_state(folder)
    specs = {spec["name"]: spec for spec in parameters["specs"]}
    if not parameters["look"]:
        if not check_mode:
            _store_policies(folder, specs, state)
        return {"failed": False, "changed": changed, "specs": [], "queries": 0, "errors": []}
    runs, queries, collected, errors = _look(parameters, state, now, check_mode)
    changed = changed or bool(collected)
    decisions = _decide(parameters, specs, state, runs, now)
    cancelled: dict[str, dict[str, Any]] = {}
    if parameters["cancel"]:
        cancelled = _cancel(parameters, decisions, check_mode, now)
        changed = changed or any(report["changed"] for report in cancelled.values())
        if cancelled and not check_mode:
            runs, more, _none, errors = _look(parameters, state, now, check_mode)
            queries += more
    if not check_mode:
        _store_policies(folder, specs, state)
    # What this call did not try is an intention, and told as such by whoever plans.
    tried = parameters["cancel"] and not check_mode
    return {
        "failed": False,
        "changed": changed,
        "specs": [_row(decision, specs, state, runs, collected, cancelled, tried) for decision in decisions],
        "queries": queries,
        "errors": errors,
    }


def _remember(folder: str, entries: Sequence[Mapping[str, Any]], now: float) -> bool:
    """Write what the roles found out: the runs of each spec, or why there are none."""
    new = False
    for entry in entries:
        if entry["error"] and not entry["runs"]:
            memory.store_failure(folder, entry["name"], entry["digest"], entry["site"], entry["error"], now)
            new = True
            continue
        plan = {name: entry[name] for name in ("name", "digest", "site", "spec", "commit", "version", "runs")}
        new = memory.store_plan(folder, dict(plan, time=now)) or new
    return new


def _store_policies(folder: str, specs: Mapping[str, Mapping[str, Any]], state: Mapping[str, memory.Known]) -> None:
    """Remember what the specs of known names say of their own removal."""
    for name, spec in specs.items():
        policy = {key: spec.get(key) for key in ("prune", "owner", "file")}
        if name in state and state[name].policy != policy:
            memory.store_policy(folder, name, policy)


def _look(
    parameters: Mapping[str, Any], state: Mapping[str, memory.Known], now: float, check_mode: bool
) -> tuple[dict[str, dict[str, Any]], int, list[str], list[str]]:
    """The row of every run that is remembered, with at most two looks at Slurm: one at the jobs, one to judge those
    that ended.

    Returns the rows by folder, the number of queries, the folders whose result is new on record, and what did not
    answer.
    """
    folders = list(dict.fromkeys(run for known in state.values() for run in deciding.runs_of(known)))
    loaded = [record.load_run(folder) for folder in folders]
    subjects = [job_info.subject_of_run(run) for run in loaded]
    look, queries = Look(), 0
    asked = [subject for subject in subjects if subject.attempt is not None and not job_info.settled(subject)]
    if any(subject.attempt is not None and subject.attempt.refusal is None for subject in asked):
        slurm = connect(parameters["slurm_bin_dir"], parameters["environment_modules"])
        look = job_info.look_at(slurm, subjects, time.time())
        queries = slurm.queries
    limits = limits_of(parameters)
    infos = [job_info.describe(subject, look, time.time(), limits) for subject in subjects]
    due = []
    for run, subject, info in zip(loaded, subjects, infos):
        open_and_final = info["verdict"] in _FINAL and not job_info.settled(subject) and run.last is not None
        if open_and_final and run.newest.refusal is None and _long_enough_ago(info, parameters["collect_after"], now):
            due.append(run.folder)
    judged: dict[str, Any] = {}
    on_record = [run.folder for run, subject in zip(loaded, subjects) if job_info.settled(subject)]
    if due or on_record:
        answer = run_run_result(
            {
                "run_dirs": [*on_record, *due],
                "log_timeout": 0.0,
                "fail_unless_succeeded": False,
                **{
                    name: parameters[name]
                    for name in (
                        "slurm_bin_dir",
                        "environment_modules",
                        "grace",
                        "completing_grace",
                        "accounting_timeout",
                        "fail_on_step_failure",
                    )
                },
            },
            check_mode,
        )
        if answer["failed"]:
            raise record.RecordError(answer["msg"])
        queries += answer["queries"]
        judged = {row["run_dir"]: row for row in answer["runs"]}
    rows = {}
    for asked_for, run, subject, info in zip(folders, loaded, subjects, infos):
        row = _run_row(asked_for, run, subject, info, judged.get(run.folder), due)
        row["silent"] = bool(look.errors) and not job_info.settled(subject)
        rows[asked_for] = row
    collected = [folder for folder, run in zip(folders, loaded) if run.folder in due]
    return rows, queries, collected, list(look.errors)


def _long_enough_ago(info: Mapping[str, Any], seconds: float, now: float) -> bool:
    """Whether a job ended so long ago that a network file system shows its log and its files."""
    return info["end_time"] is None or now - info["end_time"] >= seconds or now < info["end_time"]


def _run_row(
    folder: str,
    run: record.Run,
    subject: job_info.Subject,
    info: Mapping[str, Any],
    judged: Mapping[str, Any] | None,
    due: Sequence[str],
) -> dict[str, Any]:
    """What is told of one run: as it is on record, else as Slurm says."""
    last = run.last
    verdict = info["verdict"]
    just_ended = verdict in _FINAL and judged is None and not (last is not None and last.refusal)
    row = {
        "run_dir": folder,
        "name": subject.name,
        "workload": subject.spec.get("workload"),
        "verdict": "active" if just_ended else verdict,
        "ended": just_ended,
        "state": info["state"],
        "reason": info["reason"],
        "job_id": info["job_id"],
        "attempt": last.number if last is not None else None,
        "attempts": sum(1 for attempt in run.attempts if attempt.job_id or attempt.refusal or attempt is last),
        "requested": last.intent_time if last is not None else None,
        "refusal_class": str((last.job or {}).get("class") or "") if last is not None and last.refusal else "",
        "failure_class": info["failure_class"],
        "message": info["message"],
        "nodes": (subject.spec.get("expect") or {}).get("nodes"),
        "gpus_per_node": (subject.spec.get("expect") or {}).get("gpus_per_node"),
        "steps": (subject.spec.get("expect") or {}).get("steps"),
        "steps_done": None,
        "seconds_per_step": None,
        "gpu_hours": None,
        "cause": None,
        "record": os.path.join(run.folder, "record.json"),
    }
    if judged is not None:
        for name in ("verdict", "state", "job_id", "failure_class", "message", "steps_done", "gpu_hours", "cause"):
            row[name] = judged[name]
        row["seconds_per_step"] = ((judged["metrics"] or {}).get("seconds_per_step") or {}).get("mean")
    return row


def _decide(
    parameters: Mapping[str, Any],
    specs: Mapping[str, Mapping[str, Any]],
    state: Mapping[str, memory.Known],
    runs: Mapping[str, Mapping[str, Any]],
    now: float,
) -> list[deciding.Decision]:
    """One decision per name that is wanted, broken, or still alive."""
    shared: dict[str, list[str]] = {}
    for name, spec in specs.items():
        plan = state[name].plan_for(spec["digest"], spec["site"]) if name in state else None
        if plan is not None and spec["state"] != "absent":
            for run in plan["runs"]:
                shared.setdefault(run["run_dir"], []).append(name)
    for name in parameters["broken"]:
        # Nobody knows what a broken spec wants; what it had is kept.
        for folder in deciding.runs_of(state.get(name)):
            shared.setdefault(folder, []).append(name)
    decisions = [
        deciding.decide(spec, state.get(name), runs, shared, now, parameters["follow_site"])
        for name, spec in specs.items()
    ]
    decisions += [deciding.decide_broken(name, state.get(name)) for name in parameters["broken"] if name not in specs]
    for name, known in state.items():
        if name not in specs and name not in parameters["broken"]:
            removed = deciding.decide_removed(known, runs, shared, parameters["prune"], parameters["hold_prune"])
            if removed is not None:
                decisions.append(removed)
    return sorted(decisions, key=lambda decision: decision.name)


def _cancel(
    parameters: Mapping[str, Any],
    decisions: Sequence[deciding.Decision],
    check_mode: bool,
    now: float,
) -> dict[str, dict[str, Any]]:
    """Cancel what the decisions say; by folder, what came of it."""
    wanted: dict[str, tuple[str, int | None, str]] = {}
    for decision in decisions:
        # What is about to be replaced is cancelled by the next call, once its replacement is submitted.
        if decision.action not in (deciding.PLAN, deciding.RETRY):
            for folder, attempt, reason in decision.cancel:
                wanted[folder] = (decision.name, attempt, reason)
    if not wanted:
        return {}
    slurm = connect(parameters["slurm_bin_dir"], parameters["environment_modules"])
    submitter = submission.Submitter(
        slurm, record.this_process(), time.time, time.sleep, submission.Timing(), limits_of(parameters)
    )
    if not check_mode:
        for folder, (name, attempt, reason) in wanted.items():
            memory.store_cancellation(parameters["state_dir"], name, folder, attempt, reason, now)
    requests = [submission.Request(os.path.basename(folder), folder, "", "", {}) for folder in wanted]
    return {folder: report.as_json() for folder, report in zip(wanted, submitter.cancel(requests, check_mode))}


def _row(
    decision: deciding.Decision,
    specs: Mapping[str, Mapping[str, Any]],
    state: Mapping[str, memory.Known],
    runs: Mapping[str, Mapping[str, Any]],
    collected: Sequence[str],
    cancelled: Mapping[str, Mapping[str, Any]],
    tried: bool,
) -> dict[str, Any]:
    """The row of one name, as the module returns it.

    :param cancelled: by folder, what came of its cancellation.
    :param tried: whether this call cancels; what it left out was then not wanted yet.
    """
    spec = specs.get(decision.name)
    known = state.get(decision.name)
    action, reason = decision.action, decision.reason
    mine = [folder for folder in decision.runs if folder in collected]
    if action == deciding.LEFT_ALONE and mine:
        action = deciding.COLLECTED
    told, lost = [], []
    for folder, attempt, why in decision.cancel:
        report = cancelled.get(folder, {"action": "not wanted yet" if tried else "planned"})
        item = {"run_dir": folder, "attempt": attempt, "reason": why, "name": runs[folder]["name"]}
        item["job_id"] = runs[folder]["job_id"] or report.get("job_id")
        if report["action"] in ("cancelled", "planned"):
            told.append(item)
        elif report["action"] == "unknown":
            message = str(report["message"]).replace("cannot cancel: ", "", 1)
            lost.append(dict(item, reason="could not be cancelled: " + message))
    if action == deciding.CANCEL and lost:
        action, reason = deciding.UNCLEAR, "; ".join(item["reason"] for item in lost)
    elif action == deciding.CANCEL and not told:
        # It ended before, or its submission led to no job.
        action = deciding.LEFT_ALONE
        reason = "shall not run, and nothing of it does" if spec is not None else "removed; nothing of it runs"
    return {
        "name": decision.name,
        "action": action,
        "reason": reason,
        "changes": decision.changes,
        "owner": spec.get("owner") if spec is not None else (known.policy.get("owner") if known is not None else None),
        "file": spec.get("file") if spec is not None else (known.policy.get("file") if known is not None else None),
        "workload": spec.get("workload") if spec is not None else None,
        "max_attempts": decision.max_attempts,
        "runs": [dict(runs[folder]) for folder in decision.runs],
        "old_runs": [dict(runs[folder]) for folder in decision.old_runs],
        "cancel": told,
        "not_cancelled": lost,
        "previous": _previous(decision) if action in (deciding.PLAN, deciding.RETRY) else {},
    }


def _previous(decision: deciding.Decision) -> dict[str, dict[str, str]]:
    """By name of a run, the files of its newest attempt under that name, for a comparison with the next one."""
    found: dict[str, tuple[float, dict[str, str]]] = {}
    for folder in [*decision.old_runs, *decision.runs]:
        run = record.load_run(folder)
        if run.last is None:
            continue
        name = str(run.spec.get("name") or os.path.basename(folder))
        if name not in found or found[name][0] < run.newest.intent_time:
            found[name] = (run.newest.intent_time, _small_files(run.newest.folder))
    return {name: files for name, (_time, files) in found.items()}


def _small_files(folder: str) -> dict[str, str]:
    """The texts of an attempt that are small enough to be compared, by path: script, configuration, overlay."""
    files: dict[str, str] = {}
    for current, folders, names in os.walk(folder):
        depth = 0 if current == folder else os.path.relpath(current, folder).count(os.sep) + 1
        if depth >= _FILE_DEPTH:
            del folders[:]
        for name in sorted(names):
            path = os.path.join(current, name)
            if not name.endswith(_COMPARED) or len(files) >= _MOST_FILES:
                continue
            try:
                if os.path.islink(path) or os.path.getsize(path) > _FILE_LIMIT:
                    continue
                with open(path, encoding="utf-8", errors="replace") as stream:
                    text = stream.read()
            except OSError:
                continue
            files[os.path.relpath(path, folder)] = text.replace(folder, record.ATTEMPT_DIR_TOKEN)
    return files
