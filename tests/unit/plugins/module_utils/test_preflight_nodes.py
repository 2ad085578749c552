# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at compute nodes: the job, how long a look holds, and what is made of it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight_nodes as nodes
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished

NOW = 1_700_000_000.0
QUESTIONS = nodes.asked({"options": {"gpus-per-node": 1}, "paths": ["/cm/shared"], "urls": []})


class Cluster:
    """A Slurm that runs the job at once, on this machine, as a node called gpu001."""

    def __init__(self, folder, states=("COMPLETED|None",), sbatch="12\n", code="0:0", runs=True, **environment):
        self.folder = folder
        self.states = list(states)
        self.sbatch = sbatch
        self.code = code
        self.runs = runs
        self.time = NOW
        self.calls = []
        self.environment = environment
        commands = folder / "commands"
        commands.mkdir(exist_ok=True)
        texts = {
            "srun": 'if [ "$1" = --help ]; then echo "--container-image=X"; exit; fi\n'
            'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"',
            "enroot": "echo 4.1.2",
        }
        for name, text in texts.items():
            (commands / name).write_text(f"#!/bin/bash\n{text}\n")
            (commands / name).chmod(0o755)

    def run(self, words, environment, folder, limit):
        self.calls.append(list(words))
        if words[0] == "sbatch":
            if isinstance(self.sbatch, Finished):
                return self.sbatch
            if self.runs:
                values = {
                    "PATH": f"{self.folder}/commands:/usr/bin:/bin", "HOME": str(self.folder),
                    "SLURMD_NODENAME": "gpu001", "SLURM_GPUS_ON_NODE": "1", **self.environment,
                }  # fmt: skip
                done = subprocess.run(["bash", words[-1]], env=values, check=False, capture_output=True, text=True)
                self.code = f"{done.returncode}:0"
            return Finished(0, self.sbatch, "")
        if words[0] == "squeue":
            return Finished(0, self.states[0] if len(self.states) == 1 else self.states.pop(0), "")
        if words[0] == "scontrol":
            state = self.states[-1].partition("|")[0]
            return Finished(0, f"JobId=12 JobState={state} Reason=X ExitCode={self.code} NodeList=gpu001\n", "")
        return Finished(0, "", "")

    def sleep(self, seconds):
        self.time += seconds

    def look(self, questions=None, timeout=300):
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        place = nodes.Place(self.run, {}, lambda: self.time, self.sleep)
        look = nodes.Look(place, str(root), {"timeout": timeout})
        return look, look.make(QUESTIONS if questions is None else questions)


def by_id(record, questions=None, now=NOW, **wanted):
    asked = QUESTIONS if questions is None else questions
    options = ["container-image", "container-env"]
    checks = nodes.judge(record, asked, {"shared_root": "/r", "gpus": 1, "pyxis_options": options, **wanted}, now)
    return {check.id: check for check in checks}


def test_the_job_looks_for_real(tmp_path):
    cluster = Cluster(tmp_path, states=("PENDING|Priority", "RUNNING|None", "COMPLETED|None"))
    questions = {**QUESTIONS, "paths": ["/nonexistent/x y", "/usr"]}
    look, record = cluster.look(questions)
    assert record["outcome"] == "looked"
    said = record["nodes"]["gpu001"]
    assert (said["pyxis"], said["enroot"], said["same"], said["home"]) == ("--container-image", "4.1.2", "yes", "yes")
    assert (said["path /usr"], said["path /nonexistent/x y"]) == ("yes", "no")
    assert look.record() == record
    assert os.listdir(tmp_path / "root" / "preflight") == ["nodes.json"]
    (submitted,) = (call for call in cluster.calls if call[0] == "sbatch")
    assert {"--gpus-per-node=1", "--nodes=1", "--time=5"} <= set(submitted)
    assert ["scancel", "12"] not in cluster.calls


