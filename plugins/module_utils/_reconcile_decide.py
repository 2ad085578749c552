# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to be done so that what should have run has run. Pure functions of specs, memory and one look at the runs.

This file is private to the collection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._reconcile_state import DIGITS, Known

LEFT_ALONE = "left alone"
PLAN = "plan"
RETRY = "retry"
CANCEL = "cancelled"
COLLECTED = "collected"
UNCLEAR = "unclear"

#: After how many seconds a spec that could not be planned, or a run that a limit refused, is tried again: the first
#: pause, doubled with every further failure, and the longest.
FIRST_PAUSE = 300.0
LONGEST_PAUSE = 3600.0
#: After how many seconds a submission without a job has surely ended, whoever made it.
SUBMISSION_ENDED = 600.0
#: Refusals of sbatch that pass by themselves.
_PASSING_REFUSALS = ("policy", "transient", "ambiguous")


@dataclass
class Decision:
    """What is done for one name. `action` is left alone, plan (through its role), retry (the same), or cancelled. What
    comes of a cancellation is told by others.

    `cancel` holds the runs whose living jobs go: (run folder, attempt, reason). For a spec that is planned they go only
    once it was.
    """

    name: str
    action: str = LEFT_ALONE
    reason: str = ""
    runs: list[str] = field(default_factory=list)
    old_runs: list[str] = field(default_factory=list)
    cancel: list[tuple[str, int | None, str]] = field(default_factory=list)
    max_attempts: int | None = None
    changes: list[str] = field(default_factory=list)


def runs_of(known: Known | None) -> list[str]:
    """The folders of all runs of a name, each once."""
    if known is None:
        return []
    return list(dict.fromkeys(run["run_dir"] for plan in known.plans for run in plan["runs"]))


def decide(
    spec: Mapping[str, Any],
    known: Known | None,
    runs: Mapping[str, Mapping[str, Any]],
    shared: Mapping[str, Sequence[str]],
    now: float,
    follow_site: str = "failed",
) -> Decision:
    """The decision for a spec that is wanted here.

    :param runs: by folder, each with verdict, failure_class, message, attempt, attempts, state, job_id, and silent:
        whether Slurm did not answer when it was asked for the run's job.
    :param shared: by folder, the names whose present spec has that run: what another one wants is not cancelled.
    :param follow_site: which specs a change of the inventory or the collection plans again: failed, always, never.
    """
    decision = Decision(spec["name"])
    memory = known if known is not None else Known(spec["name"])
    plan = memory.plan_for(spec["digest"], spec["site"])
    decision.runs = [run["run_dir"] for run in plan["runs"]] if plan is not None else []
    decision.old_runs = [folder for folder in runs_of(memory) if folder not in decision.runs]
    if spec["state"] == "absent":
        _withdraw(decision, decision.runs + decision.old_runs, memory, runs, shared, "state is absent")
        if decision.action == LEFT_ALONE:
            untold = _untold(decision.runs + decision.old_runs, runs)
            decision.reason = (
                f"Slurm does not tell what became of {untold}, which shall not run"
                if untold
                else "shall not run, and nothing of it does"
            )
        return decision
    # What was refused, or may have led to no job, takes no place, so the old run keeps its own.
    if spec["on_change"] == "cancel" and not any(
        runs[folder]["refusal_class"] or (runs[folder]["verdict"] == "unknown" and not runs[folder]["job_id"])
        for folder in decision.runs
    ):
        for folder in decision.old_runs:
            if runs[folder]["verdict"] == "active" and not _wanted_by_another(folder, spec["name"], shared):
                decision.cancel.append((folder, runs[folder]["attempt"], "the spec changed"))
    failure = memory.failure_for(spec["digest"], spec["site"])
    if failure is not None and not _pause_is_over(failure.get("time"), failure.get("count"), now):
        decision.reason = "could not be planned: {}".format(failure.get("message"))
        decision.cancel = []
        return decision
    if plan is None:
        decision.action = PLAN
        decision.changes = spec_changes(memory.plans[-1]["spec"] if memory.plans else None, spec)
        if memory.plans:
            decision.reason = "the spec changed: " + "; ".join(decision.changes or ["back to earlier content"])
        else:
            decision.reason = "new spec" if failure is None else "could not be planned before; tried again"
        return decision
    _judge_known(decision, spec, memory, plan, runs, now, follow_site)
    return decision


