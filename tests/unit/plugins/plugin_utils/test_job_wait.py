# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wait: its clocks, its words and its ends, without any time passing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _job_wait as job_wait


def info(state="RUNNING", verdict="active", **more):
    values = {
        "name": "run", "job_id": "12", "state": state, "reason": "", "nodes": ["gpu001"], "verdict": verdict,
        "message": "", "failure_class": "", "advice": "", "in_queue": verdict == "active", "pending_kind": "",
        "pending_grace": 0.0, "queue_answer": "answered", "accounting_answer": "answered", "progress": None,
        "restarts": 0, "elapsed": None, "logs": {}, "log_tail": [],
    }  # fmt: skip
    values.update(more)
    return values


PENDING = {"state": "PENDING", "reason": "Resources", "pending_kind": "waiting", "nodes": []}
HELD = {"state": "PENDING", "reason": "JobHeldUser", "pending_kind": "stuck", "advice": "Release it.", "nodes": []}
DONE = {"state": "COMPLETED", "verdict": "succeeded", "in_queue": False, "elapsed": 75}


class Stage:
    """Plays a list of answers, each lasting for some looks; the last one stays."""

    def __init__(self, *answers, keys=("/s/run",), query_seconds=0.1, **patience):
        self.answers = list(answers)
        self.now = 0.0
        self.said = []
        self.asked = []
        self.query_seconds = query_seconds
        self.wait = job_wait.Wait(
            list(keys),
            self.ask,
            self.said.append,
            lambda: self.now,
            self.sleep,
            job_wait.Patience(**patience),
            "sandbox",
        )

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds

    def ask(self, keys, gone_for):
        self.asked.append((list(keys), dict(gone_for), self.now))
        assert len(self.asked) < 20_000, "the wait does not end"
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        jobs = answer if isinstance(answer, list) else [answer] * len(keys)
        return {"jobs": jobs, "errors": jobs[0].get("errors") or [], "query_seconds": self.query_seconds}

    def run(self):
        return self.wait.run()


def lost(text="no route to host"):
    return job_wait.LookFailed(text, unreachable=True)


def test_a_job_is_followed_to_its_end_and_every_change_is_said_once():
    stage = Stage(info(**PENDING), info(**PENDING), info(), info(), info(**DONE))
    ending = stage.run()
    assert ending.jobs[0]["verdict"] == "succeeded"
    assert ending.looks == 5
    assert stage.said == [
        "[sandbox] run: job 12 PENDING (Resources)",
        "[sandbox] run: job 12 RUNNING on gpu001",
        "[sandbox] run: job 12 COMPLETED on gpu001, after 1 min 15 s",
    ]


def test_the_first_look_is_at_once_and_the_pause_grows_to_its_limit():
    stage = Stage(*[info()] * 200, info(**DONE), longest_pause=30.0, heartbeat=0.0)
    stage.run()
    times = [at for keys, gone, at in stage.asked]
    pauses = [round(later - earlier, 6) for earlier, later in itertools.pairwise(times)]
    assert times[0] == 0.0
    assert pauses[0] == 1.0
    assert max(pauses) == 30.0
    assert pauses == sorted(pauses)


def test_a_slow_query_is_not_repeated_before_five_times_its_own_time():
    stage = Stage(*[info()] * 5, info(**DONE), query_seconds=20.0)
    stage.run()
    times = [at for keys, gone, at in stage.asked]
    assert all(later - earlier >= 100.0 for earlier, later in itertools.pairwise(times))


def test_the_end_of_an_outage_is_seen_soon_though_its_looks_took_long():
    silent = info(state="", errors=["Unable to contact slurm controller"], queue_answer="no_answer")
    stage = Stage(silent, silent, info(**DONE), query_seconds=20.0, longest_pause=30.0)
    stage.run()
    times = [now for _keys, _gone, now in stage.asked]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [30.0, 30.0]


