# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict: a table of what squeue and sacct said, and properties that hold whatever they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils import _job_verdict as verdicts
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import Look
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import AccountingRow, QueueRow, StepRow
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import (
    ANSWERED,
    DISABLED,
    NO_ANSWER,
    STATES,
)

FOLDER = "/s/runs/w/a-0/attempt-1"
OURS = verdicts.Identity("12", FOLDER, 1000.0)
LIMITS = verdicts.Limits()
NOW = 5000.0


def queued(state, reason="None", job_id="12", work_dir=FOLDER, submit=1000):
    return QueueRow(job_id, state, submit, None, [], reason, work_dir)


def step(state, step_id="0", exit_code=0, signal=0):
    return StepRow(step_id, "python", state, exit_code, signal, 2, 16)


def accounted(
    state, job_id="12", work_dir=FOLDER, submit=1000, end=2000, code=0, signal=0, derived=0, steps=(), **more
):
    row = AccountingRow(
        job_id, state, None, code, signal, derived, 0, submit, 1001, end, 10, ["gpu001"], work_dir, "n", 0, list(steps)
    )
    return replace(row, **more)


def look(queue=(), accounting=(), queue_answer=ANSWERED, accounting_answer=ANSWERED):
    return Look(queue_answer, accounting_answer, list(queue), list(accounting))


def judge(seen, gone_for=0.0, limits=LIMITS, identity=OURS):
    return verdicts.judge(identity, seen, gone_for, NOW, limits)


