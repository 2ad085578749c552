# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module that compares specs with runs, over commands that a test plays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._submission import Submitter
from ansible_collections.dgxc.workloads.plugins.modules import reconcile_runs

from .test_slurm_modules import Site, job, run, submit

DIGEST, SITE = "a" * 64, "b" * 64


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def spec(**fields):
    return {
        "name": "hello", "workload": "alma", "variables": {}, "state": "completed", "resubmit": "never",
        "max_attempts": 3, "on_change": "leave", "digest": DIGEST, "site": SITE, "file": "runs/a.yml", **fields,
    }  # fmt: skip


def reconcile(site, capsys, check_mode=False, **arguments):
    values = {"specs": [spec()], "collect_after": 1.0, "cancel": True, **arguments}
    return run(
        reconcile_runs, capsys, check_mode,
        state_dir=str(site.folder / "shared" / "state"), slurm_bin_dir=str(site.bin), **values,
    )  # fmt: skip


def entry(*folders, error="", **fields):
    return {
        "name": "hello", "digest": DIGEST, "site": SITE, "spec": {"variables": {}}, "commit": "c", "version": "1",
        "runs": [{"name": "hello", "run_dir": str(folder)} for folder in folders], "error": error, **fields,
    }  # fmt: skip


def submitted(site, capsys, number="12"):
    """A run that has been submitted and is remembered; its folder."""
    site.says("sbatch", number + "\n")
    told = submit(site, capsys, **job(site))["jobs"][0]
    site.queue(number, "RUNNING", told["attempt_dir"])
    reconcile(site, capsys, record=[entry(told["run_dir"])])
    return told


def test_a_new_spec_is_to_be_planned_and_asks_slurm_nothing(site, capsys):
    result = reconcile(site, capsys)
    assert (result["changed"], result["queries"]) == (False, 0)
    assert (result["specs"][0]["action"], result["specs"][0]["reason"]) == ("plan", "new spec")
    assert site.calls("squeue") == []


def test_a_plan_is_remembered_and_its_job_seen(site, capsys):
    told = submitted(site, capsys)
    result = reconcile(site, capsys)
    (row,) = result["specs"]
    assert (result["changed"], row["action"], row["reason"]) == (False, "left alone", "job 12 is running")
    assert row["runs"][0]["run_dir"] == told["run_dir"]
    assert result["queries"] == 2
    assert len(site.calls("sbatch")) == 1


def test_an_ended_job_is_collected_once_and_only_after_a_while(site, capsys):
    told = submitted(site, capsys)
    site.says("squeue")
    ended = str(int(time.time()))
    site.accounting("12", "COMPLETED", told["attempt_dir"], End=ended)
    early = reconcile(site, capsys, collect_after=600.0)["specs"][0]
    assert (early["action"], early["reason"]) == ("left alone", "job 12 has just ended; it is judged at the next look")
    rehearsed = reconcile(site, capsys, True, collect_after=0.0)["specs"][0]
    assert rehearsed["action"] == "collected"
    assert not list(site.root.glob("mine/hello/attempt-1/result.json"))
    result = reconcile(site, capsys, collect_after=0.0)
    assert (result["changed"], result["specs"][0]["action"]) == (True, "collected")
    assert list(site.root.glob("mine/hello/attempt-1/result.json"))
    again = reconcile(site, capsys, collect_after=0.0)
    assert (again["changed"], again["specs"][0]["action"], again["queries"]) == (False, "left alone", 0)


def test_what_is_remembered_without_a_look_asks_nothing_and_says_who_may_prune(site, capsys):
    site.says("sbatch", "12\n")
    told = submit(site, capsys, **job(site))["jobs"][0]
    asked = len(site.calls("squeue"))
    arguments = {"specs": [spec(prune=True)], "record": [entry(told["run_dir"])], "look": False}
    result = reconcile(site, capsys, **arguments)
    assert (result["changed"], result["specs"], result["queries"]) == (True, [], 0)
    assert len(site.calls("squeue")) == asked
    assert not reconcile(site, capsys, **arguments)["changed"]
    # Who reverts the commit now, while the reconciler was killed, finds the job.
    site.queue("12", "RUNNING", told["attempt_dir"])
    row = reconcile(site, capsys, True, specs=[])["specs"][0]
    assert (row["action"], row["cancel"][0]["job_id"]) == ("cancelled", "12")


def test_a_job_that_does_not_go_is_not_told_as_cancelled(site, capsys, monkeypatch):
    submitted(site, capsys)
    cancel = Submitter.cancel
    monkeypatch.setattr(Submitter, "cancel", lambda self, requests, check: cancel(self, requests, check, patience=0.0))
    (row,) = reconcile(site, capsys, specs=[spec(state="absent")])["specs"]
    assert (row["action"], row["cancel"]) == ("unclear", [])
    assert row["reason"].startswith("could not be cancelled: scancel was called for job 12, but after 0 s the queue")
    assert [item["job_id"] for item in row["not_cancelled"]] == ["12"]
    changed = spec(digest="c" * 64, on_change="cancel")
    told = submit(site, capsys, **job(site, "other"))["jobs"][0]
    record = [entry(told["run_dir"], digest="c" * 64)]
    (row,) = reconcile(site, capsys, specs=[changed], record=record)["specs"]
    assert (row["action"], row["cancel"], len(row["not_cancelled"])) == ("left alone", [], 1)


