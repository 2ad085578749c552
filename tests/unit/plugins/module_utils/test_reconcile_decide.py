# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._reconcile_decide import (
    Decision,
    decide,
    decide_broken,
    decide_removed,
    spec_changes,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._reconcile_state import Known

NOW = 100000.0
NEW, OLD = "a" * 64, "b" * 64
SITE, OTHER_SITE = "c" * 64, "d" * 64


def spec(**fields: Any) -> dict[str, Any]:
    return {
        "name": "x", "workload": "alma", "variables": {"alma_nodes": 2}, "state": "completed", "resubmit": "never",
        "max_attempts": 3, "on_change": "leave", "digest": NEW, "site": SITE, **fields,
    }  # fmt: skip


def plan(digest: str = NEW, site: str = SITE, *runs: str, nodes: int = 2) -> dict[str, Any]:
    content = {"name": "x", "workload": "alma", "variables": {"alma_nodes": nodes}}
    return {
        "digest": digest, "site": site, "time": 1.0, "spec": content,
        "runs": [{"name": folder, "run_dir": folder} for folder in runs or ("/new",)],
    }  # fmt: skip


def row(folder: str, verdict: str = "active", **fields: Any) -> dict[str, Any]:
    return {
        "run_dir": folder, "name": folder, "verdict": verdict, "ended": False, "state": "RUNNING", "reason": "",
        "job_id": "7", "attempt": 1, "attempts": 1, "requested": NOW - 10, "refusal_class": "", "failure_class": "",
        "message": "bad luck" if verdict == "failed" else "", "silent": False, **fields,
    }  # fmt: skip


def known(*plans: dict[str, Any], **fields: Any) -> Known:
    return Known("x", list(plans), **fields)


def made(wanted: dict[str, Any], memory: Known | None, *rows: dict[str, Any], **options: Any) -> Decision:
    shared = options.pop("shared", {})
    return decide(wanted, memory, {item["run_dir"]: item for item in rows}, shared, NOW, **options)


def test_a_new_spec_is_planned():
    decision = made(spec(), None)
    assert (decision.action, decision.reason) == ("plan", "new spec")


def test_a_changed_spec_is_planned_and_its_change_told():
    decision = made(spec(), known(plan(OLD, SITE, "/old", nodes=1)), row("/old"))
    assert decision.action == "plan"
    assert decision.changes == ["alma_nodes 1 -> 2"]
    assert decision.cancel == []


def test_on_change_cancels_the_living_old_run_only():
    memory = known(plan(OLD, SITE, "/old", "/done"))
    decision = made(spec(on_change="cancel"), memory, row("/old"), row("/done", "succeeded"))
    assert decision.cancel == [("/old", 1, "the spec changed")]


def test_an_old_run_that_another_spec_wants_is_not_cancelled():
    memory = known(plan(OLD, SITE, "/old"))
    assert made(spec(on_change="cancel"), memory, row("/old"), shared={"/old": ["y"]}).cancel == []
    assert made(spec(on_change="cancel"), memory, row("/old"), shared={"/old": ["x"]}).cancel != []


def test_what_slurm_refused_takes_no_place():
    memory = known(plan(OLD, SITE, "/old"), plan())
    refused = row("/new", "failed", refusal_class="permanent")
    assert made(spec(on_change="cancel"), memory, row("/old"), refused).cancel == []
    assert made(spec(on_change="cancel"), memory, row("/old"), row("/new")).cancel != []


