# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens to the submission and to the wait when the daemons, the connection or the playbook die.

Every test counts the jobs that exist in the end, and looks at the verdict.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.harness.sandbox import CONF, PREFIX, USER, Sandbox, wait_until


def processes(pattern: str) -> list[int]:
    """Processes of the ordinary user whose command line matches."""
    # Not those of another sandbox in a container on this machine.
    command = ["pgrep", "--ns", str(os.getpid()), "--nslist", "pid", "-u", USER, "-f", pattern]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    return [int(number) for number in done.stdout.split()]


def kill_all(pattern: str) -> None:
    for pid in processes(pattern):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


# --- during the submission ---


def test_a_frozen_controller_that_creates_the_job_all_the_same(sandbox: Sandbox):
    """sbatch gives up after 10 s, the controller wakes up and creates the job: it is adopted."""
    sandbox.signal("slurmctld", signal.SIGSTOP)
    play = sandbox.play()
    wait_until(lambda: processes("sbatch.*--parsable"), 40, "the call of sbatch")
    wait_until(lambda: not processes("sbatch.*--parsable"), 40, "the end of sbatch")
    time.sleep(3)
    sandbox.signal("slurmctld", signal.SIGCONT)
    output = play.succeeds()
    sandbox.one_job()
    assert "COMPLETED" in output
    assert sandbox.record()["verdict"] == "succeeded"
    assert len(sandbox.record()["attempts"]) == 1


@pytest.mark.parametrize("victim", ["module", "connection"])
def test_the_submitter_dies_while_sbatch_hangs(sandbox: Sandbox, victim: str):
    """kill -9 of everything that submits; the controller has the request and creates the job later."""
    sandbox.signal("slurmctld", signal.SIGSTOP)
    play = sandbox.play()
    wait_until(lambda: processes("sbatch.*--parsable"), 40, "the call of sbatch")
    time.sleep(2)
    if victim == "module":
        kill_all("AnsiballZ_slurm_job|sbatch.*--parsable")
    else:
        kill_all("sshd(-session)?: ")
        kill_all("AnsiballZ_slurm_job|sbatch.*--parsable")
    play.kill()
    sandbox.signal("slurmctld", signal.SIGCONT)
    again = sandbox.play()
    again.succeeds(180)
    sandbox.one_job()
    assert sandbox.record()["verdict"] == "succeeded"
    third = sandbox.play()
    third.succeeds()
    assert third.changed == 0
    sandbox.one_job()


def test_a_dead_controller_is_waited_for(sandbox: Sandbox):
    sandbox.signal("slurmctld", signal.SIGKILL)
    play = sandbox.play()
    wait_until(lambda: processes("sbatch.*--parsable"), 40, "the call of sbatch")
    sandbox.repair("slurmctld")
    play.succeeds()
    sandbox.one_job()


def test_two_playbooks_at_once_make_one_job(sandbox: Sandbox):
    first, second = sandbox.play("sleep 5"), sandbox.play("sleep 5")
    first.succeeds()
    second.succeeds()
    sandbox.one_job()


def test_the_playbook_is_killed_right_after_the_submission(sandbox: Sandbox):
    play = sandbox.play("sleep 15")
    wait_until(
        lambda: list((PREFIX / "shared" / USER / "runs" / "fault").glob("*/attempt-1/intent.json")), 40, "the intent"
    )
    play.kill()
    again = sandbox.play("sleep 15")
    again.succeeds()
    sandbox.one_job()


def test_damaged_records_lead_to_no_second_job(sandbox: Sandbox):
    play = sandbox.play("sleep 20")
    play.says("RUNNING")
    play.kill()
    folder = sandbox.run_folder()
    (folder / "record.json").write_text("{")
    (folder / "attempt-1" / "job.json").write_text("")
    sandbox.play("sleep 20").succeeds()
    sandbox.one_job()
    assert sandbox.record()["verdict"] == "succeeded"


# --- during the wait ---


@pytest.mark.parametrize("daemon", ["slurmdbd", "mariadbd"])
def test_an_accounting_outage_over_the_end_of_the_job(sandbox: Sandbox, daemon: str):
    play = sandbox.play("sleep 6")
    play.says("RUNNING")
    sandbox.signal(daemon, signal.SIGKILL)
    time.sleep(12)
    assert play.process.poll() is None, play.output
    sandbox.repair("mariadbd", "slurmdbd")
    output = play.succeeds(180)
    sandbox.one_job()
    assert output.count("no full answer from Slurm") == 1
    assert output.count("Slurm answers fully again") == 1


