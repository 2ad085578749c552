# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run is, its key, and the filters that show it."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.filter.job_table import job_table
from ansible_collections.dgxc.workloads.plugins.filter.run_failure import run_failure
from ansible_collections.dgxc.workloads.plugins.filter.run_jobs import run_jobs
from ansible_collections.dgxc.workloads.plugins.filter.run_table import run_table
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import RunError, run_key

RUN = {
    "name": "hello",
    "workload": "mine",
    "script": "job.sh",
    "files": {"job.sh": "#!/bin/sh\nsrun hostname\n", "conf/a.yaml": "x: 1\n"},
    "options": {"nodes": 2, "qos": "high"},
    "identity": {"commit": "0" * 40},
}


def changed(**more):
    return {**RUN, **more}


def test_the_folder_is_named_after_the_run_and_its_key():
    (job,) = run_jobs([RUN], "/s/runs")
    assert job["run_dir"] == "/s/runs/mine/hello-" + run_key(RUN)[:12]
    assert len(job["key"]) == 64
    assert job["spec"]["workload"] == "mine"


def test_the_order_of_variables_does_not_change_the_key():
    turned = json.loads(json.dumps(RUN, sort_keys=True))
    assert list(turned) != list(RUN)
    assert run_key(turned) == run_key(RUN)


@pytest.mark.parametrize(
    "change",
    [
        {"files": {**RUN["files"], "job.sh": "#!/bin/sh\nsrun hostname -f\n"}},
        {"options": {"nodes": 4, "qos": "high"}},
        {"identity": {"commit": "1" * 40}},
    ],
)
def test_what_changes_the_result_changes_the_key(change):
    assert run_key(changed(**change)) != run_key(RUN)


@pytest.mark.parametrize(
    "change",
    [{"expect": {"nodes": 2}}, {"resubmit": "on_failure"}, {"environment": {"A": "b"}}, {"name": "other"}],
)
def test_what_does_not_change_the_result_leaves_the_key(change):
    assert run_key(changed(**change)) == run_key(RUN)


def test_an_unknown_field_names_the_nearest():
    with pytest.raises(AnsibleFilterError, match="unknown field 'optoins'; did you mean 'options'"):
        run_jobs([changed(optoins={})], "/s")


@pytest.mark.parametrize("field", ["workload", "script", "files"])
def test_a_missing_field_is_told(field):
    with pytest.raises(RunError, match=f"run 'hello' has no {field}"):
        run_key({key: value for key, value in RUN.items() if key != field})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload": "../mine"}, "run 'hello' has the workload '../mine', which names a folder"),
        ({"logs": {"stdot": "x"}}, "run 'hello': logs has the unknown entry 'stdot'"),
        ({"expect": {"node": 2}}, "expect has the unknown entry 'node'; did you mean 'nodes'"),
    ],
)
def test_a_wrong_field_is_told(change, words):
    with pytest.raises(RunError, match=words):
        run_key(changed(**change))


def test_the_same_run_twice_is_told():
    with pytest.raises(AnsibleFilterError, match="two runs are named 'hello'"):
        run_jobs([RUN, RUN], "/s")


RESULT = {
    "name": "hello", "job_id": "12", "state": "COMPLETED", "node_count": 2, "gpus_per_node": 8, "steps_done": 2000,
    "steps": 2000, "verdict": "succeeded", "record": "/s/record.json", "message": "", "failure_class": "", "logs": {},
    "metrics": {"seconds_per_step": {"mean": 13.4, "standard_deviation": 0.12, "count": 1800}},
}  # fmt: skip


def test_the_table_shows_what_was_asked_for():
    head, line = run_table([RESULT])
    assert head.split("  ")[0] == "run"
    told = "hello 12 COMPLETED 2 x 8 2000 of 2000 13.4 +- 0.12 (n 1800) succeeded /s/record.json"
    assert " ".join(line.split()) == told


def test_a_run_without_numbers_has_dashes():
    line = run_table([{**RESULT, "metrics": {}, "steps_done": None, "job_id": None, "state": ""}])[1]
    assert line.split()[:3] == ["hello", "-", "-"]


def test_a_running_job_shows_its_step():
    line = run_table([{**RESULT, "verdict": "active", "steps_done": None, "progress": {"step": 7}}])[1]
    assert "7 of 2000" in line


def test_a_failure_names_its_kind_its_logs_and_its_record():
    text = run_failure(
        {
            **RESULT,
            "verdict": "failed",
            "failure_class": "timeout",
            "message": "too late.",
            "logs": {"stdout": "/s/o"},
            "workload": "nemo_gpt3",
        }
    )
    assert text.startswith("hello: failed (timeout): too late.\nlogs: /s/o\nrecord: /s/record.json\n")
    assert "-e nemo_gpt3_resubmit=on_failure" in text


def test_jobs_are_shown_with_their_progress():
    job = {
        "name": "hello", "job_id": "12", "state": "RUNNING", "verdict": "active", "nodes": ["a", "b"], "elapsed": 61,
        "progress": {"step": 5, "total": 10, "seconds_per_step": 1.5, "loss": None, "remaining_seconds": 8.0},
    }  # fmt: skip
    assert " ".join(job_table([job])[1].split()) == (
        "hello 12 RUNNING active 2 1 min 1 s step 5/10, 1.5 s/step, about 8 s left"
    )
