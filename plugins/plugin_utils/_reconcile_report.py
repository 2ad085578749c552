# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reconciliation did or would do, and how things stand: as a model, as text, Markdown and JSON.

This file is private to the collection. Two things are told apart. The *report* says what was done by this call, or
would be. The *status* says how every spec stands; it is the same after every call as long as nothing happens, so that a
branch it is committed to stays quiet.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils._table import table

SCHEMA = 1
#: How many characters of differences a comment takes; GitHub refuses one of more than 65536 in all.
MARKDOWN_ROOM = 40000
#: The order of actions in the summary.
ACTIONS = (
    "submitted", "adopted", "collected", "retried", "cancelled", "left alone",
    "refused", "unclear", "not planned", "broken",
)  # fmt: skip
#: Actions that need a person.
TROUBLE = ("refused", "unclear", "not planned", "broken")
#: Actions after which what a spec replaces is not wanted any more.
TAKES_A_PLACE = ("submitted", "retried", "adopted", "left alone")
#: What the statuses of several runs add up to: the first that one of them has.
_WORST_FIRST = ("failed", "unknown", "running", "pending", "succeeded")


def reconcile_report(
    wanted: Mapping[str, Any],
    look: Mapping[str, Any],
    planned: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Any] | None,
    cluster: str,
    check_mode: bool,
) -> dict[str, Any]:
    """The report of one cluster.

    :param wanted: what `reconcile_specs` returned.
    :param look: what the first call of `reconcile_runs` returned.
    :param planned: by spec, what its role did: `jobs` of `slurm_job`, and `error`.
    :param after: what the second call returned, where there was one.
    """
    specs = {spec["name"]: spec for spec in wanted["specs"]}
    later = {row["name"]: row for row in (after or {}).get("specs", [])}
    rows: list[dict[str, Any]] = []
    for row in look["specs"]:
        name = row["name"]
        fresh = later.get(name, row)
        entry = {
            "spec": name,
            "action": row["action"],
            "reason": row["reason"],
            "workload": row["workload"],
            "owner": row["owner"],
            "file": row["file"],
            "changes": row["changes"],
            "runs": [_run(run, specs.get(name)) for run in fresh["runs"]],
            "old_runs": [_run(run, None) for run in fresh["old_runs"]],
            "diffs": {},
        }
        if name in wanted["broken"]:
            entry["action"] = "broken"
        if row["action"] in ("plan", "retry"):
            _tell_planned(entry, row, planned.get(name), check_mode)
        rows.append(entry)
        cancelled, lost = _came_of_cancelling(row, later.get(name), entry["action"], check_mode)
        if row["action"] != "cancelled":
            rows += [_cancelled(entry, item, "cancelled") for item in cancelled]
        elif cancelled:
            entry["reason"] += ": " + _names(cancelled)
        if row["action"] != "unclear":
            rows += [_cancelled(entry, item, "unclear") for item in lost]
    counts = {action: sum(1 for row in rows if row["action"] == action) for action in ACTIONS}
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "mode": "plan" if check_mode else "apply",
        "commit": wanted["commit"],
        "version": wanted["version"],
        "rows": rows,
        "problems": wanted["problems"],
        "errors": look["errors"],
        "hold_prune": wanted["hold_prune"],
        "counts": {action: count for action, count in counts.items() if count},
    }