def test_the_script_is_sound_shell(tmp_path):
    path = tmp_path / "look.sh"
    path.write_text(nodes.job_script("/a b/c", {**QUESTIONS, "urls": ["https://x.org/a?b=c&d"]}))
    subprocess.run(["bash", "-n", path], check=True)
    checker = shutil.which("shellcheck")
    if checker:
        done = subprocess.run([checker, "-e", "SC1091", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_a_step_that_cannot_be_started_is_told_and_the_node_looks_by_itself(tmp_path):
    cluster = Cluster(tmp_path)
    (tmp_path / "commands" / "srun").write_text("#!/bin/sh\necho 'srun: error: Unable to create step' >&2\nexit 1\n")
    _look, record = cluster.look()
    assert "Unable to create step" in record["said"]
    checks = by_id(record)
    assert checks["node.step"].verdict == "error"
    assert checks["node.pyxis"].verdict == "error"


def test_a_job_that_does_not_begin_is_cancelled(tmp_path):
    cluster = Cluster(tmp_path, states=("PENDING|Priority",), runs=False)
    _look, record = cluster.look(timeout=60)
    assert record["outcome"] == "waiting"
    assert ["scancel", "12"] in cluster.calls
    (check,) = by_id(record).values()
    assert (check.verdict, "Priority" in check.evidence) == ("warning", True)


def test_a_refused_job(tmp_path):
    refused = Finished(1, "", "sbatch: error: Batch job submission failed: Invalid account\n")
    _look, record = Cluster(tmp_path, sbatch=refused).look()
    assert record["outcome"] == "refused"
    assert "Invalid account" in by_id(record)["node.job"].evidence
    # The run asks in another way, and slurm.request has its own word about that.
    check = by_id(record)["node.job"]
    assert (check.verdict, "preflight_compute_node_options" in check.remedy) == ("warning", True)


def test_a_job_that_a_passing_limit_refuses(tmp_path):
    said = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates policy\n"
    _look, record = Cluster(tmp_path, sbatch=Finished(1, "", said)).look()
    assert record["outcome"] == "refused"
    check = by_id(record)["node.job"]
    assert check.verdict == "warning"
    assert "AssocMaxSubmitJobLimit; Batch job submission failed" in check.evidence
    # The next time, a job is tried again.
    assert not nodes.answers(record, record["asked"], NOW)


@pytest.mark.parametrize(
    ("state", "code", "outcome", "name", "verdict"),
    [
        ("FAILED", "41:0", "not_there", "node.shared_root", "error"),
        ("FAILED", "42:0", "not_writable", "node.shared_root", "error"),
        ("COMPLETED", "0:0", "not_there", "node.shared_root", "error"),
        # Nothing was seen of the cluster.
        ("FAILED", "0:53", "failed", "node.job", "warning"),
        ("PREEMPTED", "0:15", "failed", "node.job", "warning"),
        ("NODE_FAIL", "0:0", "failed", "node.job", "warning"),
        ("CANCELLED", "0:15", "failed", "node.job", "warning"),
        ("BOOT_FAIL", "0:0", "failed", "node.job", "warning"),
    ],
)
def test_a_job_without_an_answer(tmp_path, state, code, outcome, name, verdict):
    _look, record = Cluster(tmp_path, states=(f"{state}|X",), code=code, runs=False).look()
    assert record["outcome"] == outcome
    check = by_id(record)[name]
    assert check.verdict == verdict
    assert check.remedy


def test_an_interrupted_job_is_tried_again_after_an_hour():
    record = {**record_of(), "outcome": "failed", "nodes": {}}
    assert nodes.answers(record, QUESTIONS, NOW + 3599)
    assert not nodes.answers(record, QUESTIONS, NOW + 3601)


@pytest.mark.parametrize(
    "state", ["SUSPENDED", "REQUEUED", "SIGNALING", "STAGE_OUT", "STOPPED", "REQUEUE_FED", "RESIZING", "NEWWORD"]
)
def test_a_state_that_is_no_end(tmp_path, state):
    cluster = Cluster(tmp_path, states=("RUNNING|None", f"{state}|None", "RUNNING|None", "COMPLETED|None"))
    _look, record = cluster.look()
    assert record["outcome"] == "looked"
    assert len(cluster.states) == 1
    assert ["scancel", "12"] not in cluster.calls


@pytest.mark.parametrize(
    ("state", "outcome"), [("REQUEUE_HOLD", "waiting"), ("SUSPENDED", "failed"), ("PREEMPTED", "failed")]
)
def test_a_job_that_will_not_end_is_cancelled(tmp_path, state, outcome):
    cluster = Cluster(tmp_path, states=(f"{state}|None",), code="0:0", runs=False)
    _look, record = cluster.look(timeout=60)
    assert record["outcome"] == outcome
    assert ["scancel", "12"] in cluster.calls


def test_the_submission_has_the_time_that_sbatch_takes(tmp_path):
    cluster = Cluster(tmp_path)
    limits = {}
    answer = cluster.run

    def run(words, environment, folder, limit):
        limits.setdefault(words[0], limit)
        return answer(words, environment, folder, limit)

    cluster.run = run
    cluster.look()
    assert limits["sbatch"] == nodes.SUBMIT_TIMEOUT > limits["squeue"]


GOOD = {"token": "1", "same": "yes", "pyxis": "--container-env --container-image", "enroot": "4.1.2", "home": "yes",
        "time": str(int(NOW)), "space /tmp": str(10**9), "path /cm/shared": "yes", "gpus_driver": "1", "driver": "550.1, A100"}  # fmt: skip


def record_of(**changes):
    return {
        "outcome": "looked", "said": "", "job_id": "7", "time": NOW, "asked": QUESTIONS,
        "nodes": {"gpu001": {**GOOD, **changes}, "gpu002": dict(GOOD)},
    }  # fmt: skip


def test_all_is_well():
    checks = by_id(record_of())
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert "job 7 looked at gpu001, gpu002, now" in checks["node.job"].evidence
    assert "90 minutes ago" in by_id(record_of(), now=NOW + 5400)["node.job"].evidence


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "words"),
    [
        ({"same": "no"}, "node.shared_root", "error", "shows other content on gpu001"),
        ({"pyxis": ""}, "node.pyxis", "error", "srun on gpu001 has no option --container-image"),
        ({"pyxis": "--container-image"}, "node.pyxis", "error", "srun on gpu001 does not know --container-env"),
        ({"enroot": "3.0.2"}, "node.enroot", "error", "3.0.2, 4.1.2"),
        ({"enroot": ""}, "node.enroot", "error", "no enroot on gpu001"),
        ({"enroot": "3.4.1"}, "node.enroot", "warning", "versions differ: 3.4.1, 4.1.2"),
        ({"space /tmp": "1000"}, "node.enroot", "warning", "/tmp on gpu001 has 0 GB"),
        ({"gpus_driver": "0"}, "node.gpus", "error", "sees no GPU on gpu001"),
        ({"home": "no"}, "node.home", "ok", "not there on gpu001"),
        ({"time": str(int(NOW) - 300)}, "node.clock", "warning", "300 s behind"),
        ({"path /cm/shared": "no"}, "node.mounts", "error", "/cm/shared is not there on gpu001"),
    ],
)
def test_what_is_not_well(changes, name, verdict, words):
    check = by_id(record_of(**changes))[name]
    assert check.verdict == verdict
    assert words in check.evidence
    assert bool(check.remedy) is (verdict != "ok")