def test_a_controller_that_dies_in_the_wait(sandbox: Sandbox):
    play = sandbox.play("sleep 25")
    play.says("RUNNING")
    # slurmctld writes its state every few seconds; killed before that, it forgets that the job has started.
    time.sleep(8)
    sandbox.signal("slurmctld", signal.SIGKILL)
    play.says("no full answer from Slurm", 90)
    sandbox.repair("slurmctld")
    play.succeeds(180)
    sandbox.one_job()
    assert play.output.count("no full answer from Slurm") == 1


def test_the_connection_is_cut_for_a_while(sandbox: Sandbox):
    play = sandbox.play("sleep 15")
    play.says("RUNNING")
    sandbox.signal("sshd", signal.SIGKILL)
    kill_all("sshd(-session)?: ")
    play.says("no contact", 90)
    time.sleep(5)
    sandbox.repair("sshd")
    play.succeeds(180)
    sandbox.one_job()
    assert play.output.count("contact is back") == 1


def test_an_interrupted_wait_leaves_the_job_and_is_taken_up_again(sandbox: Sandbox):
    play = sandbox.play("sleep 25")
    play.says("RUNNING")
    os.killpg(play.process.pid, signal.SIGINT)
    assert play.ends(30) != 0
    assert [state for job_id, state in sandbox.jobs()] == ["RUNNING"]
    again = sandbox.play("sleep 25")
    again.succeeds()
    sandbox.one_job()
    assert sandbox.record()["verdict"] == "succeeded"


def test_a_short_memory_of_the_controller(sandbox: Sandbox):
    """slurmctld forgets a finished job after two seconds: squeue then says that the id is invalid."""
    sandbox.configure("MinJobAge=2")
    sandbox.play("sleep 1").succeeds()
    time.sleep(5)
    again = sandbox.play("sleep 1")
    again.succeeds()
    assert again.changed == 0
    sandbox.one_job()


def test_a_slow_epilog_delays_but_does_not_spoil(sandbox: Sandbox):
    epilog = PREFIX / "etc" / "slurm" / "slow-epilog"
    epilog.write_text("#!/bin/sh\nsleep 12\n")
    epilog.chmod(0o755)
    try:
        sandbox.configure(f"Epilog={epilog}")
        play = sandbox.play("sleep 2")
        output = play.succeeds()
    finally:
        epilog.unlink()
    assert "COMPLETING" in output
    assert sandbox.record()["verdict"] == "succeeded"


# --- ends that are not good ---


def test_a_failing_prolog_is_a_stuck_job_that_is_told_and_left(sandbox: Sandbox):
    prolog = PREFIX / "etc" / "slurm" / "bad-prolog"
    prolog.write_text("#!/bin/sh\nexit 1\n")
    prolog.chmod(0o755)
    try:
        sandbox.configure(f"Prolog={prolog}")
        output = sandbox.play().fails()
    finally:
        prolog.unlink()
    job_id = sandbox.one_job()
    assert "held" in output
    assert "scontrol release" in output
    assert "PENDING" in sandbox.command("squeue", "-h", "-j", job_id, "-o", "%T")


def test_a_held_job_can_be_cancelled_on_request(sandbox: Sandbox):
    output = sandbox.play(fault_options={"hold": True}, run_on_stuck="cancel").fails()
    assert "JobHeldUser" in output
    (job,) = sandbox.jobs()
    assert job[1].startswith("CANCELLED")


def test_an_impossible_time_limit_fails_soon(sandbox: Sandbox):
    sandbox.configure("PartitionName=short Nodes=ALL MaxTime=5 State=UP")
    output = sandbox.play(fault_options={"partition": "short", "time": "0-01:00:00"}, run_on_stuck="cancel").fails(150)
    assert "PartitionTimeLimit" in output
    sandbox.one_job()


FAILURES = [
    ("exit 3", "exit code 3", "failed"),
    ("srun false || true", "step 0 in it failed", "step_failed"),
    ("kill -9 $$", "killed by signal 9 (SIGKILL)", "failed"),
    ("scancel $SLURM_JOB_ID; sleep 60", "CANCELLED by user id", "cancelled"),
]


@pytest.mark.parametrize(
    ("script", "words", "failure_class"), FAILURES, ids=[case[2] + case[0][:4] for case in FAILURES]
)
def test_a_failure_is_told_and_not_repeated(sandbox: Sandbox, script: str, words: str, failure_class: str):
    output = sandbox.play(script).fails()
    assert words in output
    sandbox.one_job()
    assert sandbox.record()["attempts"][0]["result"]["failure_class"] == failure_class
    again = sandbox.play(script)
    again.fails()
    assert again.changed == 0
    sandbox.one_job()