def _came_of_cancelling(
    row: Mapping[str, Any], later: Mapping[str, Any] | None, action: str, check_mode: bool
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The jobs of a name that were cancelled, or would be, and those that could not be.

    What a planned spec replaces goes once its role was through: by the second call, or, in a plan, if it takes the
    place. `action` is what became of it.
    """
    cancelled: list[Mapping[str, Any]] = []
    lost: list[Mapping[str, Any]] = []
    if row["action"] not in ("plan", "retry") or (check_mode and action in TAKES_A_PLACE):
        cancelled, lost = list(row["cancel"]), list(row["not_cancelled"])
    if later is not None:
        known = {item["run_dir"] for item in cancelled}
        cancelled += [item for item in later["cancel"] if item["run_dir"] not in known]
        gone = {item["run_dir"] for item in cancelled}
        lost = [item for item in lost if item["run_dir"] not in gone]
        known = {item["run_dir"] for item in lost}
        lost += [item for item in later["not_cancelled"] if item["run_dir"] not in known]
    return cancelled, lost


def _tell_planned(
    entry: dict[str, Any], row: Mapping[str, Any], outcome: Mapping[str, Any] | None, check_mode: bool
) -> None:
    """What a workload's role did with a spec."""
    jobs = (outcome or {}).get("jobs") or []
    error = (outcome or {}).get("error") if outcome is not None else "its role was not reached"
    actions = {job["action"] for job in jobs}
    again = "retried" if row["action"] == "retry" else "submitted"
    told = "; ".join(dict.fromkeys(str(job["message"]) for job in jobs if job["message"]))
    if "refused" in actions:
        entry["action"], entry["reason"] = "refused", told
    elif error and not jobs:
        entry["action"], entry["reason"] = "not planned", str(error)
    elif "unknown" in actions:
        entry["action"], entry["reason"] = "unclear", told
    elif actions & {"submitted", "planned"} or not jobs:
        entry["action"] = again
        if not jobs:
            entry["reason"] += "; its script can be shown once the workspace exists"
    elif "adopted" in actions:
        entry["action"] = "adopted"
        entry["reason"] += "; its job is there already"
    else:
        entry["action"] = "left alone"
        entry["reason"] += "; the very run is on record already"
    if check_mode or not entry["runs"]:
        entry["runs"] = [_planned_run(job) for job in jobs]
    if check_mode:
        for job in jobs:
            old = row["previous"].get(job["name"], {})
            for script in (outcome or {}).get("scripts") or []:
                folder, path = f"{job['attempt_dir']}/", str(script["after_header"])
                if path.startswith(folder):
                    path = path[len(folder) :]
                    text = script["after"].replace(job["attempt_dir"], "@ATTEMPT_DIR@")
                    title = f"{job['name']}: {path}"
                    entry["diffs"][title] = script_diff(old.get(path, ""), text, title)


def script_diff(old: str, new: str, name: str) -> str:
    """The unified difference of two files; all of the new one where there is none before; '' if they are the same."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name} (as it ran)" if old else "/dev/null", f"{name} (as it would run)",
        lineterm="",
    )  # fmt: skip
    return "\n".join(lines)


def _planned_run(job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": job["name"],
        "run_dir": job["run_dir"],
        "job_id": job["job_id"],
        "attempt": job["attempt"],
        "state": job["state"],
        "status": {"active": "pending"}.get(str(job["verdict"]), str(job["verdict"])),
        "message": job["message"],
        "steps": None,
        "steps_done": None,
        "seconds_per_step": None,
        "gpu_hours": None,
        "record": None,
        "remark": "",
    }


def _run(run: Mapping[str, Any], spec: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the status tells of a run: nothing that changes while nothing happens."""
    status = run["verdict"]
    if status == "active":
        status = "pending" if run["state"] == "PENDING" else "running"
    remark = ""
    baseline = (spec or {}).get("baseline")
    if baseline and run["seconds_per_step"] is not None:
        ratio = run["seconds_per_step"] / baseline["seconds_per_step"] - 1.0
        worse = ratio > baseline.get("tolerance", 0.05)
        remark = "{:+.1%} to the baseline{}".format(ratio, ": slower than it may be" if worse else "")
    cause = run["cause"] or {}
    message = run["message"] or ""
    if status == "failed" and cause:
        message = f"{message} Likely cause: {cause['cause']} {cause['remedy']}"
    return {
        **{name: run[name] for name in ("name", "run_dir", "job_id", "attempt", "state", "steps", "steps_done")},
        **{name: run[name] for name in ("seconds_per_step", "gpu_hours", "record")},
        "status": status,
        "message": "" if status in ("running", "pending", "succeeded") else message,
        "remark": remark,
    }


def _cancelled(entry: Mapping[str, Any], item: Mapping[str, Any], action: str) -> dict[str, Any]:
    """A row of its own for a job that went, or was to go."""
    return {
        **entry,
        "action": action,
        "reason": f"{item['reason']}: {_names([item])}",
        "runs": [],
        "old_runs": [],
        "diffs": {},
        "changes": [],
    }


def _names(items: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        "{} ({})".format(item["name"], f"job {item['job_id']}" if item["job_id"] else "submission unclear")
        for item in items
    )


def _one_line(text: Any, most: int = 160) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _jobs(row: Mapping[str, Any]) -> str:
    return ", ".join(str(run["job_id"]) for run in row["runs"] if run["job_id"]) or "-"


def summary(report: Mapping[str, Any]) -> str:
    """One line: how many of each."""
    counts = ", ".join(f"{count} {action}" for action, count in report["counts"].items()) or "no specs"
    would = " would be" if report["mode"] == "plan" else ""
    place = f" at {report['commit'][:12]}" if report["commit"] else ""
    return f"{report['cluster']}{place}: {counts}{would and ' (a plan; nothing was done)'}"


def trouble(report: Mapping[str, Any]) -> list[str]:
    """One sentence for everything that a person has to see to; a training that failed is not among them."""
    told = [problem["text"] for problem in report["problems"]]
    told += [
        f"{row['spec']}: {row['action']}: {_one_line(row['reason'], 400)}"
        for row in report["rows"]
        if row["action"] in set(TROUBLE) - {"broken"} or row["reason"].startswith("could not be planned: ")
    ]
    return told


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as text."""
    rows = [[row["spec"], row["action"], _jobs(row), _one_line(row["reason"])] for row in report["rows"]]
    lines = table(("spec", "action", "jobs", "why"), rows) if rows else []
    for row in report["rows"]:
        for diff in row["diffs"].values():
            lines += ["", *diff.splitlines()] if diff else []
    if report["problems"]:
        lines += ["", "errors in specs, which harm no other spec:"]
        lines += ["  " + problem["text"] for problem in report["problems"]]
    lines += [f"warning: {error}" for error in report["errors"]]
    return [*lines, "", summary(report)]


def report_markdown(report: Mapping[str, Any]) -> str:
    """The report for the comment of a merge request."""
    heading = "What a merge would do" if report["mode"] == "plan" else "What was done"
    lines = [f"### {heading} on {report['cluster']}", ""]
    if report["rows"]:
        lines += ["| spec | action | jobs | why | owner |", "|---|---|---|---|---|"]
        lines += [
            _line(
                [
                    f"`{row['spec']}`",
                    _strong(row["action"]),
                    _jobs(row),
                    _one_line(row["reason"], 300),
                    row["owner"] or "",
                ]
            )
            for row in report["rows"]
        ]
    else:
        lines.append("No specs.")
    lines.append("")
    if report["problems"]:
        lines += ["**Errors in specs** (the others are not touched by them):", ""]
        lines += [f"- `{problem['file']}:{problem['line']}` {_problem(problem)}" for problem in report["problems"]] + [
            ""
        ]
    left_out, room = 0, MARKDOWN_ROOM
    for row in report["rows"]:
        for name, diff in row["diffs"].items():
            room -= len(diff)
            if diff and room < 0:
                left_out += 1
            elif diff:
                lines += [
                    f"<details><summary><code>{_cell(name)}</code></summary>", "", "~~~~diff",
                    diff.replace("~~~~", "~~~ ~"), "~~~~", "", "</details>", "",
                ]  # fmt: skip
    if left_out:
        lines += [f"{left_out} more differences are left out here; the JSON of this report has them.", ""]
    lines.append(_cell(summary(report)))
    return "\n".join(lines) + "\n"


def _problem(problem: Mapping[str, Any]) -> str:
    return _cell(f"{problem['key']}: {problem['message']}" if problem["key"] else problem["message"])


def _strong(action: str) -> str:
    return action if action == "left alone" else f"**{action}**"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if cell.startswith(("`", "**", "[")) else _cell(cell) for cell in cells) + " |"


def _cell(text: Any) -> str:
    """Text that neither ends a cell nor begins a tag or a mention."""
    return (
        str(text)
        .replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("\n", " ")
        .replace("@", "&#64;")
    )


# --- status ---


def status_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """How every spec stands."""
    entries: dict[str, dict[str, Any]] = {}
    for row in report["rows"]:
        if row["spec"] in entries:
            continue
        runs = row["runs"] or (row["old_runs"] if row["action"] == "broken" else [])
        alive = [run for run in row["old_runs"] if run["status"] in ("running", "pending")]
        entries[row["spec"]] = {
            "spec": row["spec"],
            "status": _status(row, runs),
            "workload": row["workload"],
            "owner": row["owner"],
            "file": row["file"],
            "runs": runs,
            "old_runs_alive": alive,
            "message": _status_message(row, runs, alive),
        }
    return {
        "schema": SCHEMA,
        "cluster": report["cluster"],
        "specs": list(entries.values()),
        "problems": report["problems"],
    }


def _status(row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    if row["action"] in TROUBLE:
        return str(row["action"])
    if row["reason"].startswith("could not be planned: "):
        return "not planned"
    if row["action"] == "cancelled" or row["reason"].startswith("shall not run"):
        return "absent"
    if row["reason"].startswith("removed; "):
        return "removed"
    statuses = {run["status"] for run in runs}
    return next((status for status in _WORST_FIRST if status in statuses), "unknown")


def _status_message(
    row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], alive: Sequence[Mapping[str, Any]]
) -> str:
    told = [run["message"] for run in runs if run["message"]] + [run["remark"] for run in runs if run["remark"]]
    if row["action"] in TROUBLE or row["reason"].startswith(("could not be planned", "removed; ")):
        told.insert(0, row["reason"])
    told += [f"job {run['job_id']} of earlier content still runs" for run in alive]
    return "; ".join(dict.fromkeys(told))


def _hours(runs: Sequence[Mapping[str, Any]]) -> str:
    known = [run["gpu_hours"] for run in runs if run["gpu_hours"] is not None]
    return "{:.3g}".format(sum(known)) if known else "-"


def status_markdown(status: Mapping[str, Any], link_base: str = "") -> str:
    """How things stand, for a page that people look at."""
    lines = [f"# Runs on {_cell(status['cluster'])}", ""]
    lines += [
        "| spec | status | jobs | steps | s/step | GPU hours | owner | remarks |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in status["specs"]:
        runs = entry["runs"]
        name = f"`{entry['spec']}`"
        if link_base and entry["file"]:
            name = f"[{name}]({link_base.rstrip('/')}/{entry['file']})"
        lines.append(
            _line(
                [
                    name,
                    entry["status"],
                    ", ".join(str(run["job_id"]) for run in runs if run["job_id"]) or "-",
                    ", ".join("{} of {}".format(run["steps_done"], run["steps"]) for run in runs if run["steps_done"])
                    or "-",
                    ", ".join("{:.4g}".format(run["seconds_per_step"]) for run in runs if run["seconds_per_step"])
                    or "-",
                    _hours(runs),
                    entry["owner"] or "",
                    _one_line(entry["message"], 400),
                ]
            )
        )
    if status["problems"]:
        lines += ["", "## Errors in specs", ""]
        lines += [f"- `{problem['file']}:{problem['line']}` {_problem(problem)}" for problem in status["problems"]]
    records = [
        (entry["spec"], run)
        for entry in status["specs"]
        for run in entry["runs"]
        if run["record"] and run["status"] in ("succeeded", "failed")
    ]
    if records:
        lines += ["", "## Records on the cluster", ""]
        lines += [f"- `{spec}`: `{run['record']}`" for spec, run in records]
    return "\n".join(lines) + "\n"
