# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what sbatch, squeue, sacct and scontrol print, and the types it is read into.

This file is private to the collection. Everything here is a pure function of text. Nothing is guessed: a field that is
absent, `Unknown`, `None` or `N/A` is None, a line that does not have the expected shape is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import normalise_state

#: Between the fields we ask for: a character that no job name, path or reason of a sane site contains.
FIELD_SEPARATOR = "\x1f"

#: squeue's fields, in the order of the QueueRow below (see the manual page of squeue, -o).
QUEUE_FORMAT = FIELD_SEPARATOR.join(["%i", "%T", "%V", "%S", "%N", "%r", "%Z"])

#: sacct's fields. All of them exist in Slurm 20.11 and later. Free text comes last.
ACCOUNTING_FIELDS: tuple[str, ...] = (
    "JobID",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "NNodes",
    "NTasks",
    "NodeList",
    "WorkDir",
    "JobName",
)

_NOTHING = frozenset(["", "unknown", "none", "n/a", "(null)", "none assigned", "invalid"])


@dataclass(frozen=True)
class QueueRow:
    """One line of squeue. Times are seconds since the epoch; `job_id` may carry an array or component suffix."""

    job_id: str
    state: str
    submit_time: int | None
    start_time: int | None
    nodes: list[str]
    reason: str
    work_dir: str


@dataclass(frozen=True)
class StepRow:
    """One step of a job as sacct tells it: `id` is what stands behind the job id's dot (`batch`, `extern`, `0`,
    ...).
    """

    id: str
    name: str
    state: str
    exit_code: int | None
    signal: int | None
    nodes: int | None
    tasks: int | None


@dataclass(frozen=True)
class AccountingRow:
    """One job (or array task, or component) as sacct tells it, with its steps.

    Times are seconds since the epoch, `elapsed` is seconds. `cancelled_by` is the user id in `CANCELLED by UID`.
    `restarts` counts earlier rows of the same job: each requeue leaves one. An empty `work_dir` means that the
    accounting has not yet been told everything (seen for about two seconds after a submission).
    """

    job_id: str
    state: str
    cancelled_by: int | None
    exit_code: int | None
    signal: int | None
    derived_exit_code: int | None
    derived_signal: int | None
    submit_time: int | None
    start_time: int | None
    end_time: int | None
    elapsed: int | None
    nodes: list[str]
    work_dir: str
    name: str
    restarts: int = 0
    steps: list[StepRow] = field(default_factory=list)


@dataclass(frozen=True)
class SubmitAnswer:
    """The job that sbatch named: its id, and the cluster where a multi-cluster site says one."""

    job_id: str
    cluster: str | None


_PARSABLE = re.compile(r"(?P<id>\d+)(;(?P<cluster>\S+))?")
_SENTENCE = re.compile(r"Submitted batch job (?P<id>\d+)( on cluster (?P<cluster>\S+))?")


def parse_submit_output(text: str) -> SubmitAnswer | None:
    """The job id in the standard output of sbatch, or None when no line is one.

    The last line that is in full `ID`, `ID;CLUSTER` or `Submitted batch job ID [on cluster C]` counts. A number inside
    another text (a banner of the site) never does.
    """
    for line in reversed(text.splitlines()):
        for pattern in (_PARSABLE, _SENTENCE):
            match = pattern.fullmatch(line.strip())
            if match and int(match.group("id")) > 0:
                return SubmitAnswer(match.group("id"), match.group("cluster"))
    return None


def base_job_id(job_id: str) -> str:
    """The number that `scancel` takes for the whole job: `28` of `28_[2-9%2]`, `33` of `33+1`, else the id itself."""
    match = re.match(r"\d+", job_id)
    return match.group(0) if match else job_id


def parse_epoch(text: str) -> int | None:
    """Seconds since the epoch (the tools are run with SLURM_TIME_FORMAT=%s), or None for a time that is not known."""
    stripped = text.strip()
    return int(stripped) if stripped.isdigit() else None


