# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what Slurm's commands print. The samples were captured on Slurm 22.05 unless a comment says otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils import _slurm_parse as parse

SEPARATOR = parse.FIELD_SEPARATOR

SUBMITTED = [
    ("20\n", ("20", None)),
    ("4;rel\n", ("4", "rel")),
    ("Submitted batch job 5\n", ("5", None)),
    ("Submitted batch job 5 on cluster rel\n", ("5", "rel")),
    ("NOTICE 777 from cli_filter on stdout\nJob 20 accepted; cost 42\n20\n", ("20", None)),
    ("Welcome to the 3rd supercomputer\nSubmitted batch job 1234\n", ("1234", None)),
    ("77\nremaining budget: 12 hours\n", ("77", None)),
    ("Welcome to the Stampede3 Supercomputer\n", None),
    ("job 12 is fine\n", None),
    ("0\n", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), SUBMITTED)
def test_the_job_id_is_a_line_of_its_own(text, expected):
    answer = parse.parse_submit_output(text)
    assert (None if answer is None else (answer.job_id, answer.cluster)) == expected


NODES = [
    ("gpu[001-004]", ["gpu001", "gpu002", "gpu003", "gpu004"]),
    ("gpu[01-03,07],login", ["gpu01", "gpu02", "gpu03", "gpu07", "login"]),
    ("n[9-11]", ["n9", "n10", "n11"]),
    ("n[08-10]", ["n08", "n09", "n10"]),
    ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ("gpu001", ["gpu001"]),
    ("None assigned", []),
    ("(null)", []),
    ("", []),
    ("gpu[001-", []),
    ("gpu[a-b]", []),
]


@pytest.mark.parametrize(("text", "names"), NODES)
def test_a_node_list_is_expanded_or_not_believed(text, names):
    assert parse.expand_nodes(text) == names


def queue_line(*fields):
    return SEPARATOR.join(fields) + "\n"


def test_a_queue_row_is_read():
    text = queue_line("12", "RUNNING", "1796105783", "1796105784", "gpu[001-002]", "None", "/s/runs/a/attempt-1")
    (row,) = parse.parse_queue(text)
    assert row == parse.QueueRow(
        "12", "RUNNING", 1796105783, 1796105784, ["gpu001", "gpu002"], "None", "/s/runs/a/attempt-1"
    )


def test_a_reason_with_commas_and_a_heading_of_a_cluster_do_not_disturb():
    reason = "ReqNodeNotAvail, UnavailableNodes:gpu[1-4]"
    text = "CLUSTER: rel\n" + queue_line("12", "PENDING", "1", "N/A", "", reason, "/a b|c")
    (row,) = parse.parse_queue(text)
    assert (row.reason, row.work_dir, row.start_time) == (reason, "/a b|c", None)


def accounting_line(job_id, state, submit="100", work_dir="/s/a", exit_code="0:0", **more):
    values = {
        "JobID": job_id, "State": state, "ExitCode": exit_code, "DerivedExitCode": "0:0", "Submit": submit,
        "Start": "101", "End": "Unknown", "ElapsedRaw": "5", "NNodes": "2", "NTasks": "", "NodeList": "gpu[001-002]",
        "WorkDir": work_dir, "JobName": "train",
    }  # fmt: skip
    values.update(more)
    return SEPARATOR.join(values[name] for name in parse.ACCOUNTING_FIELDS) + "\n"


def test_steps_go_with_their_job():
    text = (
        accounting_line("9", "RUNNING")
        + accounting_line("9.batch", "RUNNING", NTasks="1", JobName="batch")
        + accounting_line("9.0", "FAILED", exit_code="1:0", NTasks="16", JobName="python|3")
    )
    (row,) = parse.parse_accounting(text)
    assert row.state == "RUNNING"
    assert [(step.id, step.state, step.tasks, step.name) for step in row.steps] == [
        ("batch", "RUNNING", 1, "batch"),
        ("0", "FAILED", 16, "python|3"),
    ]


def test_a_requeued_job_is_its_newest_run_and_counts_the_earlier_ones():
    text = (
        accounting_line("2", "REQUEUED", submit="100", End="104")
        + accounting_line("2.batch", "CANCELLED", exit_code="0:15")
        + accounting_line("2", "COMPLETED", submit="105", End="300")
        + accounting_line("2.1", "FAILED", exit_code="1:0")
    )
    (row,) = parse.parse_accounting(text)
    assert (row.state, row.submit_time, row.restarts, row.end_time) == ("COMPLETED", 105, 1, 300)
    assert [step.id for step in row.steps] == ["1"]


def test_an_earlier_job_with_the_same_id_is_no_restart():
    text = (
        accounting_line("2", "COMPLETED", submit="50", work_dir="/s/other", End="60")
        + accounting_line("2", "REQUEUED", submit="100", End="104")
        + accounting_line("2", "COMPLETED", submit="105", End="300")
    )
    (row,) = parse.parse_accounting(text)
    assert (row.submit_time, row.restarts) == (105, 1)