def test_no_driver():
    record = record_of()
    del record["nodes"]["gpu001"]["gpus_driver"]
    assert by_id(record)["node.gpus"].verdict == "warning"
    assert "node.gpus" not in by_id(record, gpus=0)


def test_addresses_from_the_nodes():
    questions = {**QUESTIONS, "urls": ["https://hub.org"]}
    assert by_id(record_of(**{"url https://hub.org": "000"}), questions)["node.network"].verdict == "error"
    assert by_id(record_of(**{"url https://hub.org": "401"}), questions)["node.network"].verdict == "ok"
    told = {
        "certificate": "do not trust the certificate",
        "unknown": "have no curl",
        "timeout": "no answer from https://hub.org in time",
    }
    for said, words in told.items():
        check = by_id(record_of(**{"url https://hub.org": said}), questions)["node.network"]
        assert (check.verdict, words in check.evidence) == ("warning", True)
    # What a run can do without is a warning, unless another one needs it.
    silent = record_of(**{"url https://hub.org": "000"})
    wished = ["https://hub.org"]
    assert by_id(silent, questions, wished_urls=wished)["node.network"].verdict == "warning"
    assert by_id(silent, questions, wished_urls=wished, urls=wished)["node.network"].verdict == "error"


def test_the_nodes_own_answers_about_an_address(tmp_path):
    cluster = Cluster(tmp_path)
    curl = tmp_path / "commands" / "curl"
    answers = {
        "https://a.org": "printf 200",
        "https://b.org": "printf 000; exit 60",
        "https://c.org": "printf 000; exit 6",
    }
    cases = "\n".join(f"*{address}) {answer};;" for address, answer in answers.items())
    curl.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\n')
    curl.chmod(0o755)
    questions = nodes.asked({"urls": ["https://a.org", "https://b.org"], "wished_urls": ["https://c.org"]})
    assert questions["urls"] == sorted(answers)
    _look, record = cluster.look(questions)
    said = record["nodes"]["gpu001"]
    assert [said[f"url {address}"] for address in answers] == ["200", "certificate", "000"]