def parse_exit_pair(text: str) -> tuple[int | None, int | None]:
    """`1:0` as (exit code, signal); (None, None) when the text is not of that shape."""
    match = re.fullmatch(r"(\d+):(\d+)", text.strip())
    return (int(match.group(1)), int(match.group(2))) if match else (None, None)


def parse_cancelled_by(state_text: str) -> int | None:
    """The user id in `CANCELLED by 1000`; None when no canceller is named. Zero (root) is a canceller."""
    match = re.fullmatch(r"CANCELLED by (\d+)", state_text.strip())
    return int(match.group(1)) if match else None


def parse_count(text: str) -> int | None:
    """A whole number, or None for an empty or unknown field."""
    stripped = text.strip()
    return int(stripped) if stripped.isdigit() else None


def expand_nodes(text: str) -> list[str]:
    """The node names in Slurm's compressed list: `gpu[01-03,07],login` gives gpu01, gpu02, gpu03, gpu07, login.

    Leading zeros are kept. Several brackets in one name are expanded left to right. A text that names no nodes gives an
    empty list, and so does one that is cut or malformed, since a wrong node is worse than none.
    """
    if text.strip().lower() in _NOTHING:
        return []
    names: list[str] = []
    for part in _split_outside_brackets(text.strip()):
        expanded = _expand_brackets(part)
        if expanded is None:
            return []
        names.extend(expanded)
    return names


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return parts


def _expand_brackets(text: str) -> list[str] | None:
    match = re.fullmatch(r"([^\[\]]*)\[([0-9,\-]+)\](.*)", text)
    if match is None:
        return None if ("[" in text or "]" in text or not text) else [text]
    prefix, ranges, rest = match.groups()
    tails = [""] if rest == "" else _expand_brackets(rest)
    if tails is None:
        return None
    names: list[str] = []
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return None
        for number in range(int(first), int(last or first) + 1):
            label = str(number).zfill(len(first)) if first.startswith("0") else str(number)
            names.extend(prefix + label + tail for tail in tails)
    return names


def parse_queue(text: str) -> list[QueueRow]:
    """The rows of `squeue -h -o QUEUE_FORMAT`. Other lines (a `CLUSTER:` heading, a banner) are left out."""
    rows = []
    for line in text.splitlines():
        fields = line.split(FIELD_SEPARATOR, 6)
        if len(fields) != 7 or not re.match(r"\d", fields[0].strip()):
            continue
        job_id, state, submit, start, nodes, reason, work_dir = fields
        rows.append(
            QueueRow(
                job_id=job_id.strip(),
                state=normalise_state(state),
                submit_time=parse_epoch(submit),
                start_time=parse_epoch(start),
                nodes=expand_nodes(nodes),
                reason=reason.strip(),
                work_dir=_path(work_dir),
            )
        )
    return rows


def parse_accounting(text: str) -> list[AccountingRow]:
    """The jobs in the output of `sacct -P -n -D` with ACCOUNTING_FIELDS, each with its steps, one row per job id.

    With -D a requeued job has one row per run. The row with the newest submission is the truth; the earlier ones only
    count as restarts, and their steps are dropped with them. An earlier row of another folder is that of another job,
    whose id is used again, and counts for nothing. Slurm prints the steps of a row right after it.
    """
    runs: dict[str, list[AccountingRow]] = {}
    current: AccountingRow | None = None
    for line in text.splitlines():
        fields = line.split(FIELD_SEPARATOR, len(ACCOUNTING_FIELDS) - 1)
        if len(fields) != len(ACCOUNTING_FIELDS) or not re.match(r"\d", fields[0].strip()):
            continue
        values = dict(zip(ACCOUNTING_FIELDS, fields))
        job_id, dot, step_id = values["JobID"].strip().partition(".")
        if not dot:
            current = _accounting_row(job_id, values)
            runs.setdefault(job_id, []).append(current)
        elif current is not None and current.job_id == job_id:
            current.steps.append(_step_row(step_id, values))
    return [_newest(rows) for rows in runs.values()]


