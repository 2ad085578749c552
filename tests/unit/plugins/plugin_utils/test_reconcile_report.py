# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jinja2 import Environment

from ansible_collections.dgxc.workloads.plugins.filter import reconcile_filters as filters
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_report import (
    report_lines,
    report_markdown,
    script_diff,
    status_markdown,
    status_of,
    trouble,
)
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_tasks import tasks_text

SPEC = {
    "name": "a", "workload": "alma", "variables": {"alma_nodes": 2}, "digest": "d", "site": "s", "max_attempts": 3,
    "baseline": {"seconds_per_step": 1.0, "tolerance": 0.05},
}  # fmt: skip
RUN = {
    "run_dir": "/r/a", "name": "a-n2", "job_id": "5", "attempt": 1, "state": "RUNNING", "verdict": "active",
    "steps": 20, "steps_done": None, "seconds_per_step": None, "gpu_hours": None, "record": "/r/a/record.json",
    "cause": None, "message": "",
}  # fmt: skip
JOB = {
    "name": "a-n2", "run_dir": "/r/a", "attempt": 1, "attempt_dir": "/r/a/attempt-1", "job_id": "5", "state": "PENDING",
    "verdict": "active", "action": "submitted", "message": "",
}  # fmt: skip


def wanted(**fields: Any) -> dict[str, Any]:
    return {
        "specs": [SPEC], "broken": [], "problems": [], "commit": "c" * 40, "version": "1", "hold_prune": "", **fields,
    }  # fmt: skip


def row(action: str = "left alone", **fields: Any) -> dict[str, Any]:
    return {
        "name": "a", "action": action, "reason": "why", "workload": "alma", "owner": "ana", "file": "runs/a.yml",
        "changes": [], "runs": [], "old_runs": [], "cancel": [], "not_cancelled": [], "previous": {}, "max_attempts": None, **fields,
    }  # fmt: skip


def report(
    one: dict[str, Any], planned: Any = None, after: Any = None, check: bool = False, **fields: Any
) -> dict[str, Any]:
    look = {"specs": [one], "errors": []}
    outcomes = {} if planned is None else {"a": {"error": "", "jobs": [], "scripts": [], **planned}}
    rest = {"specs": [after], "errors": []} if after else None
    return filters.reconcile_report(wanted(**fields), look, outcomes, rest, "login", check)


def action_of(*arguments: Any, **options: Any) -> tuple[str, str]:
    told = report(*arguments, **options)["rows"][0]
    return told["action"], told["reason"]


def test_what_a_role_did_becomes_an_action():
    assert action_of(row("plan"), {"jobs": [JOB]}) == ("submitted", "why")
    assert action_of(row("retry"), {"jobs": [JOB]}) == ("retried", "why")
    assert action_of(row("plan"), {"jobs": [dict(JOB, action="adopted")]})[0] == "adopted"
    assert action_of(row("plan"), {"jobs": [dict(JOB, action="unchanged")]})[0] == "left alone"
    assert action_of(row("plan"), {"jobs": [dict(JOB, action="unknown", message="m")]}) == ("unclear", "m")
    assert action_of(row("plan"), {"jobs": [JOB, dict(JOB, action="refused", message="no")]}) == ("refused", "no")
    assert action_of(row("plan"), {"error": "bad variable"}) == ("not planned", "bad variable")
    assert action_of(row("plan")) == ("not planned", "its role was not reached")
    assert action_of(row("plan"), {}, check=True)[0] == "submitted"


def test_a_plan_shows_the_difference_of_scripts():
    scripts = [{"after_header": "/r/a/attempt-1/sub/job.sh", "after": "one\ncd /r/a/attempt-1\nthree\n"}]
    planned = {"jobs": [dict(JOB, action="planned", job_id=None)], "scripts": scripts}
    told = report(row("plan", previous={"a-n2": {"sub/job.sh": "one\ncd @ATTEMPT_DIR@\ntwo\n"}}), planned, check=True)
    assert "-two\n+three" in told["rows"][0]["diffs"]["a-n2: sub/job.sh"]
    assert "attempt-1" not in told["rows"][0]["diffs"]["a-n2: sub/job.sh"]
    assert "+three" in "\n".join(report_lines(told))
    assert "~~~~diff" in report_markdown(told)
    assert "What a merge would do on login" in report_markdown(told)
    assert "(a plan; nothing was done)" in report_lines(told)[-1]


def test_a_comment_is_never_too_long_for_its_server():
    scripts = [{"after_header": f"/r/a/attempt-1/{number}", "after": "x" * 9000} for number in range(9)]
    told = report(row("plan"), {"jobs": [dict(JOB, action="planned")], "scripts": scripts}, check=True)
    text = report_markdown(told)
    assert len(text) < 60000
    assert "5 more differences are left out here" in text


