# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules that ask Slurm, from their arguments to their results, over commands that a test plays."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import ACCOUNTING_FIELDS, FIELD_SEPARATOR
from ansible_collections.dgxc.workloads.plugins.modules import run_result, slurm_job, slurm_job_info

COMMAND = """#!/bin/sh
echo "{name} $*" >> {folder}/calls
cat {folder}/{name}.out
cat {folder}/{name}.err >&2
exit "$(cat {folder}/{name}.rc)"
"""
SCRIPT = "#!/bin/bash\necho hello > @ATTEMPT_DIR@/x\n"


class Site:
    """A folder with Slurm's commands, each of which says what the test has put down."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.root = folder / "shared" / "runs"
        for name in ("sbatch", "squeue", "sacct", "scancel", "sinfo", "scontrol"):
            self.says(name)
            command = self.bin / name
            command.write_text(COMMAND.format(name=name, folder=folder))
            command.chmod(0o755)

    def says(self, name, out="", err="", code=0):
        for suffix, text in (("out", out), ("err", err), ("rc", str(code))):
            (self.folder / f"{name}.{suffix}").write_text(text)

    def calls(self, name):
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[0] == name]

    def queue(self, job_id, state, folder, reason="None"):
        now = str(int(time.time()))
        self.says("squeue", FIELD_SEPARATOR.join([job_id, state, now, now, "gpu[001-002]", reason, str(folder)]) + "\n")

    def accounting(self, job_id, state, folder, code="0:0", **more):
        now = int(time.time())
        values = {
            "JobID": job_id, "State": state, "ExitCode": code, "DerivedExitCode": "0:0", "Submit": str(now),
            "Start": str(now), "End": str(now + 5), "ElapsedRaw": "5", "NNodes": "2", "NTasks": "16",
            "NodeList": "gpu[001-002]", "WorkDir": str(folder), "JobName": "train", **more,
        }  # fmt: skip
        self.says("sacct", FIELD_SEPARATOR.join(values[name] for name in ACCOUNTING_FIELDS) + "\n")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def run(module, capsys, check_mode=False, **arguments):
    """The result of a module."""
    with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
        module.main()
    return json.loads(capsys.readouterr().out)


def job(site, name="hello", **more):
    return {
        "run_dir": str(site.root / "mine" / name), "name": name, "key": "0" * 64, "script": "job.sh",
        "files": {"job.sh": SCRIPT}, **more,
    }  # fmt: skip


def submit(site, capsys, check_mode=False, **more):
    return run(slurm_job, capsys, check_mode, slurm_bin_dir=str(site.bin), **more)


def test_a_job_is_submitted_with_its_diff_and_adopted_later(site, capsys):
    site.says("sbatch", "Welcome\n12\n", "sbatch: note from the site\n")
    result = submit(site, capsys, **job(site, options={"qos": "high", "exclusive": True}))
    (told,) = result["jobs"]
    assert (result["changed"], told["action"], told["job_id"]) == (True, "submitted", "12")
    folder = told["attempt_dir"]
    assert result["diff"][0]["after"] == f"#!/bin/bash\necho hello > {folder}/x\n"
    assert told["warnings"] == ["sbatch: note from the site"]
    (call,) = site.calls("sbatch")
    assert f"--chdir={folder}" in call
    assert "--qos=high --exclusive" in call
    assert "--open-mode=append" in call
    assert "--job-name=hello" in call
    site.queue("12", "RUNNING", folder)
    again = submit(site, capsys, **job(site, options={"qos": "high", "exclusive": True}))
    assert (again["changed"], again["jobs"][0]["action"], again["queries"]) == (False, "adopted", 2)
    assert len(site.calls("sbatch")) == 1


def test_a_script_of_the_cluster_is_copied(site, capsys):
    script = site.folder / "own.sh"
    script.write_text("#!/bin/sh\n#SBATCH --job-name=mine\ntrue\n")
    site.says("sbatch", "12\n")
    arguments = {**job(site), "files": {}, "script": str(script)}
    told = submit(site, capsys, **arguments)["jobs"][0]
    assert told["action"] == "submitted"
    assert (site.root / "mine/hello/attempt-1/job.sh").read_text() == script.read_text()
    assert "--job-name" not in site.calls("sbatch")[0]


def test_a_refusal_fails_with_slurms_own_words(site, capsys):
    site.says("sbatch", "", "sbatch: error: Batch job submission failed: Invalid qos specification\n", 1)
    result = submit(site, capsys, jobs=[job(site, "a"), job(site, "b")])
    assert result["failed"] is True
    assert "Invalid qos specification" in result["msg"]
    assert "dgxc_slurm_qos" in result["msg"]
    assert "1 more like it" in result["msg"]
    assert [entry["action"] for entry in result["jobs"]] == ["refused", "refused"]


def test_check_mode_rehearses_and_writes_nothing(site, capsys):
    site.says("sbatch", "", "sbatch: Job 13 to start at 2026-12-01T00:00:00 using 2 processors\n")
    result = submit(site, capsys, True, **job(site))
    assert (result["changed"], result["jobs"][0]["action"]) == (True, "planned")
    assert "--test-only" in site.calls("sbatch")[0]
    assert result["diff"][0]["after"].startswith("#!/bin/bash")
    assert not site.root.exists()


def test_check_mode_tells_a_refusal_and_a_silent_slurm(site, capsys):
    site.says("sbatch", "", "allocation failure: Invalid partition name specified\n", 1)
    assert "Invalid partition name" in submit(site, capsys, True, **job(site))["msg"]
    site.says("sbatch", "", "sbatch: error: Unable to contact slurm controller (connect failure)\n", 1)
    result = submit(site, capsys, True, **job(site))
    assert result["jobs"][0]["action"] == "planned"
    assert "could not answer" in result["jobs"][0]["warnings"][0]


BAD = [
    ({"run_dir": "a b"}, "must be an absolute path"),
    ({"script": "other.sh"}, "give the name of one of files"),
    ({"script": "/nonexistent.sh"}, "No such file"),
    ({"slurm_bin_dir": "/nonexistent"}, "there is no sbatch in it"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_arguments_are_told_before_anything_is_touched(site, capsys, change, words):
    result = run(slurm_job, capsys, **{"slurm_bin_dir": str(site.bin), **job(site), **change})
    assert result["failed"] is True
    assert words in result["msg"]
    assert site.calls("sbatch") == []
    assert not site.root.exists()


def test_one_folder_for_two_runs_is_told(site, capsys):
    result = submit(site, capsys, jobs=[job(site), {**job(site), "name": "other"}])
    assert "have the same run_dir" in result["msg"]


def test_no_jobs_are_no_work(site, capsys):
    result = submit(site, capsys, jobs=[])
    assert (result["changed"], result["jobs"]) == (False, [])


def test_a_run_folder_that_cannot_be_made_is_a_sentence(site, capsys):
    site.root.parent.mkdir()
    site.root.write_text("a file in the way")
    result = submit(site, capsys, **job(site))
    assert result["failed"] is True
    assert "exception" not in result


def test_cancelling_looks_whether_the_job_is_gone(site, capsys):
    site.says("sbatch", "12\n")
    folder = submit(site, capsys, **job(site))["jobs"][0]["attempt_dir"]
    site.queue("12", "RUNNING", folder)
    planned = submit(site, capsys, True, state="cancelled", jobs=[{"run_dir": job(site)["run_dir"]}])
    assert (planned["jobs"][0]["action"], site.calls("scancel")) == ("planned", [])
    (site.bin / "scancel").write_text(
        COMMAND.format(name="scancel", folder=site.folder).replace("cat ", f": > {site.folder}/squeue.out; cat ", 1)
    )
    result = submit(site, capsys, state="cancelled", jobs=[{"run_dir": job(site)["run_dir"]}])
    assert (result["changed"], result["jobs"][0]["action"]) == (True, "cancelled")
    assert site.calls("scancel") == ["scancel 12"]


def look(site, capsys, **arguments):
    return run(slurm_job_info, capsys, slurm_bin_dir=str(site.bin), **arguments)


def test_jobs_are_told_by_id_and_by_folder_and_below_a_root(site, capsys):
    site.says("sbatch", "12\n")
    spec = {"workload": "mine", "logs": {"stdout": "log_%j.out"}, "log_format": "nemo", "expect": {"steps": 2000}}
    folder = submit(site, capsys, **job(site, spec=spec))["jobs"][0]["attempt_dir"]
    site.queue("12", "RUNNING", folder)
    line = (
        "Epoch 0: :   2%|x         | 180/10050 [40:46<37:16:04, v_num=m9yd, reduced_train_loss=5.640, "
        "global_step=179.0, consumed_samples=92160.0, train_step_timing in s=13.40]\r"
    )
    with open(f"{folder}/log_12.out", "w") as stream:
        stream.write(line)
    by_id = look(site, capsys, job_ids=["12"])["jobs"][0]
    assert (by_id["name"], by_id["state"], by_id["verdict"]) == ("job 12", "RUNNING", "active")
    by_folder = look(site, capsys, run_dirs=[job(site)["run_dir"]], progress=True)["jobs"][0]
    assert (by_folder["name"], by_folder["nodes"]) == ("hello", ["gpu001", "gpu002"])
    assert (by_folder["progress"]["step"], by_folder["progress"]["total"]) == (180, 2000)
    assert by_folder["progress"]["seconds_per_step"] == 13.4
    below = look(site, capsys, runs_root=str(site.root))["jobs"]
    assert [entry["name"] for entry in below] == ["hello"]


def test_a_failed_job_comes_with_the_end_of_its_log(site, capsys):
    site.says("sbatch", "12\n")
    folder = submit(site, capsys, **job(site))["jobs"][0]["attempt_dir"]
    site.accounting("12", "FAILED", folder, "1:0")
    with open(f"{folder}/slurm-12.out", "w") as stream:
        stream.write("one\ntwo\nboom\n")
    told = look(site, capsys, run_dirs=[job(site)["run_dir"]])["jobs"][0]
    assert (told["verdict"], told["failure_class"], told["exit_code"]) == ("failed", "failed", 1)
    assert told["log_tail"][-1] == "boom"


def test_a_watched_absence_counts(site, capsys):
    site.accounting("12", "PREEMPTED", "/s/a", End="Unknown")
    assert look(site, capsys, job_ids=["12"], gone_for={"12": 10})["jobs"][0]["verdict"] == "active"
    assert look(site, capsys, job_ids=["12"], gone_for={"12": 130})["jobs"][0]["verdict"] == "failed"


def test_what_was_never_submitted_or_refused_is_told_so(site, capsys):
    missing = look(site, capsys, run_dirs=[str(site.root / "mine" / "none")])["jobs"][0]
    assert (missing["verdict"], missing["message"]) == ("unknown", "never submitted")
    site.says("sbatch", "", "sbatch: error: Invalid partition name specified\n", 1)
    submit(site, capsys, **job(site))
    refused = look(site, capsys, run_dirs=[job(site)["run_dir"]])["jobs"][0]
    assert (refused["verdict"], refused["failure_class"]) == ("failed", "refused")


def test_an_outage_is_told_and_decides_nothing(site, capsys):
    site.says("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1)
    site.says("sacct", "", "sacct: error: x\nsacct: error: Problem talking to the database: Connection refused\n", 1)
    result = look(site, capsys, job_ids=["12"])
    assert result["jobs"][0]["verdict"] == "active"
    assert len(result["errors"]) == 2


def test_an_id_that_is_none_is_refused(site, capsys):
    assert "whole numbers" in look(site, capsys, job_ids=["12; rm"])["msg"]


def judge(site, capsys, check_mode=False, **more):
    return run(run_result, capsys, check_mode, slurm_bin_dir=str(site.bin), log_timeout=0, **more)


def finished(site, capsys, state="COMPLETED", code="0:0", **spec):
    site.says("sbatch", "12\n")
    folder = submit(site, capsys, **job(site, spec={"workload": "mine", **spec}))["jobs"][0]["attempt_dir"]
    site.accounting("12", state, folder, code)
    with open(f"{folder}/slurm-12.out", "w") as stream:
        stream.write("hello\n")
    return folder


def test_a_good_run_is_put_on_record_once(site, capsys):
    folder = finished(site, capsys, expect={"nodes": 2, "gpus_per_node": 8})
    planned = judge(site, capsys, True, run_dirs=[job(site)["run_dir"]])
    assert planned["changed"] is True
    result = judge(site, capsys, run_dirs=[job(site)["run_dir"]])
    (told,) = result["runs"]
    assert (result["changed"], told["verdict"], told["state"], told["node_count"]) == (
        True,
        "succeeded",
        "COMPLETED",
        2,
    )
    record = json.loads((site.root / "mine/hello/record.json").read_text())
    assert (record["verdict"], record["name"], record["schema"]) == ("succeeded", "hello", 1)
    assert json.loads(Path(folder, "metrics.json").read_text())
    site.says("sacct", "", "gone", 1)
    again = judge(site, capsys, run_dirs=[job(site)["run_dir"]])
    assert (again["changed"], again["queries"], again["runs"][0]["verdict"]) == (False, 0, "succeeded")
    assert submit(site, capsys, **job(site))["jobs"][0]["action"] == "unchanged"


def test_a_run_on_too_few_nodes_has_failed_whatever_slurm_says(site, capsys):
    finished(site, capsys, expect={"nodes": 4})
    result = judge(site, capsys, run_dirs=[job(site)["run_dir"]])
    assert result["failed"] is True
    assert (result["runs"][0]["verdict"], result["runs"][0]["failure_class"]) == ("failed", "topology_gate")


def test_a_log_that_proves_nothing_is_unknown_and_never_good(site, capsys):
    finished(site, capsys, log_format="nemo", expect={"steps": 2000})
    result = judge(site, capsys, run_dirs=[job(site)["run_dir"]], fail_unless_succeeded=False)
    assert (result["changed"], result["runs"][0]["verdict"]) == (True, "unknown")
    again = judge(site, capsys, run_dirs=[job(site)["run_dir"]], fail_unless_succeeded=False)
    assert (again["changed"], again["runs"][0]["verdict"]) == (False, "unknown")


def test_slurms_failure_stands(site, capsys):
    finished(site, capsys, "FAILED", "3:0")
    told = judge(site, capsys, run_dirs=[job(site)["run_dir"]], fail_unless_succeeded=False)["runs"][0]
    assert (told["verdict"], told["failure_class"]) == ("failed", "failed")
    assert "exit code 3" in told["message"]


def test_a_run_that_goes_on_is_not_judged(site, capsys):
    site.says("sbatch", "12\n")
    folder = submit(site, capsys, **job(site))["jobs"][0]["attempt_dir"]
    site.queue("12", "RUNNING", folder)
    result = judge(site, capsys, run_dirs=[job(site)["run_dir"]], fail_unless_succeeded=False)
    assert (result["changed"], result["runs"][0]["verdict"]) == (False, "active")