@pytest.mark.parametrize(
    ("rows", "fields", "action", "reason"),
    [
        ([row("/new")], {}, "left alone", "job 7 is running"),
        ([row("/new", state="PENDING", reason="Priority")], {}, "left alone", "job 7 is pending (Priority)"),
        ([row("/new", ended=True)], {}, "left alone", "job 7 has just ended; it is judged at the next look"),
        ([row("/new", "succeeded")], {}, "left alone", "succeeded"),
        ([row("/new", "failed")], {}, "left alone", "failed: bad luck"),
        ([row("/new", "failed")], {"resubmit": "on_failure"}, "retry", "attempt 1 failed: bad luck"),
        (
            [row("/new", "failed", attempts=3)],
            {"resubmit": "on_failure"},
            "left alone",
            "failed, and all 3 attempts are used up: bad luck",
        ),
        ([row("/new", "failed", state="CANCELLED")], {"resubmit": "on_failure"}, "left alone", "failed: bad luck"),
        ([row("/new", "failed", refusal_class="permanent")], {"resubmit": "on_failure"}, "left alone", "failed: bad luck"),
        ([row("/new", "failed", refusal_class="policy")], {}, "left alone", "failed: bad luck"),
        (
            [row("/new", "failed", refusal_class="policy", requested=NOW - 301)],
            {},
            "retry",
            "Slurm's refusal may have passed: bad luck",
        ),
        ([row("/new", "failed", refusal_class="policy", requested=NOW - 301, attempts=3)], {}, "left alone", "failed: bad luck"),
        (
            [row("/new", "unknown", job_id=None)],
            {},
            "plan",
            "a submission began and was cut off; its job is looked for",
        ),
        ([row("/new", "unknown", message="no answer")], {}, "left alone", "Slurm does not tell: no answer"),
        (
            [row("/new", "unknown", attempts=0, job_id=None)],
            {},
            "left alone",
            "/new is gone, so what came of it cannot be told; change the spec to run it again",
        ),
    ],
)  # fmt: skip
def test_a_known_spec_by_how_its_run_stands(rows: list[Any], fields: dict[str, Any], action: str, reason: str):
    decision = made(spec(**fields), known(plan()), *rows)
    assert (decision.action, decision.reason) == (action, reason)


def test_of_several_runs_the_failed_ones_are_tried_again():
    memory = known(plan(NEW, SITE, "/one", "/two"))
    wanted = spec(resubmit="on_failure")
    assert made(wanted, memory, row("/one"), row("/two", "failed")).action == "retry"
    assert made(spec(), memory, row("/one"), row("/two", "failed")).reason == "failed: bad luck"


def test_what_the_reconciler_cancelled_is_wanted_again():
    memory = known(plan(NEW, SITE, "/runs/new"), cancelled={"cancelled-new-1.json"})
    decision = made(spec(), memory, row("/runs/new", "failed", state="CANCELLED", attempts=3))
    assert (decision.action, decision.max_attempts) == ("retry", 4)
    later = made(spec(), memory, row("/runs/new", "failed", state="CANCELLED", attempt=2))
    assert later.action == "left alone"


@pytest.mark.parametrize(
    ("follow", "verdict", "action"),
    [
        ("failed", "failed", "plan"),
        ("failed", "succeeded", "left alone"),
        ("always", "succeeded", "plan"),
        ("never", "failed", "left alone"),
    ],
)
def test_a_changed_site_plans_again_what_it_shall(follow: str, verdict: str, action: str):
    decision = made(spec(), known(plan(NEW, OTHER_SITE)), row("/new", verdict), follow_site=follow)
    assert decision.action == action


SITE_CHANGED = (
    "{}; the inventory or the collection changed since, and nothing is run again, because {}. A spec of its own runs what "
    "is still wanted"
)


@pytest.mark.parametrize("resubmit", ["never", "on_failure"])
@pytest.mark.parametrize("follow", ["failed", "never"])
@pytest.mark.parametrize(
    ("rows", "first", "because"),
    [
        ([row("/1", "failed"), row("/2", "succeeded")], "failed: bad luck", "/2 succeeded"),
        ([row("/1", "failed"), row("/2")], "failed: bad luck", "/2 has job 7"),
        ([row("/1", "failed"), row("/2", ended=True)], "failed: bad luck", "/2 has just ended"),
        ([row("/1", "failed"), row("/2", "unknown")], "failed: bad luck", "of /2 nothing can be told"),
        ([row("/1", "failed", state="CANCELLED")], "failed: bad luck", "/1 was cancelled by a person"),
        (
            [row("/1", "failed"), row("/2", "failed", state="CANCELLED")],
            "failed: bad luck",
            "/2 was cancelled by a person",
        ),
        (
            [row("/1", "failed", refusal_class="policy", requested=1.0), row("/2", "succeeded")],
            "failed: bad luck",
            "/2 succeeded",
        ),
        (
            [row("/runs/ours", "failed", state="CANCELLED"), row("/2", "succeeded")],
            "failed: bad luck",
            "/2 succeeded",
        ),
        (
            [row("/1", "unknown", job_id=None, requested=1.0), row("/2", "succeeded")],
            "a submission began and was cut off",
            "/2 succeeded",
        ),
    ],
)
def test_a_changed_site_runs_nothing_again_that_is_good_or_runs_or_was_cancelled_by_a_person(
    resubmit: str, follow: str, rows: list[Any], first: str, because: str
):
    memory = known(plan(NEW, OTHER_SITE, *(item["run_dir"] for item in rows)), cancelled={"cancelled-ours-1.json"})
    decision = made(spec(resubmit=resubmit), memory, *rows, follow_site=follow)
    assert (decision.action, decision.reason) == ("left alone", SITE_CHANGED.format(first, because))