def test_progress_is_told_with_the_heartbeat():
    progress = {"step": 240, "total": 2000, "seconds_per_step": 13.4, "loss": 5.64, "remaining_seconds": 23584.0}
    stage = Stage(*[info(progress=progress, elapsed=100)] * 60, info(**DONE), heartbeat=60.0)
    stage.run()
    line = "[sandbox] run: job 12 RUNNING on gpu001, for 1 min 40 s, step 240/2000, 13.4 s/step, loss 5.64, about 6 h 33 min left"
    assert stage.said.count(line) >= 3


def test_heartbeat_zero_says_changes_only():
    stage = Stage(*[info()] * 60, info(**DONE), heartbeat=0.0)
    stage.run()
    assert len(stage.said) == 2


def test_an_outage_is_said_once_when_it_begins_and_once_when_it_ends():
    stage = Stage(info(), *[lost()] * 30, info(), info(**DONE), heartbeat=0.0)
    ending = stage.run()
    assert ending.jobs[0]["verdict"] == "succeeded"
    assert [line for line in stage.said if "contact" in line] == [
        "[sandbox] no contact: no route to host. The jobs go on; looking again.",
        f"[sandbox] contact is back after {job_wait.duration(stage.asked[31][2] - stage.asked[1][2])}.",
    ]


def test_a_silent_slurm_is_told_and_survived():
    silent = info(errors=["Unable to contact slurm controller"], in_queue=None, queue_answer="no_answer")
    stage = Stage(info(), *[silent] * 10, info(**DONE))
    assert stage.run().jobs[0]["verdict"] == "succeeded"
    assert sum("no full answer from Slurm: Unable to contact" in line for line in stage.said) == 1
    assert sum("Slurm answers fully again" in line for line in stage.said) == 1


def test_a_login_node_that_stays_away_ends_the_wait_and_leaves_the_job():
    stage = Stage(info(), lost(), unreachable=600.0)
    ending = stage.run()
    assert "no answer from sandbox for 10 min" in ending.gave_up
    assert ending.jobs[0]["verdict"] == "active"


def test_a_slurm_that_stays_silent_ends_the_wait():
    silent = info(errors=["x"], in_queue=None, queue_answer="no_answer", accounting_answer="no_answer")
    ending = Stage(info(), silent, unreachable=600.0).run()
    assert "Slurm on sandbox" in ending.gave_up


def test_a_mistake_in_the_set_up_is_told_at_once():
    stage = Stage(job_wait.LookFailed("sbatch was not found", unreachable=False))
    with pytest.raises(job_wait.LookFailed, match="sbatch was not found"):
        stage.run()
    assert len(stage.asked) == 1


def test_a_failing_look_in_the_middle_is_an_outage():
    stage = Stage(info(), job_wait.LookFailed("stale file handle", unreachable=False), info(**DONE))
    assert stage.run().jobs[0]["verdict"] == "succeeded"


def test_a_held_job_fails_soon_and_is_not_cancelled():
    ending = Stage(info(**HELD)).run()
    assert ending.jobs[0]["failure_class"] == "stuck_pending"
    assert "JobHeldUser" in ending.jobs[0]["message"]
    assert "Release it." in ending.jobs[0]["message"]
    assert ending.stuck == ["/s/run"]


def test_a_stuck_reason_has_its_grace():
    limit = {**HELD, "reason": "PartitionTimeLimit", "pending_grace": 60.0}
    stage = Stage(*[info(**limit)] * 5, info(**DONE))
    assert stage.run().jobs[0]["verdict"] == "succeeded"
    stage = Stage(info(**limit))
    assert stage.run().jobs[0]["failure_class"] == "stuck_pending"
    assert 60.0 <= stage.now < 75.0


def test_a_down_node_is_waited_for_with_a_deadline():
    down = {
        **PENDING,
        "reason": "ReqNodeNotAvail, UnavailableNodes:gpu001",
        "pending_kind": "waiting_with_deadline",
    }
    stage = Stage(info(**down), unavailable=3600.0)
    assert stage.run().jobs[0]["failure_class"] == "stuck_pending"
    assert 3600.0 <= stage.now < 3700.0


def test_pending_and_running_have_their_own_limits():
    ending = Stage(info(**PENDING), pending=100.0, running=10.0).run()
    assert (ending.jobs[0]["failure_class"], ending.overdue) == ("pending_timeout", ["/s/run"])
    ending = Stage(info(**PENDING), info(), pending=100.0, running=300.0).run()
    assert ending.jobs[0]["failure_class"] == "run_timeout"


