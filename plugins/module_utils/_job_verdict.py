# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on a job: a pure function of what squeue and sacct said, and of how long the job has been gone.

This file is private to the collection. The rules (and where they come from) in short:

* The queue beats the accounting: a job that squeue lists in a living state is active, whatever sacct says, because
  sacct lags at both ends and shows PREEMPTED, NODE_FAIL or REQUEUED for a job that will run again.
* Success is a COMPLETED row of our own job, exit code 0:0, with no failed step. Nothing else is.
* PREEMPTED, NODE_FAIL, BOOT_FAIL, REQUEUED end a wait only once the queue has positively not listed the job for
  `grace`.
* A tool that did not answer changes nothing. No row anywhere, with both tools answering for `grace`, is "unknown", and
  unknown is never success.
* A row that was submitted before ours, or from another folder, is another job with a used-again id.
* A job of several parts (array tasks, components) is decided when every part is. Seen on 22.05: sacct may list one task
  of an array, COMPLETED, for five seconds and more before it lists the others, one of which has failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._job_parts import count_parts
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import CLOCK_SKEW, Look
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import AccountingRow, QueueRow, StepRow
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import (
    ACTIVE,
    ANSWERED,
    DISABLED,
    FINAL,
    FINAL_ONCE_GONE,
    STATES,
    STUCK,
    describe_exit,
    reason_rule,
    state_rule,
)

#: The four outcomes. A wait goes on only while a job is active.
OUTCOME_ACTIVE = "active"
OUTCOME_SUCCEEDED = "succeeded"
OUTCOME_FAILED = "failed"
OUTCOME_UNKNOWN = "unknown"