@pytest.mark.parametrize(
    "rows",
    [
        [row("/1", "failed"), row("/2", "failed")],
        [row("/1", "failed", refusal_class="permanent"), row("/2", "failed")],
        [row("/1", "failed"), row("/2", "unknown", job_id=None, requested=NOW - 601)],
    ],
)
def test_a_changed_site_plans_again_what_failed_altogether(rows: list[Any]):
    memory = known(plan(NEW, OTHER_SITE, "/1", "/2"))
    assert made(spec(), memory, *rows).action == "plan"


@pytest.mark.parametrize("fields", [{"silent": True, "requested": 1.0}, {"requested": NOW - 599}])
def test_a_changed_site_submits_nothing_beside_a_job_that_may_be_there(fields: dict[str, Any]):
    memory = known(plan(NEW, OTHER_SITE))
    for follow in ("failed", "always", "never"):
        decision = made(spec(), memory, row("/new", "unknown", job_id=None, **fields), follow_site=follow)
        assert decision.action == "left alone"
        assert decision.reason == "a submission began and was cut off; whether it led to a job cannot be told yet"


@pytest.mark.parametrize(
    ("others", "fields", "action"),
    [
        ([], {}, "retry"),
        ([row("/2", "succeeded"), row("/3")], {}, "retry"),
        ([row("/2", "failed")], {}, "left alone"),
        ([row("/2", "failed")], {"resubmit": "on_failure"}, "retry"),
        ([row("/2", "failed", state="CANCELLED")], {"resubmit": "on_failure"}, "left alone"),
        ([row("/2", "failed", refusal_class="permanent")], {"resubmit": "on_failure"}, "left alone"),
        # More attempts for the one would be more for the other, whose own are used up.
        ([row("/2", "failed", attempts=1)], {"resubmit": "on_failure", "max_attempts": 1}, "left alone"),
        ([row("/2", "failed", attempts=3)], {"resubmit": "on_failure", "max_attempts": 3}, "retry"),
    ],
)
def test_a_revert_tries_nothing_again_that_failed_by_itself_and_may_not_be(
    others: list[Any], fields: dict[str, Any], action: str
):
    rows = [row("/runs/1", "failed", state="CANCELLED"), *others]
    memory = known(plan(NEW, SITE, *(item["run_dir"] for item in rows)), cancelled={"cancelled-1-1.json"})
    decision = made(spec(**fields), memory, *rows)
    assert decision.action == action, decision.reason
    if action == "left alone":
        assert "bad luck; so /runs/1, which the reconciler cancelled, is not run again, because /2" in decision.reason


def test_what_ended_by_itself_before_it_was_cancelled_is_not_the_reconcilers():
    memory = known(plan(NEW, SITE, "/runs/new"), cancelled={"cancelled-new-1.json"})
    assert made(spec(), memory, row("/runs/new", "failed", state="FAILED")).action == "left alone"


def test_nothing_is_tried_again_before_all_that_ended_was_judged():
    memory = known(plan(NEW, SITE, "/1", "/2"))
    decision = made(spec(resubmit="on_failure"), memory, row("/1", "failed"), row("/2", ended=True, job_id="8"))
    assert (decision.action, decision.max_attempts) == ("left alone", None)
    assert decision.reason == "job 8 has just ended; it is judged at the next look"


def test_a_submission_that_is_unclear_takes_no_place():
    memory = known(plan(OLD, SITE, "/old"), plan())
    unclear = row("/new", "unknown", job_id=None)
    assert made(spec(on_change="cancel"), memory, row("/old"), unclear).cancel == []
    assert made(spec(on_change="cancel"), memory, row("/old"), row("/new", "unknown")).cancel != []


def test_a_spec_that_could_not_be_planned_waits_longer_and_longer():
    for count, pause in ((1, 300), (2, 600), (3, 1200), (4, 2400), (5, 3600), (9, 3600)):
        for age, action in ((pause - 1, "left alone"), (pause, "plan")):
            failure = {"message": "no launcher", "time": NOW - age, "count": count}
            memory = known(failures={(NEW[:12], SITE[:12]): failure})
            assert made(spec(), memory).action == action, (count, age)
    assert made(spec(site=OTHER_SITE), memory).action == "plan"