# (what it shows, look, seconds gone, outcome, failure class)
CASES = [
    ("A1-01 cancelled", look([], [accounted("CANCELLED", cancelled_by=0)]), 0, "failed", "cancelled"),
    ("A1-03 unknown word", look([queued("FOO_BAR")]), 0, "active", "unrecognised_state"),
    ("A1-03 unknown word in accounting", look([], [accounted("FOO_BAR")]), 0, "active", ""),
    ("A1-04 completing", look([queued("COMPLETING")], [accounted("COMPLETED", end=4990)]), 0, "active", ""),
    ("A1-04 epilog for ever", look([queued("COMPLETING")], [accounted("COMPLETED", end=4000)]), 0, "succeeded", ""),
    ("A1-04 completing, still running", look([queued("COMPLETING")], [accounted("RUNNING", end=None)]), 0, "active", ""),
    ("A1-06 requeued", look([queued("PENDING")], [accounted("REQUEUED")]), 500, "active", ""),
    ("A1-07 stale requeue, early", look([], [accounted("REQUEUED")]), 60, "active", ""),
    ("A1-07 stale requeue, late", look([], [accounted("REQUEUED")]), 121, "failed", "stale_requeue"),
    ("A1-08 preempted, requeued", look([queued("PENDING", "BeginTime")], [accounted("PREEMPTED")]), 500, "active", ""),
    ("A1-09 preempted, cancelled", look([], [accounted("PREEMPTED")]), 121, "failed", "preempted"),
    ("A1-09 queue silent", look([], [accounted("PREEMPTED")], queue_answer=NO_ANSWER), 900, "active", ""),
    ("A1-10 node fail", look([], [accounted("NODE_FAIL")]), 121, "failed", "node_fail"),
    ("A1-10 node fail, early", look([], [accounted("NODE_FAIL")]), 5, "active", ""),
    ("A1-11 timeout is 0:0", look([], [accounted("TIMEOUT")]), 0, "failed", "timeout"),
    ("A1-12 deadline", look([], [accounted("DEADLINE", code=1)]), 0, "failed", "deadline"),
    ("A1-13 out of memory", look([], [accounted("OUT_OF_MEMORY", signal=125)]), 0, "failed", "out_of_memory"),
    ("A1-13 hidden", look([], [accounted("COMPLETED", steps=[step("OUT_OF_MEMORY")])]), 0, "failed", "step_failed"),
    ("A1-14 boot fail", look([], [accounted("BOOT_FAIL")]), 121, "failed", "boot_fail"),
    ("A1-15 revoked", look([], [accounted("REVOKED")]), 121, "failed", "revoked"),
    ("A1-16 held", look([queued("PENDING", "launch failed requeued held")]), 0, "active", ""),
    ("A1-18 suspended", look([queued("SUSPENDED")], [accounted("SUSPENDED", end=None)]), 0, "active", ""),
    ("A1-19 step failed", look([], [accounted("COMPLETED", derived=1, steps=[step("FAILED", exit_code=1)])]), 0,
     "failed", "step_failed"),
    ("A1-19 extern alone", look([], [accounted("COMPLETED", steps=[step("FAILED", "extern", 1)])]), 0, "succeeded", ""),
    ("A1-20 failed", look([], [accounted("FAILED", code=1)]), 0, "failed", "failed"),
    ("A1-21 signal", look([], [accounted("FAILED", signal=9)]), 0, "failed", "failed"),
    ("a helper step that the script ended", look([], [accounted("COMPLETED", steps=[step("CANCELLED", signal=15)])]), 0,
     "succeeded", ""),
    ("completed with a code", look([], [accounted("COMPLETED", code=3)]), 0, "failed", "failed"),
    ("A1-23 vanished, early", look(), 60, "active", ""),
    ("A1-23 vanished", look(), 121, "unknown", "lost"),
    ("A1-24 controller unreachable", look(queue_answer=NO_ANSWER), 900, "active", ""),
    ("A3-01 lag after submit", look([queued("RUNNING")]), 0, "active", ""),
    ("A3-01b half a row", look([], [accounted("COMPLETED", work_dir="")]), 10, "active", ""),
    ("A3-01b half a row, queue agrees", look([queued("COMPLETED")], [accounted("COMPLETED", work_dir="")]), 10,
     "succeeded", ""),
    ("A3-02 lag at the end", look([], [accounted("RUNNING", end=None)]), 300, "active", ""),
    ("A3-02 record never closed", look([], [accounted("RUNNING", end=None)]), 1801, "unknown", "stale_accounting"),
    ("A3-03 accounting down", look([], [], accounting_answer=NO_ANSWER), 9000, "active", ""),
    ("A3-04 no accounting", look([], [accounted("COMPLETED")], accounting_answer=DISABLED), 0, "succeeded", ""),
    ("A3-04 no accounting, forgotten", look(accounting_answer=DISABLED), 121, "unknown", "lost"),
    ("A3-07 id used again", look([], [accounted("COMPLETED", submit=500)]), 10, "active", ""),
    ("A3-07 another folder", look([], [accounted("COMPLETED", work_dir="/elsewhere")]), 10, "active", ""),
    ("A3-08 requeue changes submit", look([], [accounted("COMPLETED", submit=1500)]), 0, "succeeded", ""),
    ("A3-10 array goes on", look([], [accounted("COMPLETED", "12_0"), accounted("PENDING", "12_[1-9]", end=None)]), 0,
     "active", ""),
    ("A3-10 a task failed, others wait",
     look([queued("PENDING", job_id="12_[1-9]")], [accounted("FAILED", "12_0", code=1)]), 0, "active", ""),
    ("A3-10 array done", look([], [accounted("COMPLETED", "12_0"), accounted("FAILED", "12_1", code=2)]), 0,
     "failed", "failed"),
    ("A3-11 components", look([], [accounted("COMPLETED", "12+0"), accounted("FAILED", "12+1", code=1)]), 0,
     "failed", "failed"),
    # Seen on 22.05 for five seconds: the queue knows all four tasks, the accounting the last one.
    ("A3-10 one task told, all ended",
     look([queued("COMPLETED", job_id=f"12_{task}") for task in (3, 1, 0)] + [queued("FAILED", job_id="12_2")],
          [accounted("COMPLETED", "12_3")]), 10, "active", ""),
    ("A3-10 some told, for too long",
     look([queued("FAILED", job_id="12_2")], [accounted("COMPLETED", "12_3")]), 1801, "unknown", "stale_accounting"),
    ("A3-11 one component told",
     look([queued("COMPLETED", job_id="12+0"), queued("FAILED", job_id="12+1")], [accounted("COMPLETED", "12+0")]), 10,
     "active", ""),
    ("completed, queue silent", look([], [accounted("COMPLETED")], queue_answer=NO_ANSWER), 0, "succeeded", ""),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "gone_for", "outcome", "failure_class"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_the_verdict(seen, gone_for, outcome, failure_class):
    verdict = judge(seen, gone_for)
    assert (verdict.outcome, verdict.failure_class) == (outcome, failure_class)


# (what it shows, ids told as COMPLETED, seconds gone, outcome) for a job of four parts that the queue has forgotten.
PARTS = [
    ("all four", ["12_0", "12_1", "12_2", "12_3"], 10, "succeeded"),
    ("one missing", ["12_0", "12_1", "12_3"], 10, "active"),
    ("one missing for too long", ["12_0", "12_1", "12_3"], 1801, "unknown"),
    ("the last one alone", ["12_3"], 1799, "active"),
    ("two rows stand for four", ["12_0", "12_[1-3]"], 10, "succeeded"),
    ("a list that was cut", ["12_0", "12_[1,...]"], 10, "active"),
    ("a row of the job before it was split", ["12"], 10, "active"),
]


@pytest.mark.parametrize(("told", "gone_for", "outcome"), [case[1:] for case in PARTS], ids=[case[0] for case in PARTS])
def test_a_job_of_parts_is_decided_when_all_are_told(told, gone_for, outcome):
    seen = look([], [accounted("COMPLETED", job_id) for job_id in told])
    verdict = judge(seen, gone_for, identity=replace(OURS, parts=4))
    assert verdict.outcome == outcome


def test_how_many_parts_are_missing_is_said():
    verdict = judge(look([], [accounted("COMPLETED", "12_3")]), 2000, identity=replace(OURS, parts=4))
    assert "knows 1 of its 4 parts" in verdict.message


def test_a_silent_queue_does_not_make_a_part_superfluous():
    seen = look([], [accounted("COMPLETED", "12_3")], queue_answer=NO_ANSWER)
    assert judge(seen, 9000, identity=replace(OURS, parts=2)).outcome == "active"


def test_a_failed_step_can_be_tolerated_and_is_still_told():
    seen = look([], [accounted("COMPLETED", derived=1, steps=[step("FAILED", exit_code=1)])])
    verdict = judge(seen, limits=verdicts.Limits(fail_on_step_failure=False))
    assert verdict.outcome == "succeeded"
    assert "steps 0 failed" in verdict.message


def test_a_held_job_is_stuck_and_says_what_to_do():
    verdict = judge(look([queued("PENDING", "launch failed requeued held")]))
    assert verdict.pending_kind == "stuck"
    assert "scontrol release" in verdict.advice


def test_the_canceller_and_the_node_are_named():
    verdict = judge(look([], [accounted("CANCELLED", cancelled_by=0)]))
    assert "by user id 0 on gpu001" in verdict.message


def test_a_bare_id_without_a_folder_is_judged_by_the_id_alone():
    verdict = judge(look([], [accounted("COMPLETED", work_dir="/elsewhere")]), identity=verdicts.Identity("12"))
    assert verdict.outcome == "succeeded"


# --- properties ---

states = st.sampled_from([*STATES, "FOO_BAR", ""])
folders = st.sampled_from([FOLDER, "", "/elsewhere"])
ids = st.sampled_from(["12", "12_0", "12_1", "12+1", "13"])
queue_rows = st.builds(
    queued,
    states,
    st.sampled_from(["None", "Resources", "JobHeldUser", "New"]),
    ids,
    folders,
    st.sampled_from([500, 1000, 2000]),
)
steps = st.lists(st.builds(step, states, st.sampled_from(["batch", "extern", "0"]), st.integers(0, 2)), max_size=2)
accounting_rows = st.builds(
    accounted,
    states,
    ids,
    folders,
    st.sampled_from([500, 1000, 2000]),
    st.sampled_from([None, 2000, 4990]),
    st.integers(0, 1),
    st.sampled_from([0, 9]),
    st.integers(0, 1),
    steps,
)
looks = st.builds(
    look,
    st.lists(queue_rows, max_size=3),
    st.lists(accounting_rows, max_size=3),
    st.sampled_from([ANSWERED, NO_ANSWER]),
    st.sampled_from([ANSWERED, NO_ANSWER, DISABLED]),
)
seconds = st.sampled_from([0.0, 60.0, 121.0, 1801.0, 1e6])


@given(looks, seconds)
def test_success_means_that_a_completed_row_of_our_own_job_was_seen(seen, gone_for):
    verdict = judge(seen, gone_for)
    if verdict.outcome == "succeeded":
        ours = [row for row in seen.accounting_rows("12") if row.work_dir in (FOLDER, "") and row.submit_time >= 700]
        assert ours
        assert any(row.state == "COMPLETED" and not row.exit_code and not row.signal for row in ours)
        assert all(row.state != "FAILED" for row in verdict.rows)


@given(st.sampled_from([ANSWERED, NO_ANSWER]), st.sampled_from([ANSWERED, NO_ANSWER, DISABLED]), seconds)
def test_empty_answers_are_never_success_or_failure(queue_answer, accounting_answer, gone_for):
    outcome = judge(look((), (), queue_answer, accounting_answer), gone_for).outcome
    assert outcome in ("active", "unknown")
    if NO_ANSWER in (queue_answer, accounting_answer):
        assert outcome == "active"


@given(looks, seconds)
def test_a_job_that_the_queue_lists_alive_has_not_failed(seen, gone_for):
    alive = [row for row in seen.queue_rows("12") if row.work_dir != "/elsewhere" and (row.submit_time or 0) >= 700]
    if seen.queue_answer == ANSWERED and any(row.state in ("PENDING", "RUNNING") for row in alive):
        assert judge(seen, gone_for).outcome == "active"


@given(looks)
def test_every_wait_on_answering_tools_ends(seen):
    """A job that is not in the queue is decided once it has been gone for long enough, whatever the rows say."""
    seen.queue_answer = ANSWERED
    seen.accounting_answer = ANSWERED
    seen.queue = []
    assert judge(seen, 1e6).outcome != "active"


@given(looks, seconds, seconds)
def test_time_never_turns_a_success_into_a_failure(seen, first, second):
    early, late = judge(seen, min(first, second)).outcome, judge(seen, max(first, second)).outcome
    if early in ("succeeded", "failed"):
        assert late == early