#: Of several states at once (array tasks, components of a heterogeneous job), the one to show first.
_SHOW_FIRST = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "PENDING")
#: Step states that mean that the work in the step went wrong. CANCELLED is left out: a script may end a helper step.
_FAILED_STEPS = frozenset(["FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "TIMEOUT", "BOOT_FAIL", "DEADLINE"])


@dataclass(frozen=True)
class Limits:
    """How long the verdict waits for certainty, in seconds.

    `grace`: how long the queue must have been without the job before a word that may mean a requeue, or no word at all,
    is believed. `completing`: how long an epilog may keep a finished job in COMPLETING. `accounting_lag`: how long the
    accounting may go on saying RUNNING for a job that has left the queue.
    """

    grace: float = 120.0
    completing: float = 300.0
    accounting_lag: float = 1800.0
    fail_on_step_failure: bool = True


@dataclass(frozen=True)
class Identity:
    """Which rows are ours: the job id, and, where known, the working folder and the time of submission (epoch).

    `parts` is how many array tasks or components the job has, 1 where that is not known.
    """

    job_id: str
    work_dir: str | None = None
    submitted_after: float | None = None
    parts: int = 1


@dataclass(frozen=True)
class Verdict:
    """What is known of a job. `in_queue` is None when the queue did not answer.

    `pending_kind` is waiting, waiting_with_deadline or stuck while the job pends, else empty; `pending_grace` is how
    many seconds a stuck reason is tolerated. `advice` and `message` are for the person who reads a failure.
    """

    outcome: str
    state: str = ""
    reason: str = ""
    failure_class: str = ""
    message: str = ""
    retry_sensible: bool = False
    in_queue: bool | None = None
    pending_kind: str = ""
    pending_grace: float = 0.0
    advice: str = ""
    row: AccountingRow | None = None
    rows: list[AccountingRow] = field(default_factory=list)
    queue_rows: list[QueueRow] = field(default_factory=list)


def judge(identity: Identity, look: Look, gone_for: float, now: float, limits: Limits) -> Verdict:
    """The verdict on one job.

    `gone_for` is how many seconds the caller has seen the queue answer without the job (0 when it was never seen so);
    `now` is the time of the look, seconds since the epoch.
    """
    queue_rows = [row for row in look.queue_rows(identity.job_id) if _ours(identity, row.work_dir, row.submit_time)]
    rows = [row for row in look.accounting_rows(identity.job_id) if _ours(identity, row.work_dir, row.submit_time)]
    told = [row for row in rows if row.work_dir or not identity.work_dir or _agrees(row, queue_rows)]
    living = [row for row in queue_rows if _lives(row.state)]
    in_queue: bool | None = bool(living) if look.queue_answer == ANSWERED else None

    if living and not _held_up_by_epilog(living, told, now, limits):
        return _in_queue(living, queue_rows, told, in_queue)
    if not told:
        return _untold(look, gone_for, limits, in_queue, queue_rows)
    missing = _missing_parts(identity, told, queue_rows)
    if missing:
        return _by_some_parts(missing, told, queue_rows, gone_for, limits, in_queue)
    return _by_accounting(told, queue_rows, look, gone_for, limits, in_queue)


def _ours(identity: Identity, work_dir: str, submit_time: int | None) -> bool:
    if identity.work_dir and work_dir and work_dir != identity.work_dir:
        return False
    if identity.submitted_after is not None and submit_time is not None:
        # A requeue makes the time later, a used-again id has an earlier one.
        return submit_time >= identity.submitted_after - CLOCK_SKEW
    return True


def _agrees(row: AccountingRow, queue_rows: list[QueueRow]) -> bool:
    """A row that has not yet been told its folder counts when the queue knows the same id, in our folder."""
    return any(queued.job_id == row.job_id and queued.work_dir for queued in queue_rows)


def _lives(state: str) -> bool:
    """Whether a state printed by squeue means that the job is still there: `-t all` also lists finished jobs."""
    rule = state_rule(state)
    return rule.finality in (ACTIVE, STUCK) or state == "REQUEUED"


def _held_up_by_epilog(living: list[QueueRow], told: list[AccountingRow], now: float, limits: Limits) -> bool:
    if any(row.state != "COMPLETING" for row in living) or not told:
        return False
    return all(
        state_rule(row.state).finality == FINAL and row.end_time is not None and now - row.end_time > limits.completing
        for row in told
    )


def _in_queue(
    living: list[QueueRow], queue_rows: list[QueueRow], told: list[AccountingRow], in_queue: bool | None
) -> Verdict:
    shown = min(living, key=lambda row: _SHOW_FIRST.index(row.state) if row.state in _SHOW_FIRST else 9)
    kind, grace, advice = "", 0.0, ""
    if shown.state == "PENDING":
        rule = reason_rule(shown.reason)
        kind, grace, advice = rule.kind, rule.grace, rule.advice
    elif state_rule(shown.state).finality == STUCK:
        kind, advice = STUCK, state_rule(shown.state).advice
    message, failure_class = "", ""
    if shown.state not in STATES:
        failure_class = "unrecognised_state"
        message = f"Slurm says {shown.state!r}, a state that this collection does not know; waiting on."
    return Verdict(
        OUTCOME_ACTIVE,
        state=shown.state,
        reason="" if shown.reason == "None" else shown.reason,
        failure_class=failure_class,
        message=message,
        in_queue=in_queue,
        pending_kind=kind,
        pending_grace=grace,
        advice=advice,
        row=_worst(told) if told else None,
        rows=told,
        queue_rows=queue_rows,
    )


def _untold(look: Look, gone_for: float, limits: Limits, in_queue: bool | None, queue_rows: list[QueueRow]) -> Verdict:
    """No row of ours in the accounting, and none alive in the queue."""
    answered = look.queue_answer == ANSWERED and look.accounting_answer in (ANSWERED, DISABLED)
    if not answered or gone_for < limits.grace:
        return Verdict(OUTCOME_ACTIVE, in_queue=in_queue, queue_rows=queue_rows)
    if look.accounting_answer == DISABLED:
        message = (
            "the job has left the queue, this site keeps no accounting, and slurmctld has forgotten the job: "
            "how it ended "
            "cannot be told by Slurm. Look into its log."
        )
    else:
        message = (
            f"neither the queue nor the accounting knows the job, for {gone_for:.0f} s: whether it ran cannot "
            "be told. Look into "
            "its folder; if nothing ran, submit again with resubmit: always."
        )
    return Verdict(OUTCOME_UNKNOWN, failure_class="lost", message=message, in_queue=in_queue, queue_rows=queue_rows)


def _missing_parts(identity: Identity, told: list[AccountingRow], queue_rows: list[QueueRow]) -> int:
    """How many parts of the job the accounting has not told yet: of those asked for, and of those the queue lists."""
    ids = {row.job_id for row in told}
    listed = {row.job_id for row in queue_rows} - ids
    return max(identity.parts - count_parts(ids), count_parts(listed), 0)


def _by_some_parts(
    missing: int,
    told: list[AccountingRow],
    queue_rows: list[QueueRow],
    gone_for: float,
    limits: Limits,
    in_queue: bool | None,
) -> Verdict:
    """The queue lists no part alive, and the accounting lacks some of them."""
    if in_queue is not False or gone_for < limits.accounting_lag:
        return Verdict(OUTCOME_ACTIVE, in_queue=in_queue, rows=told, row=_worst(told), queue_rows=queue_rows)
    parts = count_parts({row.job_id for row in told})
    return Verdict(
        OUTCOME_UNKNOWN,
        failure_class="stale_accounting",
        message=(
            f"the job left the queue {gone_for:.0f} s ago, but the accounting knows {parts} of its {parts + missing} "
            "parts only: how the others ended cannot be told. Look into their logs."
        ),
        in_queue=in_queue,
        row=_worst(told),
        rows=told,
        queue_rows=queue_rows,
    )


def _by_accounting(
    told: list[AccountingRow],
    queue_rows: list[QueueRow],
    look: Look,
    gone_for: float,
    limits: Limits,
    in_queue: bool | None,
) -> Verdict:
    """The queue does not list the job alive (or does not answer); the accounting has rows of ours."""
    gone = look.queue_answer == ANSWERED
    undecided = [row for row in told if not _final(row, gone, gone_for, limits)]
    worst = _worst(undecided or told)
    if not undecided:
        outcome, failure_class, message, retry = _ending(told, limits)
        return Verdict(
            outcome,
            state=worst.state,
            failure_class=failure_class,
            message=message,
            retry_sensible=retry,
            in_queue=in_queue,
            row=worst,
            rows=told,
            queue_rows=queue_rows,
        )
    lagging = all(state_rule(row.state).finality in (ACTIVE, STUCK) for row in undecided)
    if gone and lagging and gone_for >= limits.accounting_lag:
        return Verdict(
            OUTCOME_UNKNOWN,
            state=worst.state,
            failure_class="stale_accounting",
            message=(
                f"the job left the queue {gone_for:.0f} s ago, but the accounting still says {worst.state}: its "
                "end was never recorded "
                "(sacctmgr show runawayjobs)."
            ),
            in_queue=in_queue,
            row=worst,
            rows=told,
            queue_rows=queue_rows,
        )
    return Verdict(OUTCOME_ACTIVE, state=worst.state, in_queue=in_queue, row=worst, rows=told, queue_rows=queue_rows)


def _final(row: AccountingRow, gone: bool, gone_for: float, limits: Limits) -> bool:
    finality = state_rule(row.state).finality
    if finality == FINAL:
        return True
    return finality == FINAL_ONCE_GONE and gone and gone_for >= limits.grace


def _worst(rows: list[AccountingRow]) -> AccountingRow:
    """Of several rows (array tasks, components) the one that says most: a failed one, else the first."""
    return min(rows, key=lambda row: (row.state == "COMPLETED", row.job_id))


def _ending(rows: list[AccountingRow], limits: Limits) -> tuple[str, str, str, bool]:
    """(outcome, failure class, message, retry sensible) of rows that are all final: the worst one decides."""
    for row in sorted(rows, key=lambda item: (item.state == "COMPLETED", item.job_id)):
        failure_class, message, retry = _row_failure(row, limits)
        if failure_class:
            return OUTCOME_FAILED, failure_class, message, retry
    warnings = [step for row in rows for step in failed_steps(row)]
    note = f"steps {_names(warnings)} failed, which was asked to be tolerated" if warnings else ""
    return OUTCOME_SUCCEEDED, "", note, False


def _row_failure(row: AccountingRow, limits: Limits) -> tuple[str, str, bool]:
    rule = state_rule(row.state)
    ending = describe_exit(row.exit_code, row.signal)
    if rule.failure_class:
        by = "" if row.cancelled_by is None else f" by user id {row.cancelled_by}"
        where = " on {}".format(", ".join(row.nodes[:4])) if row.nodes else ""
        message = "job {} ended as {}{}{}, {}. {}".format(row.job_id, row.state, by, where, ending, rule.advice)
        return rule.failure_class, message.strip(), rule.retry_sensible
    if row.exit_code or row.signal:
        return "failed", f"job {row.job_id} ended as {row.state} but with {ending}.", False
    steps = failed_steps(row)
    if limits.fail_on_step_failure and (steps or row.derived_exit_code):
        named = f"step {_names(steps)}" if steps else "a step"
        message = (
            "job {} ended as COMPLETED 0:0, but {} in it failed ({}): the script went on after the failure. Let the "
            "script stop at a failing command, or set fail_on_step_failure: false.".format(
                row.job_id,
                named,
                describe_exit(steps[0].exit_code, steps[0].signal)
                if steps
                else describe_exit(row.derived_exit_code, row.derived_signal),
            )
        )
        return "step_failed", message, False
    return "", "", False


def failed_steps(row: AccountingRow) -> list[StepRow]:
    """The steps of a job in which work went wrong. `extern` is Slurm's own and is left out."""
    return [
        step for step in row.steps if step.id != "extern" and (step.state in _FAILED_STEPS or (step.exit_code or 0) > 0)
    ]


def _names(steps: list[StepRow]) -> str:
    return ", ".join(step.id for step in steps[:4])


def limits_of(parameters: Mapping[str, Any]) -> Limits:
    """The limits in the parameters of a module that documents the fragment `limits`."""
    return Limits(
        grace=float(parameters["grace"]),
        completing=float(parameters["completing_grace"]),
        accounting_lag=float(parameters["accounting_timeout"]),
        fail_on_step_failure=bool(parameters["fail_on_step_failure"]),
    )