def test_addresses_are_asked_through_the_proxies_of_the_training(tmp_path):
    cluster = Cluster(tmp_path)
    curl = tmp_path / "commands" / "curl"
    curl.write_text('#!/bin/sh\nif [ "$https_proxy" = "http://p r:1" ]; then printf 200; else exit 28; fi\n')
    curl.chmod(0o755)
    asked = {"urls": ["https://a.org"], "environment": {"https_proxy": "http://p r:1"}}
    for environment, said in ((asked["environment"], "200"), ({}, "timeout")):
        _look, record = cluster.look(nodes.asked({**asked, "environment": environment}))
        assert record["nodes"]["gpu001"]["url https://a.org"] == said


def test_other_proxies_are_another_question():
    asked = {"options": {"gpus-per-node": 1}, "paths": ["/cm/shared"], "urls": ["https://a.org"]}
    questions = nodes.asked({**asked, "environment": {"https_proxy": "http://p:1"}})
    record = {**record_of(), "asked": questions}
    assert nodes.answers(record, questions, NOW)
    assert not nodes.answers(record, nodes.asked(asked), NOW)
    # Without an address it does not matter.
    assert nodes.answers(record, QUESTIONS, NOW)


def test_a_step_that_found_no_folder_on_another_node():
    record = {**record_of(), "said": "srun: error: gpu002: task 1: Exited with exit code 41"}
    assert by_id(record)["node.shared_root"].verdict == "error"


@pytest.mark.parametrize(
    ("changes", "age", "holds"),
    [
        ({}, 0, True),
        ({}, 86399, True),
        ({}, 86401, False),
        ({}, -10, False),
        ({"paths": []}, 0, True),
        ({"paths": ["/other"]}, 0, False),
        ({"urls": ["https://x.org"]}, 0, False),
        ({"nodes": 2}, 0, False),
        ({"options": {}}, 0, False),
    ],
)
def test_how_long_a_look_holds(changes, age, holds):
    assert nodes.answers(record_of(), {**QUESTIONS, **changes}, NOW + age) is holds


def test_a_job_that_did_not_begin_is_tried_again_after_an_hour():
    record = {**record_of(), "outcome": "waiting"}
    assert nodes.answers(record, QUESTIONS, NOW + 3599)
    assert not nodes.answers(record, QUESTIONS, NOW + 3601)


@pytest.mark.parametrize("record", [{}, {"asked": 1, "time": NOW}, {"asked": QUESTIONS, "time": "x"}])
def test_a_record_that_is_none(record):
    assert not nodes.answers(record, QUESTIONS, NOW)
    assert nodes.together(record, QUESTIONS, NOW) == QUESTIONS


def test_two_workloads_in_turn_need_one_job():
    other = {**QUESTIONS, "paths": ["/data"], "urls": ["https://x.org"]}
    merged = nodes.together(record_of(), other, NOW)
    assert merged["paths"] == ["/cm/shared", "/data"]
    assert nodes.answers({**record_of(), "asked": merged}, QUESTIONS, NOW)
    assert nodes.answers({**record_of(), "asked": merged}, other, NOW)
    elsewhere = {**other, "options": {"partition": "x"}}
    assert nodes.together(record_of(), elsewhere, NOW) == elsewhere