def test_what_a_new_spec_replaces_is_told_as_cancelled_once_it_was(site, capsys):
    submitted(site, capsys)
    changed = spec(digest="c" * 64, on_change="cancel")
    planned = reconcile(site, capsys, True, specs=[changed], cancel=False)["specs"][0]
    assert (planned["action"], [item["job_id"] for item in planned["cancel"]]) == ("plan", ["12"])
    row = reconcile(site, capsys, specs=[changed])["specs"][0]
    assert (row["action"], row["cancel"]) == ("plan", [])
    assert site.calls("scancel") == []


def test_a_submission_that_led_to_no_job_is_looked_for_once_and_not_told_as_cancelled(site, capsys):
    told = submitted(site, capsys)
    site.says("squeue")
    (Path(told["attempt_dir"]) / "job.json").unlink()
    intended = reconcile(site, capsys, True, specs=[], prune=True, cancel=False)["specs"][0]
    assert (intended["action"], intended["cancel"][0]["job_id"]) == ("cancelled", None)
    row = reconcile(site, capsys, specs=[], prune=True)["specs"][0]
    assert (row["action"], row["reason"], row["cancel"]) == ("left alone", "removed; nothing of it runs", [])
    assert reconcile(site, capsys, specs=[], prune=True)["specs"] == []
    assert site.calls("scancel") == []


def test_a_silent_slurm_is_told_where_a_job_shall_not_run(site, capsys):
    submitted(site, capsys)
    site.says("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller\n", 1)
    site.says("sacct", "", "sacct: error: connection refused\n", 1)
    for arguments in ({"specs": [spec(state="absent")]}, {"specs": [], "prune": True}):
        row = reconcile(site, capsys, **arguments)["specs"][0]
        assert (row["action"], row["cancel"]) == ("unclear", [])
        assert row["reason"].startswith("could not be cancelled: Slurm does not answer: slurm_load_jobs error")
    row = reconcile(site, capsys, specs=[])["specs"][0]
    assert row["reason"] == "removed; it runs on, because prune is off"


def test_fifty_specs_are_one_look(site, capsys):
    told = submitted(site, capsys)
    specs = [spec(name=f"s{number}") for number in range(50)]
    record = [entry(told["run_dir"], name=item["name"]) for item in specs]
    result = reconcile(site, capsys, specs=specs, record=record)
    assert {row["action"] for row in result["specs"]} == {"left alone"}
    assert result["queries"] == 2


def test_absent_cancels_and_a_return_tries_again(site, capsys):
    told = submitted(site, capsys)
    planned = reconcile(site, capsys, True, specs=[spec(state="absent")])["specs"][0]
    assert (planned["action"], planned["cancel"][0]["job_id"]) == ("cancelled", "12")
    assert site.calls("scancel") == []
    site.accounting("12", "CANCELLED by 1000", told["attempt_dir"])
    site.bin.joinpath("scancel").write_text(
        f"#!/bin/sh\necho scancel $* >> {site.folder}/calls\n: > {site.folder}/squeue.out\n"
    )
    result = reconcile(site, capsys, specs=[spec(state="absent")], collect_after=600.0)
    assert (result["changed"], result["specs"][0]["action"]) == (True, "cancelled")
    assert len(site.calls("scancel")) == 1
    assert reconcile(site, capsys, specs=[spec(state="absent")])["specs"][0]["action"] != "cancelled"
    again = reconcile(site, capsys, collect_after=0.0)["specs"][0]
    assert (again["action"], again["reason"]) == ("retry", "wanted again after the reconciler cancelled it")
    assert again["previous"]["hello"]["job.sh"].startswith("#!/bin/bash\necho hello > @ATTEMPT_DIR@")


def test_a_removed_spec_lives_on_unless_it_may_be_pruned(site, capsys):
    submitted(site, capsys)
    row = reconcile(site, capsys, True, specs=[])["specs"][0]
    assert (row["action"], row["reason"]) == ("left alone", "removed; it runs on, because prune is off")
    assert reconcile(site, capsys, True, specs=[], prune=True)["specs"][0]["action"] == "cancelled"
    held = reconcile(site, capsys, True, specs=[], prune=True, hold_prune="a file cannot be read")["specs"][0]
    assert held["action"] == "left alone"
    assert reconcile(site, capsys, True, specs=[], broken=["hello"], prune=True)["specs"][0]["action"] == "left alone"
    reconcile(site, capsys, specs=[spec(prune=True, owner="ana")])
    row = reconcile(site, capsys, True, specs=[])["specs"][0]
    assert (row["action"], row["owner"], row["file"]) == ("cancelled", "ana", "runs/a.yml")


def test_a_spec_that_could_not_be_planned_is_remembered(site, capsys):
    result = reconcile(site, capsys, record=[entry(error="no launcher")])
    assert result["changed"]
    assert result["specs"][0]["reason"] == "could not be planned: no launcher"


def test_a_state_folder_that_cannot_be_used_is_told(site, capsys):
    (site.folder / "shared").mkdir()
    (site.folder / "shared" / "state").write_text("")
    result = reconcile(site, capsys, record=[entry(error="x")])
    assert result["failed"]
    assert "state" in result["msg"]