def test_the_canceller_is_told_apart_from_the_state():
    (row,) = parse.parse_accounting(accounting_line("3", "CANCELLED by 0"))
    assert (row.state, row.cancelled_by) == ("CANCELLED", 0)
    (row,) = parse.parse_accounting(accounting_line("3", "CANCELLED"))
    assert (row.state, row.cancelled_by) == ("CANCELLED", None)


def test_array_tasks_and_components_are_rows_of_their_own():
    text = (
        accounting_line("28_0", "COMPLETED")
        + accounting_line("28_[2-9%2]", "PENDING")
        + accounting_line("33+1", "FAILED")
    )
    rows = parse.parse_accounting(text)
    assert [(row.job_id, parse.base_job_id(row.job_id)) for row in rows] == [
        ("28_0", "28"),
        ("28_[2-9%2]", "28"),
        ("33+1", "33"),
    ]


# One line of `scontrol -o show job` of Slurm 22.05, shortened.
CONTROLLER = (
    "JobId=7 JobName=hello UserId=demo(1001) GroupId=demo(1001) Priority=1 JobState=COMPLETED Reason=None "
    "Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0 SubmitTime=1796105783 StartTime=1796105784 "
    "EndTime=1796105785 NodeList=gpu[001-002] NumNodes=2 Command=/s/a/job.sh WorkDir=/s/a b/attempt-1 StdErr=/s/e StdOut=/s/o\n"
)


def test_a_job_of_the_controller_is_read():
    (row,) = parse.parse_controller_jobs(CONTROLLER)
    assert (row.job_id, row.state, row.exit_code, row.signal) == ("7", "COMPLETED", 0, 0)
    assert (row.work_dir, row.restarts, row.end_time) == ("/s/a b/attempt-1", 2, 1796105785)


@pytest.mark.parametrize(
    ("fields", "job_id"),
    [
        ("JobId=13 ArrayJobId=12 ArrayTaskId=0 JobName=x", "12_0"),
        ("JobId=12 ArrayJobId=12 ArrayTaskId=2-9%2 ArrayTaskThrottle=2 JobName=x", "12_[2-9%2]"),
        ("JobId=34 HetJobId=33 HetJobOffset=1 JobName=x", "33+1"),
        ("JobId=35 JobName=x", "35"),
    ],
)
def test_the_controller_names_parts_as_the_accounting_does(fields, job_id):
    (row,) = parse.parse_controller_jobs(fields + " JobState=COMPLETED ExitCode=0:0 WorkDir=/s\n")
    assert row.job_id == job_id


def test_a_controller_without_jobs_gives_none():
    assert parse.parse_controller_jobs("No jobs in the system\n") == []


# What the same commands print on Slurm 24.11, shortened.
CONTROLLER_24_11 = (
    "JobId=4 JobName=f20d74dc3 UserId=demo-user(1000) GroupId=demo-user(1000) MCS_label=N/A JobState=COMPLETED Reason=None "
    "Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:02 SubmitTime=1796111817 "
    "StartTime=1796111822 EndTime=1796111824 ReqNodeList=(null) ExcNodeList=(null) NodeList=gpu001 BatchHost=gpu001 "
    "NumNodes=1 NumCPUs=1 Command=/s/a/job.sh WorkDir=/s/a/attempt-1 Comment=dgxc f20d74dc3 94330a49951d  "
    "StdErr=/s/a/attempt-1/slurm-4.out StdIn=/dev/null StdOut=/s/a/attempt-1/slurm-4.out \n"
)
ACCOUNTING_24_11 = """\
4|COMPLETED|0:0|0:0|1796111817|1796111822|1796111824|2|1||gpu001|/s/a/attempt-1|f20d74dc3
4.batch|COMPLETED|0:0||1796111822|1796111822|1796111824|2|1|1|gpu001||batch
11|RUNNING|0:0|0:0|1796111978|1796111983|Unknown|8|1||gpu003|/tmp|wrap
11.batch|RUNNING|0:0||1796111983|1796111983|Unknown|8|1|1|gpu003||batch
11.0|RUNNING|0:0||1796111983|1796111983|Unknown|8|1|1|gpu003||sleep
"""


def test_slurm_24_11_is_read_as_22_05():
    (told,) = parse.parse_controller_jobs(CONTROLLER_24_11)
    assert (told.job_id, told.state, told.nodes, told.end_time) == ("4", "COMPLETED", ["gpu001"], 1796111824)
    assert told.work_dir == "/s/a/attempt-1"
    finished, running = parse.parse_accounting(ACCOUNTING_24_11.replace("|", SEPARATOR))
    assert (finished.state, finished.work_dir, finished.elapsed) == ("COMPLETED", "/s/a/attempt-1", 2)
    assert (running.state, running.end_time) == ("RUNNING", None)
    assert [(step.id, step.name, step.tasks) for step in running.steps] == [("batch", "batch", 1), ("0", "sleep", 1)]


@given(st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from([SEPARATOR, "\n", ".", "_", "["]), max_size=400))
def test_no_text_breaks_the_readers(text):
    parse.parse_queue(text)
    parse.parse_accounting(text)
    parse.parse_controller_jobs(text)
    parse.parse_submit_output(text)
    parse.expand_nodes(text)