def test_a_lost_node_is_a_failure_that_may_be_tried_again(sandbox: Sandbox):
    variables = {"fault_options": {"no-requeue": True, "nodelist": "gpu004"}, "run_grace": 5}
    play = sandbox.play("sleep 60", **variables)
    play.says("RUNNING")
    sandbox.command("scontrol", "update", "nodename=gpu004", "state=down", "reason=test")
    assert "NODE_FAIL" in play.fails()
    sandbox.one_job()
    assert sandbox.record()["attempts"][0]["result"]["failure_class"] == "node_fail"


def test_a_lost_node_is_left_out_when_the_play_tries_again(sandbox: Sandbox):
    variables = {"fault_options": {"no-requeue": True}, "run_grace": 5, "run_retries": 1, "run_retry_pause": 1}
    play = sandbox.play("sleep 20", **variables)
    play.says("RUNNING")
    job_id = sandbox.one_job()
    node = sandbox.command("squeue", "-h", "-j", job_id, "-o", "%N").strip()
    sandbox.command("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    play.succeeds(180)
    first, second = sandbox.record()["attempts"]
    assert (first["result"]["failure_class"], second["result"]["verdict"]) == ("node_fail", "succeeded")
    assert sandbox.record()["excluded"] == [node]
    assert second["result"]["job"]["nodes"] != [node]
    assert len(sandbox.jobs()) == 2


def test_a_refusal_names_the_variable(sandbox: Sandbox):
    output = sandbox.play(fault_options={"partition": "nosuch"}).fails()
    assert "Invalid partition name specified" in output
    assert "dgxc_slurm_partition" in output
    assert sandbox.jobs() == []


def test_a_failed_run_is_submitted_again_only_when_told(sandbox: Sandbox):
    sandbox.play("exit 1").fails()
    sandbox.one_job()
    sandbox.play("exit 1", fault_resubmit="on_failure", fault_max_attempts=2).fails()
    assert len(sandbox.jobs()) == 2
    sandbox.play("exit 1", fault_resubmit="on_failure", fault_max_attempts=2).fails()
    assert len(sandbox.jobs()) == 2
    assert sorted(path.name for path in sandbox.run_folder().glob("attempt-*")) == ["attempt-1", "attempt-2"]


ARRAYS = [
    ("#SBATCH --array=0-3", 'test "$SLURM_ARRAY_TASK_ID" -ne 2', "failed"),
    ("#SBATCH --array=0-3%2", "sleep 1", "succeeded"),
    ("#SBATCH hetjob\n#SBATCH --ntasks=1 --mem=10", "srun --het-group=0,1 true", "succeeded"),
    ("#SBATCH hetjob\n#SBATCH --ntasks=1 --mem=10", "srun --het-group=1 false", "failed"),
]


@pytest.mark.parametrize(("directives", "script", "verdict"), ARRAYS, ids=["array-bad", "array", "het", "het-bad"])
def test_a_job_of_several_parts_is_as_good_as_its_worst(sandbox: Sandbox, directives: str, script: str, verdict: str):
    play = sandbox.play(script, directives)
    assert (play.ends() == 0) == (verdict == "succeeded"), play.output
    assert sandbox.record()["verdict"] == verdict
    assert len(list(sandbox.run_folder().glob("attempt-*"))) == 1


# --- sites ---

CLI_FILTER = """
function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, pack_offset)
  print("NOTICE 777 from the site, on stdout") return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id)
  print("Job " .. tostring(job_id) .. " accepted; cost 42") return slurm.SUCCESS end
"""
JOB_SUBMIT = """
function slurm_job_submit(job_desc, part_list, submit_uid)
  slurm.log_user("remember the maintenance on Monday, job 99")
  if job_desc.name == "refuse" then slurm.log_user("no such jobs here") return slurm.ERROR end
  return slurm.SUCCESS end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
"""


def test_filters_of_the_site_that_talk_and_refuse(sandbox: Sandbox):
    files = {"cli_filter.lua": CLI_FILTER, "job_submit.lua": JOB_SUBMIT}
    for name, text in files.items():
        (CONF.parent / name).write_text(text)
    try:
        sandbox.configure("CliFilterPlugins=lua", "JobSubmitPlugins=lua", restart=True)
        output = sandbox.play().succeeds()
        assert "maintenance on Monday" in output
        sandbox.one_job()
        sandbox.name += "x"
        output = sandbox.play(fault_options={"job-name": "refuse"}).fails()
        assert "no such jobs here" in output
        assert sandbox.jobs() == []
    finally:
        for name in files:
            (CONF.parent / name).unlink()


def test_a_profile_that_talks_and_sets_slurm_variables(sandbox: Sandbox):
    profile = PREFIX / "home" / USER / ".bash_profile"
    before = profile.read_text() if profile.exists() else None
    noise = (
        "echo 'Welcome to cluster 7: 42 jobs'; echo noise >&2\n"
        "export SBATCH_PARTITION=nosuch SBATCH_WAIT=1 SQUEUE_STATES=COMPLETED\n"
        "export SACCT_FORMAT=User SLURM_TIME_FORMAT=relative\n"
        "export SLURM_CLUSTERS=nosuch TZ=Asia/Tokyo LANG=de_DE.UTF-8 SLURM_JOB_ID=1 SLURM_CPU_BIND=none\n"
    )
    rest = before if before is not None else "[ -f ~/.profile ] && . ~/.profile\n"
    try:
        profile.write_text(noise + rest)
        sandbox.play("sleep 3").succeeds()
        again = sandbox.play("sleep 3")
        again.succeeds()
    finally:
        if before is None:
            profile.unlink()
        else:
            profile.write_text(before)
    assert again.changed == 0
    sandbox.one_job()


def test_a_site_without_accounting(sandbox: Sandbox):
    sandbox.configure(
        "AccountingStorageType=accounting_storage/none",
        "AccountingStorageEnforce=",
        "AccountingStorageTRES=",
        restart=True,
    )
    output = sandbox.play("sleep 3").succeeds()
    assert "COMPLETED" in output
    assert sandbox.record()["verdict"] == "succeeded"
    # The controller names the tasks of an array by numbers of their own; the one that failed counts all the same.
    sandbox.name += "x"
    assert "_1 ended as FAILED" in sandbox.play('test "$SLURM_ARRAY_TASK_ID" -ne 1', "#SBATCH --array=0-2").fails()
    assert sandbox.record()["verdict"] == "failed"


def test_an_id_that_is_used_again_is_not_taken_for_ours(sandbox: Sandbox):
    # Slurm keeps no more jobs in mind than there are ids, so there have to be some, whichever tests ran before.
    sandbox.configure("FirstJobId=1000", restart=True)
    newest = int(sandbox.as_user("sbatch --parsable --mem=1 --wrap true").split(";")[0])
    sandbox.configure(f"MaxJobId={newest + 2}", "FirstJobId=1", restart=True)
    for _number in range(3):
        sandbox.as_user("sbatch --parsable --mem=1 --wrap true")
    output = sandbox.play("sleep 8").succeeds()
    job_id = sandbox.record()["attempts"][0]["job_id"]
    assert int(job_id) < newest
    assert sandbox.record()["attempts"][0]["result"]["job"]["elapsed"] >= 7, output


# --- requeues; Slurm lets two minutes pass before a requeued job may start again ---


@pytest.mark.long
def test_a_requeue_is_followed_to_the_real_end(sandbox: Sandbox):
    play = sandbox.play('echo "run ${SLURM_RESTART_COUNT:-0}"; sleep 8', fault_options={"requeue": True})
    play.says("RUNNING")
    sandbox.command("scontrol", "requeue", sandbox.one_job())
    output = play.succeeds(300)
    job_id = sandbox.one_job()
    assert "(run 2, after a requeue)" in output
    assert sandbox.record()["attempts"][0]["result"]["job"]["restarts"] == 1
    log = (sandbox.run_folder() / "attempt-1" / f"slurm-{job_id}.out").read_text()
    assert log.startswith("run 0\n")
    assert "run 1" in log


@pytest.mark.long
@pytest.mark.parametrize(("mode", "verdict"), [("REQUEUE", "succeeded"), ("CANCEL", "failed")])
def test_preemption(sandbox: Sandbox, mode: str, verdict: str):
    text = CONF.read_text().replace("PartitionName=defq ", f"PartitionName=defq PriorityTier=1 PreemptMode={mode} ")
    CONF.write_text(text)
    sandbox.configure(
        "PreemptType=preempt/partition_prio",
        f"PreemptMode={mode}",
        "PartitionName=urgent Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP",
        restart=True,
    )
    play = sandbox.play(
        "sleep 15", fault_options={"nodelist": "gpu004", "exclusive": True, "requeue": True}, run_grace=20
    )
    play.says("RUNNING")
    sandbox.as_user("sbatch -p urgent -w gpu004 --exclusive --mem=1 --wrap 'sleep 5'")
    output = play.ends(400)
    assert (output == 0) == (verdict == "succeeded"), play.output
    sandbox.one_job()
    assert sandbox.record()["verdict"] == verdict
    if mode == "CANCEL":
        assert "PREEMPTED" in play.output