def test_scripts_that_are_the_same_have_no_difference():
    assert script_diff("a\nb", "a\nb", "x") == ""
    assert script_diff("", "a", "x").startswith("--- /dev/null")


def test_cancelled_jobs_are_rows_of_their_own():
    gone = {"run_dir": "/r/o", "name": "a-n2", "job_id": "4", "attempt": 1, "reason": "the spec changed"}
    told = report(row("plan"), {"jobs": [JOB]}, row(cancel=[gone], runs=[RUN]))
    assert [(item["spec"], item["action"]) for item in told["rows"]] == [("a", "submitted"), ("a", "cancelled")]
    assert told["rows"][1]["reason"] == "the spec changed: a-n2 (job 4)"
    alone = report(row("cancelled", cancel=[gone], reason="the spec was removed"))
    assert alone["counts"] == {"cancelled": 1}
    assert alone["rows"][0]["reason"] == "the spec was removed: a-n2 (job 4)"


GONE = {"run_dir": "/r/o", "name": "a-n2", "job_id": "4", "attempt": 1, "reason": "the spec changed"}


@pytest.mark.parametrize(
    ("planned", "told"),
    [
        ({"jobs": [dict(JOB, action="planned")]}, ["submitted", "cancelled"]),
        ({"jobs": [dict(JOB, action="adopted")]}, ["adopted", "cancelled"]),
        ({"jobs": [dict(JOB, action="unchanged")]}, ["left alone", "cancelled"]),
        ({}, ["submitted", "cancelled"]),
        ({"error": "no launcher"}, ["not planned"]),
        ({"jobs": [dict(JOB, action="refused", message="no")]}, ["refused"]),
        ({"jobs": [dict(JOB, action="unknown", message="m")]}, ["unclear"]),
    ],
)
def test_a_plan_cancels_what_is_replaced_and_nothing_else(planned: dict[str, Any], told: list[str]):
    rows = report(row("plan", cancel=[GONE]), planned, check=True)["rows"]
    assert [item["action"] for item in rows] == told
    # Without check mode only what the second call did is told.
    assert len(report(row("plan", cancel=[GONE]), planned)["rows"]) == 1
    assert len(report(row("plan", cancel=[GONE]), planned, row(cancel=[]))["rows"]) == 1


def test_what_could_not_be_cancelled_is_trouble_and_not_told_as_cancelled():
    lost = dict(GONE, reason="could not be cancelled: the queue still lists it")
    told = report(row("unclear", reason=lost["reason"], not_cancelled=[lost]))
    assert [(item["action"], item["reason"]) for item in told["rows"]] == [("unclear", lost["reason"])]
    assert trouble(told) == [f"a: unclear: {lost['reason']}"]
    assert status_of(told)["specs"][0]["status"] == "unclear"
    for told in (
        report(row("plan"), {"jobs": [JOB]}, row(not_cancelled=[lost])),
        report(row("left alone", not_cancelled=[lost])),
    ):
        assert told["counts"]["unclear"] == 1
        assert "cancelled" not in told["counts"]
        assert trouble(told) == [f"a: unclear: {lost['reason']}: a-n2 (job 4)"]
        assert not filters.reconcile_quiet(told)


def test_what_either_call_cancelled_is_told_once():
    lost = dict(GONE, reason="could not be cancelled: the queue still lists it")
    other = dict(GONE, run_dir="/r/p", job_id="3")
    for first, second, told in (
        (row(cancel=[GONE]), row(cancel=[GONE, other]), ["cancelled", "cancelled"]),
        (row(not_cancelled=[lost]), row(cancel=[GONE]), ["cancelled"]),
        (row(not_cancelled=[lost]), row(not_cancelled=[lost]), ["unclear"]),
        (row(cancel=[GONE]), row(), ["cancelled"]),
    ):
        assert [item["action"] for item in report(first, after=second)["rows"]] == ["left alone", *told]


def test_trouble_is_what_a_person_has_to_see_to():
    problem = {
        "file": "runs/b.yml",
        "line": 3,
        "key": "k",
        "message": "is bad",
        "name": "b",
        "text": "runs/b.yml:3: k: is bad",
    }
    told = report(row(name="b"), broken=["b"], problems=[problem])
    assert told["rows"][0]["action"] == "broken"
    assert trouble(told) == ["runs/b.yml:3: k: is bad"]
    assert "`runs/b.yml:3` k: is bad" in report_markdown(told)
    assert "runs/b.yml:3: k: is bad" in "\n".join(report_lines(told))
    assert not filters.reconcile_quiet(told)
    failed = report(row("plan"), {"error": "no such account"})
    assert trouble(failed) == ["a: not planned: no such account"]
    quiet = report(row(runs=[dict(RUN, verdict="failed", message="crash")]))
    assert trouble(quiet) == []
    assert filters.reconcile_quiet(quiet)