def _judge_known(
    decision: Decision,
    spec: Mapping[str, Any],
    memory: Known,
    plan: Mapping[str, Any],
    runs: Mapping[str, Mapping[str, Any]],
    now: float,
    follow_site: str,
) -> None:
    """The decision for a spec whose runs are known."""
    rows = [runs[folder] for folder in decision.runs]
    moved = plan["site"][:DIGITS] != spec["site"][:DIGITS]
    failed = [row for row in rows if row["verdict"] == "failed"]
    unclear = [row for row in rows if _is_unclear(row)]
    gone = [row for row in rows if not row["attempts"]]
    ours = [row for row in failed if _is_ours(row, memory)]
    others = [row for row in failed if not _is_ours(row, memory)]
    passing = [row for row in failed if row["refusal_class"] in _PASSING_REFUSALS]
    # A role takes the whole spec. On another site that makes another run of everything in it.
    kept = _kept(rows, memory) if moved and follow_site != "always" else []
    most = max([spec["max_attempts"], *(row["attempts"] + 1 for row in ours)])
    if moved and any(row["silent"] or now - (row["requested"] or 0.0) < SUBMISSION_ENDED for row in unclear):
        decision.reason = "a submission began and was cut off; whether it led to a job cannot be told yet"
        return
    if kept and (failed or unclear):
        first = "failed: " + _first(failed[0]["message"]) if failed else "a submission began and was cut off"
        decision.reason = (
            f"{first}; the inventory or the collection changed since, and nothing is run again, because "
            f"{', '.join(kept)}. A spec of its own runs what is still wanted"
        )
        return
    if unclear:
        decision.action, decision.reason = PLAN, "a submission began and was cut off; its job is looked for"
        if moved:
            decision.reason = "a submission was cut off before the inventory or the collection changed"
    elif ours and _may_be_tried_with(ours, others, spec, most):
        decision.action = RETRY
        decision.reason = "wanted again after the reconciler cancelled it"
        decision.max_attempts = most
    elif moved and (follow_site == "always" or (follow_site == "failed" and failed)):
        decision.action = PLAN
        decision.reason = "the inventory or the collection changed since it " + ("failed" if failed else "was planned")
    elif ours and others:
        decision.reason = (
            f"failed: {_first(others[0]['message'])}; so {_names(ours)}, which the reconciler cancelled, is not run "
            f"again, because {_names(others)} would be as well. A spec of its own runs what is still wanted"
        )
    elif failed and len(passing) == len(failed) and _pause_is_over(
        max(row["requested"] or 0.0 for row in passing), max(row["attempts"] for row in passing), now
    ):  # fmt: skip
        decision.action, decision.reason = RETRY, "Slurm's refusal may have passed: " + _first(passing[0]["message"])
    elif failed and spec["resubmit"] == "on_failure" and not any(_beyond_retry(row) for row in failed):
        used = max(row["attempts"] for row in failed)
        if min(row["attempts"] for row in failed) < spec["max_attempts"]:
            decision.action = RETRY
            decision.reason = f"attempt {used} failed: {_first(failed[0]['message'])}"
        else:
            decision.reason = f"failed, and all {used} attempts are used up: {_first(failed[0]['message'])}"
    elif failed:
        decision.reason = "failed: " + _first(failed[0]["message"])
    elif gone:
        decision.reason = (
            f"{gone[0]['run_dir']} is gone, so what came of it cannot be told; change the spec to run it again"
        )
    elif any(row["verdict"] == "active" for row in rows):
        decision.reason = ", ".join(dict.fromkeys(_activity(row) for row in rows if row["verdict"] == "active"))
    elif any(row["verdict"] == "unknown" for row in rows):
        decision.reason = "Slurm does not tell: " + _first(
            next(row["message"] for row in rows if row["verdict"] == "unknown")
        )
    elif not rows:
        decision.reason = "it led to no run"
    else:
        decision.reason = "succeeded"
    if decision.action == RETRY and any(row["ended"] for row in rows):
        # The role would take what has just ended for failed, and nobody has looked yet whether a person cancelled it.
        decision.action, decision.max_attempts = LEFT_ALONE, None
        decision.reason = _activity(next(row for row in rows if row["ended"]))
    if moved and decision.action == LEFT_ALONE and follow_site != "never":
        decision.reason += " (before the inventory or the collection changed)"


def decide_removed(
    known: Known,
    runs: Mapping[str, Mapping[str, Any]],
    shared: Mapping[str, Sequence[str]],
    prune: bool,
    held_back: str,
) -> Decision | None:
    """The decision for a name that no spec has any more; None when nothing of it lives.

    :param prune: whether a removal cancels where the spec itself did not say.
    :param held_back: why nothing is pruned now, or ''.
    """
    decision = Decision(known.name, old_runs=runs_of(known))
    alive = [folder for folder in decision.old_runs if runs[folder]["verdict"] == "active"]
    unclear = [folder for folder in decision.old_runs if _may_have_a_job(runs[folder], known)]
    untold = _untold([folder for folder in decision.old_runs if runs[folder]["silent"]], runs)
    own = known.policy.get("prune")
    spared = "prune is off" if not (own if isinstance(own, bool) else prune) else held_back
    if spared:
        # Where Slurm answered, a submission that was cut off has no job.
        unclear = [folder for folder in unclear if runs[folder]["silent"]]
    if not alive and not unclear and not untold:
        return None
    if not spared:
        _withdraw(decision, decision.old_runs, known, runs, shared, "the spec was removed")
    if decision.action != LEFT_ALONE:
        return decision
    if untold:
        decision.reason = f"removed; Slurm does not tell what became of {untold}"
    elif spared:
        state = "it runs on" if alive else "a submission of it was cut off and may have led to a job that runs on"
        decision.reason = f"removed; {state}, because {spared}"
    else:
        decision.reason = "removed; another spec has the same run"
    return decision