def test_an_accounting_that_stays_away_after_the_end_is_unknown_not_failed():
    gone = info("", in_queue=False, accounting_answer="no_answer")
    stage = Stage(info(), gone, accounting=1800.0)
    assert (stage.run().jobs[0]["verdict"], stage.wait._watched[0].info["failure_class"]) == (
        "unknown",
        "accounting_outage",
    )
    assert 1800.0 <= stage.now < 1900.0


def test_a_state_that_nobody_knows_ends_in_bounded_time_and_not_as_success():
    strange = info("FOO_BAR", failure_class="unrecognised_state", message="Slurm says 'FOO_BAR'")
    ending = Stage(strange, accounting=1800.0).run()
    assert ending.jobs[0]["verdict"] == "unknown"


def test_the_time_since_the_queue_lost_the_job_is_handed_on_and_starts_again_with_a_requeue():
    gone = info("PREEMPTED", in_queue=False)
    stage = Stage(info(), gone, gone, gone, info(**PENDING), gone, gone, info(**DONE), longest_pause=10.0)
    stage.run()
    handed = [seconds.get("12") for keys, seconds, at in stage.asked]
    assert handed[:3] == [None, None, 1.0]
    assert handed[4] > handed[3] > 1.0
    assert handed[5] is None
    assert handed[7] < handed[4]


def test_only_open_jobs_are_asked_about():
    stage = Stage(
        [info(name="a", job_id="1", **DONE), info(name="b", job_id="2")],
        [info(name="b", job_id="2", **DONE)],
        keys=("/s/a", "/s/b"),
    )
    ending = stage.run()
    assert [keys for keys, gone, at in stage.asked] == [["/s/a", "/s/b"], ["/s/b"]]
    assert [job["name"] for job in ending.jobs] == ["a", "b"]


def test_many_jobs_are_counted_and_only_failures_are_named():
    keys = tuple(f"/s/{number}" for number in range(100))
    jobs = [info(name=f"r{number}", job_id=str(number + 1)) for number in range(100)]
    ended = [dict(job, **DONE) for job in jobs]
    ended[7].update(verdict="failed", state="FAILED", message="job 8 ended as FAILED, exit code 1.")
    stage = Stage(*[jobs] * 20, ended, keys=keys)
    stage.run()
    assert any("100 jobs: 100 RUNNING" in line for line in stage.said)
    assert [line for line in stage.said if "FAILED" in line] == ["[sandbox] r7: job 8 ended as FAILED, exit code 1"]
    assert len(stage.said) < 10


DURATIONS = [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (172800, "48 h 0 min")]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_durations_are_for_people(seconds, text):
    assert job_wait.duration(seconds) == text


def test_a_failure_says_where_to_look():
    text = job_wait.failure_text(
        info("FAILED", "failed", message="job 12 ended as FAILED.", logs={"stdout": "/s/a.out"}, log_tail=["boom"])
    )
    assert text == "run (job 12): job 12 ended as FAILED.\nlogs: /s/a.out\nlast lines:\n  boom"


answers = st.one_of(
    st.just(None),
    st.builds(
        info,
        st.sampled_from(["PENDING", "RUNNING", "COMPLETING", "FOO_BAR", ""]),
        in_queue=st.sampled_from([True, False, None]),
        pending_kind=st.sampled_from(["", "waiting", "waiting_with_deadline", "stuck"]),
        accounting_answer=st.sampled_from(["answered", "no_answer", "disabled"]),
        queue_answer=st.sampled_from(["answered", "no_answer"]),
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(answers, max_size=30))
def test_no_answer_short_of_success_makes_a_success(some):
    """Whatever was seen before, only a verdict of success ends as one, and an end is an end."""
    played = [answer if answer is not None else lost() for answer in some]
    stage = Stage(*played, info("FAILED", "failed", in_queue=False), unreachable=1e6, accounting=1e6, unavailable=0.0)
    ending = stage.run()
    assert ending.jobs[0]["verdict"] == "failed"