def test_the_status_stays_the_same_while_nothing_happens():
    first = status_of(report(row("plan"), {"jobs": [JOB]}, row(runs=[RUN])))
    later = status_of(report(row(reason="job 5 is running", runs=[RUN])))
    assert first == later
    assert first["specs"][0]["status"] == "running"
    assert "Records on the cluster" not in status_markdown(first)
    ended = status_of(report(row(runs=[dict(RUN, verdict="succeeded")])))
    assert "- `a`: `/r/a/record.json`" in status_markdown(ended)


def test_the_status_tells_failure_cause_and_baseline():
    cause = {"cause": "Out of memory.", "remedy": "Take a smaller batch."}
    broken = status_of(report(row(runs=[dict(RUN, verdict="failed", message="crash", cause=cause)])))
    assert broken["specs"][0]["status"] == "failed"
    assert "Likely cause: Out of memory. Take a smaller batch." in broken["specs"][0]["message"]
    done = dict(RUN, verdict="succeeded", seconds_per_step=1.2, gpu_hours=3.0, steps_done=20)
    slow = status_of(report(row(runs=[done])))
    assert slow["specs"][0]["message"] == "+20.0% to the baseline: slower than it may be"
    page = status_markdown(slow, "https://git.example.org/runs/blob/main/")
    assert (
        "| [`a`](https://git.example.org/runs/blob/main/runs/a.yml) | succeeded | 5 | 20 of 20 | 1.2 | 3 | ana |"
        in page
    )


def test_words_of_others_do_not_break_a_table():
    told = report(row(reason="a | b\n<script> @all", owner="x|y"))
    line = next(line for line in report_markdown(told).splitlines() if line.startswith("| `a`"))
    assert "a \\| b &lt;script> &#64;all" in line
    assert "x\\|y" in line


def test_what_is_remembered_is_made_of_what_the_role_did():
    planned = {"a": {"jobs": [JOB], "error": "", "scripts": []}}
    (entry,) = filters.reconcile_record(planned, wanted())
    assert entry["runs"] == [{"name": "a-n2", "run_dir": "/r/a"}]
    assert entry["error"] == ""
    (none,) = filters.reconcile_record({"a": {"jobs": [], "error": "", "scripts": []}}, wanted())
    assert none["error"] == "its role led to no run"


def test_tasks_hold_variables_for_one_spec_and_run_no_template_of_it():
    spec = dict(SPEC, variables={"alma_note": "{{ lookup('pipe', 'id') }}", "alma_nodes": [1, 2]})
    text = tasks_text([spec], [row("retry", max_attempts=5), row("left alone", name="b")])

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!unsafe", lambda loader, node: ("unsafe", loader.construct_scalar(node)))
    (block,) = yaml.load(text, Loader)
    assert block["vars"] == {
        "preflight_compute_nodes": 0,
        "run_wait": False,
        "alma_run_name": ("unsafe", "a"),
        "alma_note": ("unsafe", "{{ lookup('pipe', 'id') }}"),
        "alma_nodes": [1, 2],
        "alma_resubmit": ("unsafe", "on_failure"),
        "alma_max_attempts": 5,
    }
    assert block["block"][1]["ansible.builtin.include_role"] == {"name": "dgxc.workloads.alma"}
    assert "ansible_failed_result" in block["rescue"][0]["vars"]["__reconcile_outcome"]["error"]
    # Each is remembered before the next one's turn, whether its role went through or not, and never in a plan.
    (remember,) = block["always"]
    assert remember["dgxc.workloads.reconcile_runs"]["look"] is False
    assert (remember["vars"], remember["when"]) == ({"__reconcile_name": "a"}, "not ansible_check_mode")


def test_the_cluster_is_looked_at_for_the_first_spec_of_a_call_only():
    specs = [dict(SPEC, name=name) for name in ("a", "b", "c")]
    rows = [row("left alone", name="a"), *(row("plan", name=name, max_attempts=None) for name in ("b", "c"))]
    first, second = yaml.safe_load(tasks_text(specs, rows).replace("!unsafe ", ""))
    assert "preflight_enabled" not in first["vars"]
    # Until one has passed it.
    assert second["vars"]["preflight_enabled"].endswith("and not (__reconcile_looked | default(false)) }}")
    passed = first["block"][-1]["ansible.builtin.set_fact"]["__reconcile_looked"]
    # Errors that were only put off, since runs of these names were submitted before, hold for the next spec.
    for told, looked in (({"deferred": ""}, True), ({"deferred": "storage.space: full."}, False), (None, True)):
        variables = {} if told is None else {"__preflight_told": told}
        assert Environment().from_string(passed).render(variables) == str(looked)
    assert "__reconcile_looked" not in first["rescue"][0]["ansible.builtin.set_fact"]
    assert first["vars"]["preflight_compute_nodes"] == second["vars"]["preflight_compute_nodes"] == 0