def decide_broken(name: str, known: Known | None) -> Decision:
    """The decision for a name whose spec has errors: whatever it had is left as it is."""
    return Decision(name, reason="the spec has errors; nothing of it is touched", old_runs=runs_of(known))


def _withdraw(
    decision: Decision,
    folders: Sequence[str],
    known: Known,
    runs: Mapping[str, Mapping[str, Any]],
    shared: Mapping[str, Sequence[str]],
    reason: str,
) -> None:
    for folder in folders:
        row = runs[folder]
        alive = row["verdict"] == "active" or _may_have_a_job(row, known)
        if alive and not _wanted_by_another(folder, decision.name, shared):
            decision.cancel.append((folder, row["attempt"], reason))
    if decision.cancel:
        decision.action, decision.reason = CANCEL, reason


def _is_unclear(row: Mapping[str, Any]) -> bool:
    """Whether a submission began of which no job is known."""
    return bool(row["verdict"] == "unknown" and row["attempts"] and not row["job_id"])


def _may_have_a_job(row: Mapping[str, Any], known: Known) -> bool:
    """Whether a submission without a known job has to be looked for: cancelling does so, once Slurm answers."""
    return _is_unclear(row) and (row["silent"] or not known.was_cancelled(row["run_dir"], row["attempt"]))


def _untold(folders: Sequence[str], runs: Mapping[str, Mapping[str, Any]]) -> str:
    """The jobs that were submitted and of which Slurm does not tell, as text; '' if there is none."""
    rows = [runs[folder] for folder in folders]
    return ", ".join(f"job {row['job_id']}" for row in rows if row["verdict"] == "unknown" and row["job_id"])


def _is_ours(row: Mapping[str, Any], known: Known) -> bool:
    """Whether the reconciler cancelled what failed; a job that ended by itself just before that is not ours."""
    return row["state"] == "CANCELLED" and known.was_cancelled(row["run_dir"], row["attempt"])


def _kept(rows: Sequence[Mapping[str, Any]], known: Known) -> list[str]:
    """What must not be run another time, one text per run: what is good, what runs, and what a person cancelled."""
    told = []
    for row in rows:
        if row["verdict"] == "failed":
            if row["state"] == "CANCELLED" and not row["refusal_class"] and not _is_ours(row, known):
                told.append(f"{row['name']} was cancelled by a person")
        elif row["verdict"] == "active":
            told.append(f"{row['name']} " + ("has just ended" if row["ended"] else f"has job {row['job_id']}"))
        elif row["verdict"] == "unknown":
            if not _is_unclear(row):
                told.append(f"of {row['name']} nothing can be told")
        else:
            told.append(f"{row['name']} {row['verdict']}")
    return told


def _may_be_tried_with(
    ours: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], most: int
) -> bool:
    """Whether what the reconciler cancelled may be tried again, although that tries all that failed."""
    if not others:
        return True
    used_up = most > spec["max_attempts"] and any(row["attempts"] >= spec["max_attempts"] for row in others)
    return spec["resubmit"] == "on_failure" and not used_up and not any(_beyond_retry(row) for row in others)


def _names(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(row["name"]) for row in rows)


def _wanted_by_another(folder: str, name: str, shared: Mapping[str, Sequence[str]]) -> bool:
    return any(other != name for other in shared.get(folder, ()))


def _pause_is_over(since: Any, count: Any, now: float) -> bool:
    """Whether it is time for another try: after 5 minutes, 10, 20, 40, and then every hour."""
    if not isinstance(since, (int, float)) or not isinstance(count, int):
        return True
    # A clock that was set back must not silence a spec for ever.
    waited = now - since
    return waited < -LONGEST_PAUSE or waited >= min(FIRST_PAUSE * 2.0 ** max(0, min(count, 20) - 1), LONGEST_PAUSE)


def _activity(row: Mapping[str, Any]) -> str:
    if row["ended"]:
        return f"job {row['job_id']} has just ended; it is judged at the next look"
    state = str(row["state"] or "active").lower()
    return f"job {row['job_id']} is {state}" + (f" ({row['reason']})" if row["reason"] and state == "pending" else "")


def _beyond_retry(row: Mapping[str, Any]) -> bool:
    """Whether another attempt is pointless, or against somebody's wish: refused by Slurm, or cancelled by a person."""
    return bool(row["refusal_class"]) or row["state"] == "CANCELLED"


def _first(message: Any) -> str:
    """The first line of a message, cut at a length that a table can take."""
    text = (str(message or "no reason known").splitlines() or [""])[0]
    return text if len(text) <= 240 else text[:237] + "..."


def spec_changes(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
    """What of a spec's content is not as it was, one text per variable; nothing when there is no old one."""
    if not isinstance(old, Mapping):
        return []
    before, after = _flat(old), _flat(new)
    return [
        f"{name} {_shown(before, name)} -> {_shown(after, name)}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _flat(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"workload": spec.get("workload"), **(spec.get("variables") or {})}


def _shown(values: Mapping[str, Any], name: str) -> str:
    text = repr(values[name]) if name in values else "(default)"
    return text if len(text) <= 60 else text[:57] + "..."