def test_what_cannot_be_planned_cancels_nothing():
    failure = {"message": "no launcher", "time": NOW - 1, "count": 1}
    memory = known(plan(OLD, SITE, "/old"), failures={(NEW[:12], SITE[:12]): failure})
    decision = made(spec(on_change="cancel"), memory, row("/old"))
    assert decision.cancel == []
    assert decision.reason == "could not be planned: no launcher"


def test_absent_cancels_everything_of_the_name_that_lives():
    memory = known(plan(OLD, SITE, "/old"), plan(NEW, SITE, "/new", "/unclear"))
    rows = [row("/old"), row("/new", "succeeded"), row("/unclear", "unknown", job_id=None)]
    decision = made(spec(state="absent"), memory, *rows)
    assert decision.action == "cancelled"
    assert {item[0] for item in decision.cancel} == {"/old", "/unclear"}
    assert made(spec(state="absent"), None).action == "left alone"


def test_absent_says_what_slurm_does_not_tell():
    memory = known(plan())
    lost = made(spec(state="absent"), memory, row("/new", "unknown"))
    assert (lost.action, lost.reason) == (
        "left alone",
        "Slurm does not tell what became of job 7, which shall not run",
    )
    ended = made(spec(state="absent"), memory, row("/new", "failed"))
    assert ended.reason == "shall not run, and nothing of it does"


def test_a_submission_that_was_cut_off_is_looked_for_until_slurm_has_answered():
    unclear = row("/runs/new", "unknown", job_id=None)
    before, after = known(plan(NEW, SITE, "/runs/new")), known(plan(NEW, SITE, "/runs/new"))
    after.cancelled.add("cancelled-new-1.json")
    for item, memory, action in (
        (unclear, before, "cancelled"),
        (unclear, after, None),
        (dict(unclear, silent=True), after, "cancelled"),
    ):
        absent = made(spec(state="absent"), memory, item)
        assert absent.action == (action or "left alone")
        removed = decide_removed(memory, {"/runs/new": item}, {}, True, "")
        assert (removed.action if removed is not None else None) == action


def test_a_removed_spec_is_told_of_while_slurm_is_silent():
    unknown = row("/new", "unknown", silent=True)
    for prune in (True, False):
        decision = decide_removed(known(plan()), {"/new": unknown}, {}, prune, "")
        assert decision is not None
        assert decision.reason == "removed; Slurm does not tell what became of job 7"
    unclear = dict(unknown, job_id=None)
    decision = decide_removed(known(plan()), {"/new": unclear}, {}, False, "")
    assert decision is not None
    assert decision.reason == (
        "removed; a submission of it was cut off and may have led to a job that runs on, because prune is off"
    )
    assert decide_removed(known(plan()), {"/new": dict(unclear, silent=False)}, {}, False, "") is None
    assert decide_removed(known(plan()), {"/new": dict(unknown, silent=False)}, {}, True, "") is None


@pytest.mark.parametrize(
    ("own", "prune", "hold", "action"),
    [
        (None, False, "", "left alone"),
        (None, True, "", "cancelled"),
        (True, False, "", "cancelled"),
        (False, True, "", "left alone"),
        (True, True, "a file cannot be read", "left alone"),
    ],
)
def test_a_removed_spec_is_cancelled_only_where_prune_says_so(own: bool | None, prune: bool, hold: str, action: str):
    memory = known(plan(), policy={"prune": own})
    decision = decide_removed(memory, {"/new": row("/new")}, {}, prune, hold)
    assert decision is not None
    assert decision.action == action
    assert hold in decision.reason


def test_a_removed_spec_of_which_nothing_lives_is_not_told_of():
    assert decide_removed(known(plan()), {"/new": row("/new", "succeeded")}, {}, True, "") is None


def test_a_removed_spec_whose_run_another_one_has_is_left_alone():
    decision = decide_removed(known(plan()), {"/new": row("/new")}, {"/new": ["y"]}, True, "")
    assert decision is not None
    assert (decision.action, decision.cancel) == ("left alone", [])


def test_a_broken_spec_is_left_alone():
    decision = decide_broken("x", known(plan()))
    assert (decision.action, decision.cancel, decision.old_runs) == ("left alone", [], ["/new"])


def test_changes_are_told_by_variable():
    old = {"workload": "alma", "variables": {"alma_a": 1, "alma_b": "x" * 100}}
    new = {"workload": "alma", "variables": {"alma_a": 1, "alma_c": [1]}}
    assert spec_changes(old, new) == ["alma_b '" + "x" * 56 + "... -> (default)", "alma_c (default) -> [1]"]
    assert spec_changes(None, new) == []