def _accounting_row(job_id: str, values: dict[str, str]) -> AccountingRow:
    exit_code, signal = parse_exit_pair(values["ExitCode"])
    derived_exit_code, derived_signal = parse_exit_pair(values["DerivedExitCode"])
    return AccountingRow(
        job_id=job_id,
        state=normalise_state(values["State"]),
        cancelled_by=parse_cancelled_by(values["State"]),
        exit_code=exit_code,
        signal=signal,
        derived_exit_code=derived_exit_code,
        derived_signal=derived_signal,
        submit_time=parse_epoch(values["Submit"]),
        start_time=parse_epoch(values["Start"]),
        end_time=parse_epoch(values["End"]),
        elapsed=parse_count(values["ElapsedRaw"]),
        nodes=expand_nodes(values["NodeList"]),
        work_dir=_path(values["WorkDir"]),
        name=values["JobName"].strip(),
    )


def _step_row(step_id: str, values: dict[str, str]) -> StepRow:
    exit_code, signal = parse_exit_pair(values["ExitCode"])
    return StepRow(
        id=step_id,
        name=values["JobName"].strip(),
        state=normalise_state(values["State"]),
        exit_code=exit_code,
        signal=signal,
        nodes=parse_count(values["NNodes"]),
        tasks=parse_count(values["NTasks"]),
    )


def _newest(rows: list[AccountingRow]) -> AccountingRow:
    newest = max(enumerate(rows), key=lambda pair: (pair[1].submit_time or 0, pair[0]))[1]
    restarts = sum(row.work_dir == newest.work_dir for row in rows) - 1
    return AccountingRow(**dict(_fields(newest), restarts=restarts))


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def parse_controller_jobs(text: str) -> list[AccountingRow]:
    """The jobs in the output of `scontrol -o show job`, for sites without accounting.

    slurmctld keeps a finished job for MinJobAge (300 s by default), so this answers only for recent jobs. Steps are not
    told. Lines of another shape (`No jobs in the system`) give nothing.
    """
    rows = []
    for line in text.splitlines():
        values = dict(re.findall(r"(?:^|\s)([A-Za-z:]+)=(\S*)", line))
        if not values.get("JobId", "").isdigit():
            continue
        directory = re.search(r"\sWorkDir=(.*?)(?=\s[A-Z][A-Za-z]*=|$)", line)
        exit_code, signal = parse_exit_pair(values.get("ExitCode", ""))
        derived_exit_code, derived_signal = parse_exit_pair(values.get("DerivedExitCode", ""))
        rows.append(
            AccountingRow(
                job_id=_controller_job_id(values),
                state=normalise_state(values.get("JobState", "")),
                cancelled_by=None,
                exit_code=exit_code,
                signal=signal,
                derived_exit_code=derived_exit_code,
                derived_signal=derived_signal,
                submit_time=parse_epoch(values.get("SubmitTime", "")),
                start_time=parse_epoch(values.get("StartTime", "")),
                end_time=parse_epoch(values.get("EndTime", "")),
                elapsed=None,
                nodes=expand_nodes(values.get("NodeList", "")),
                work_dir=_path(directory.group(1)) if directory else "",
                name=values.get("JobName", ""),
                restarts=parse_count(values.get("Restarts", "")) or 0,
            )
        )
    return rows


def _controller_job_id(values: Mapping[str, str]) -> str:
    """The id as squeue and sacct write it: scontrol names array tasks and components by numbers of their own."""
    if values.get("ArrayJobId") and "ArrayTaskId" in values:
        task = values["ArrayTaskId"]
        return "{}_{}".format(values["ArrayJobId"], task if task.isdigit() else f"[{task}]")
    if values.get("HetJobId") and "HetJobOffset" in values:
        return "{}+{}".format(values["HetJobId"], values["HetJobOffset"])
    return values["JobId"]


def parse_node_states(text: str) -> dict[str, str]:
    """The state of each node in the output of `sinfo -h -N -o '%N %t'`, as sinfo's short word with its `*`, if any."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _path(text: str) -> str:
    stripped = text.strip()
    return "" if stripped.lower() in _NOTHING else stripped
