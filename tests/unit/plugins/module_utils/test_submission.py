# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The submission protocol: at most one job per run, whatever fails, is killed or happens at the same time."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.dgxc.workloads.plugins.module_utils import _files as files
from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils import _submission as submission
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import Limits

from .fake_slurm import Killed, World

KEY = "0" * 64
SECRET = "hunter2-very-secret"


def request_for(folder, **more):
    values = {
        "name": "run",
        "run_dir": str(folder),
        "key": KEY,
        "script": "job.sh",
        "files": {"job.sh": "#!/bin/bash\ncd @ATTEMPT_DIR@\n"},
        "spec": {"schema": 1, "key": KEY, "name": "run"},
    }
    values.update(more)
    return submission.Request(**values)


def submitter(world, lives=False, **timing):
    return submission.Submitter(
        world,
        record.this_process(),
        world.clock,
        world.sleep,
        submission.Timing(**timing),
        Limits(),
        owner_lives=lambda owner: lives,
        parallel=1,
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs" / "w" / "run-000000000000"


def submit(world, folder, **more):
    return submitter(world).submit([request_for(folder, **more)])[0]


def test_a_new_run_is_submitted_once_and_then_adopted(folder):
    world = World()
    first = submit(world, folder)
    assert (first.action, first.job_id, first.changed) == ("submitted", "1", True)
    assert (folder / "attempt-1" / "job.sh").read_text() == "#!/bin/bash\ncd {}\n".format(folder / "attempt-1")
    second = submit(world, folder)
    assert (second.action, second.job_id, second.changed) == ("adopted", "1", False)
    world.finish()
    third = submit(world, folder)
    assert (third.action, third.verdict, third.changed) == ("unchanged", "succeeded", False)
    assert world.calls == 1


def test_the_intent_is_on_record_before_sbatch_is_called(folder):
    world = World(sbatch_faults=["killed before"])
    with pytest.raises(Killed):
        submit(world, folder)
    told = json.loads((folder / "record.json").read_text())
    assert told["attempts"][0]["folder"] == str(folder / "attempt-1")
    assert told["attempts"][0]["intent_time"] == 10_000.0
    assert told["attempts"][0]["job_id"] is None


def test_a_job_whose_answer_was_lost_is_adopted(folder):
    world = World(sbatch_faults=["answer lost"], delay=40.0)
    report = submit(world, folder)
    assert (report.action, report.job_id, report.changed) == ("adopted", "1", True)
    assert len(world.jobs) == 1


def test_a_banner_without_an_id_is_not_believed(folder):
    world = World(sbatch_faults=["banner only"])
    assert submit(world, folder).job_id == "1"
    assert len(world.jobs) == 1


def test_a_submission_that_never_arrived_is_repeated_once_after_the_window(folder):
    world = World(sbatch_faults=["not sent"])
    report = submit(world, folder)
    assert (report.action, report.attempt, world.calls) == ("submitted", 2, 2)
    assert world.now >= 10_000 + 60


def test_two_submissions_that_never_arrived_end_as_unknown(folder):
    world = World(sbatch_faults=["not sent", "not sent", "ok"])
    report = submit(world, folder)
    assert (report.action, world.calls) == ("unknown", 2)
    assert "submission outcome unknown" in report.message


def test_nothing_is_submitted_while_slurm_does_not_answer(folder):
    world = World(sbatch_faults=["killed after"])
    with pytest.raises(Killed):
        submit(world, folder)
    world.look_faults = ["both down"] * 1000
    report = submit(world, folder)
    assert (report.action, world.calls) == ("unknown", 1)
    assert "Nothing was submitted" in report.message
    world.look_faults = []
    assert submit(world, folder).job_id == "1"


@pytest.mark.parametrize("fault", ["queue down", "accounting down"])
def test_half_an_answer_does_not_prove_absence(folder, fault):
    world = World(sbatch_faults=["killed before"])
    with pytest.raises(Killed):
        submit(world, folder)
    world.look_faults = [fault] * 1000
    assert submit(world, folder).action == "unknown"
    assert world.calls == 1


def test_a_transient_refusal_is_repeated_in_the_same_attempt(folder):
    world = World(sbatch_faults=["no controller", "no controller"])
    report = submit(world, folder)
    assert (report.action, report.attempt, world.calls) == ("submitted", 1, 3)


def test_a_transient_refusal_ends(folder):
    world = World(sbatch_faults=["no controller"] * 100)
    report = submit(world, folder)
    assert report.action == "refused"
    assert world.calls < 20


def test_a_permanent_refusal_is_not_repeated_and_can_be_corrected(folder):
    world = World(sbatch_faults=["refused"])
    report = submit(world, folder)
    assert (report.action, report.failure_class, world.calls) == ("refused", "refused", 1)
    assert "Invalid partition name specified" in report.message
    assert "dgxc_slurm_partition" in report.message
    again = submit(world, folder)
    assert (again.action, again.attempt) == ("submitted", 2)


def test_an_answer_that_no_table_knows_is_looked_up_and_not_repeated(folder):
    world = World(sbatch_faults=["strange"])
    report = submit(world, folder)
    assert (report.action, world.calls) == ("refused", 1)
    assert "flux compensator" in report.message


def test_a_living_submitter_is_waited_for(folder):
    """Two controllers at the same moment: the second sees the first one's attempt and adopts its job."""
    world = World(sbatch_faults=["killed before"])
    with pytest.raises(Killed):
        submit(world, folder)
    second = submitter(world, lives=True)
    polls = []

    def sleep(seconds):
        world.now += seconds
        polls.append(seconds)
        if len(polls) == 5:
            attempt = record.load_run(str(folder)).newest
            record.store_job(attempt, {"job_id": world.create(attempt.folder).job_id})

    second._sleep = sleep
    report = second.submit([request_for(folder)])[0]
    assert (report.action, report.job_id, world.calls) == ("adopted", "1", 1)


def test_a_submitter_on_another_login_node_is_waited_for_by_its_age(folder):
    """Its process cannot be asked about; after the time that a submission may take, it counts as gone."""
    world = World(sbatch_faults=["killed before"])
    with pytest.raises(Killed):
        submit(world, folder)
    report = submitter(world, lives=None, submitter=400.0).submit([request_for(folder)])[0]
    assert (report.action, report.attempt) == ("submitted", 2)
    assert world.now >= 10_000 + 400 + 60


def test_a_submitter_is_known_by_more_than_its_number():
    owner = record.this_process().as_json()
    assert record.owner_lives(owner) is True
    assert record.owner_lives({**owner, "started": "1"}) is False
    assert record.owner_lives({**owner, "boot_id": "another"}) is False
    assert record.owner_lives({**owner, "host": "another"}) is None
    assert record.owner_lives({**owner, "pid": 2**22 + 1}) is False


@pytest.mark.parametrize(
    ("nodes", "unusable", "left_out"),
    [(["n1"], [], ["n1"]), (["n1", "n2"], ["n2"], ["n2"]), (["n1", "n2"], [], [])],
)
def test_a_node_that_failed_is_left_out_of_the_next_attempts(folder, nodes, unusable, left_out):
    world = World(unusable=unusable, nodes=nodes)
    submit(world, folder)
    world.finish("NODE_FAIL")
    world.now += 200
    report = submit(world, folder, resubmit="on_failure", options={"exclude": "n9"})
    assert report.action == "submitted"
    assert world.options["exclude"] == ",".join(["n9", *left_out])
    assert record.load_run(str(folder)).spec["excluded"] == left_out
    world.nodes = ["n7"]
    world.finish("NODE_FAIL")
    world.now += 200
    submit(world, folder, resubmit="on_failure")
    assert world.options["exclude"] == ",".join(sorted([*left_out, "n7"]))


def test_an_attempt_folder_has_one_maker(folder):
    owner = record.this_process()
    runs = [record.load_run(str(folder)), record.load_run(str(folder))]
    made = [record.begin_attempt(run, 1, {"key": KEY}, {"job.sh": "#!/bin/sh\n"}, [], owner, 1.0) for run in runs]
    assert made[0] is not None
    assert made[1] is None
    assert os.listdir(folder) == ["attempt-1"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1, "job_id": ""}', '{"job_id": 7}', "\x00\x00"])
@pytest.mark.parametrize("name", ["job.json", "../record.json", "intent.json"])
def test_damaged_files_never_lead_to_a_second_job(folder, damage, name):
    world = World()
    submit(world, folder)
    (folder / "attempt-1" / name).write_text(damage)
    report = submit(world, folder)
    assert (report.action, report.job_id) == ("adopted", "1")
    assert world.calls == 1


def test_a_foreign_record_is_refused(folder):
    world = World()
    submit(world, folder)
    with pytest.raises(record.RecordError, match="holds a run with key 000000000000"):
        submit(world, folder, key="f" * 64)


def test_a_failed_run_is_left_alone_unless_told(folder):
    world = World()
    submit(world, folder)
    world.finish("FAILED")
    assert submit(world, folder).action == "unchanged"
    again = submit(world, folder, resubmit="on_failure")
    assert (again.action, again.attempt) == ("submitted", 2)
    world.finish("FAILED")
    assert submit(world, folder, resubmit="on_failure", max_attempts=2).message.endswith("(max_attempts).")
    assert world.calls == 2


def test_a_preempted_job_is_not_submitted_beside_its_requeue(folder):
    world = World()
    submit(world, folder)
    world.jobs[0].state, world.jobs[0].ended = "PREEMPTED", world.now
    report = submit(world, folder, resubmit="on_failure")
    assert (report.action, report.verdict, world.calls) == ("adopted", "active", 1)
    world.now += 200
    assert submit(world, folder, resubmit="on_failure").action == "submitted"


def test_many_runs_are_one_look(tmp_path):
    world = World()
    requests = [request_for(tmp_path / "runs" / "w" / f"r{number}", name=f"r{number}") for number in range(50)]
    assert {report.action for report in submitter(world).submit(requests)} == {"submitted"}
    before = world.queries
    assert {report.action for report in submitter(world).submit(requests)} == {"adopted"}
    assert world.queries == before + 2


def test_runs_one_after_the_other_wait_for_the_job_before(tmp_path):
    world = World()
    names = ["c", "a", "b"]
    before = {"a": "", "b": "a", "c": "b"}
    requests = [request_for(tmp_path / name, name=name, after=before[name]) for name in names]
    reports = submitter(world).submit(requests)
    ids = dict(zip(names, (report.job_id for report in reports), strict=True))
    assert world.dependencies == {ids["a"]: None, ids["b"]: f"afterany:{ids['a']}", ids["c"]: f"afterany:{ids['b']}"}
    # The same again changes nothing; an ended predecessor is not waited for, but the one before it is.
    assert {report.action for report in submitter(world).submit(requests)} == {"adopted"}
    later = [request_for(tmp_path / "d", name="d", after="c", options={"dependency": "singleton"}), *requests]
    world.finish("FAILED", only=ids["c"])
    report = submitter(world).submit(later)[0]
    assert world.dependencies[report.job_id] == f"singleton,afterany:{ids['b']}"


def test_runs_that_come_after_each_other_in_a_circle_are_submitted(tmp_path):
    world = World()
    requests = [request_for(tmp_path / name, name=name, after=other) for name, other in ("ab", "ba")]
    assert [report.action for report in submitter(world).submit(requests)] == ["submitted", "submitted"]


def test_check_mode_writes_nothing(folder):
    world = World()
    report = submitter(world).submit([request_for(folder)], check_mode=True)[0]
    assert (report.action, report.attempt) == ("planned", 1)
    assert (report.attempt_dir, report.rehearsed) == (str(folder / "attempt-1"), True)
    assert not folder.exists()
    assert world.calls == 0


def test_cancelling_ends_what_lives_and_nothing_else(folder):
    world = World()
    submit(world, folder)
    planned = submitter(world).cancel([request_for(folder)], check_mode=True)[0]
    assert (planned.action, len(world.living)) == ("planned", 1)
    report = submitter(world).cancel([request_for(folder)])[0]
    assert (report.action, report.changed, len(world.living)) == ("cancelled", True, 0)
    again = submitter(world).cancel([request_for(folder)])[0]
    assert (again.action, again.changed) == ("unchanged", False)


def test_the_environment_of_a_job_is_written_nowhere(folder):
    submit(World(), folder, environment={"HF_TOKEN": SECRET})
    for path in pathlib.Path(folder).rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text()


BAD = [
    ({"run_dir": "relative"}, "absolute path"),
    ({"run_dir": "/a b"}, "absolute path"),
    ({"run_dir": "/a:b"}, "absolute path"),
    ({"name": "a b"}, "name must be"),
    ({"name": "x" * 65}, "name must be"),
    ({"options": {"--qos": "x"}}, "without dashes"),
    ({"options": {"chdir": "/x"}}, "sets itself"),
    ({"options": {"qos": "a\nb"}}, "line break"),
    ({"files": {"../x": ""}, "script": "../x"}, "`..`"),
    ({"files": {"/x": ""}, "script": "/x"}, "relative path"),
    ({"files": {"job.json": "#!"}, "script": "job.json"}, "keeps for itself"),
    ({"script": "other.sh"}, "not one of the files"),
    ({"files": {"job.sh": "\n#!/bin/sh"}}, "must start with"),
    ({"files": {"job.sh": "#!/bin/sh\r\n"}}, "DOS line breaks"),
    ({"environment": {"A B": "x"}}, "not a variable's name"),
    ({"max_attempts": 0}, "at least 1"),
    ({"resubmit": "maybe"}, "never, on_failure or always"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_a_bad_request_is_told_in_a_sentence(change, words):
    problems = submission.problems_of(request_for("/s/runs/w/run", **change))
    assert any(words in problem for problem in problems), problems


def test_a_good_request_has_no_problems():
    assert submission.problems_of(request_for("/s/runs/w/run", options={"qos": "high", "exclusive": ""})) == []


def test_options_become_text():
    given_options = {
        "qos": "high",
        "exclusive": True,
        "hold": False,
        "account": None,
        "exclude": ["a", "b"],
        "nodes": 2,
    }
    assert submission.option_texts(given_options) == {"qos": "high", "exclusive": "", "exclude": "a,b", "nodes": "2"}


# --- whatever happens ---

sbatch_faults = st.lists(
    st.sampled_from(
        ["ok", "answer lost", "killed before", "killed after", "not sent", "no controller", "banner only", "refused"]
    ),
    max_size=4,
)
look_faults = st.lists(st.sampled_from(["ok", "queue down", "accounting down", "both down"]), max_size=8)


class CrashingDisk:
    """Lets the process die at the n-th change on disk, before or after it happens."""

    def __init__(self, monkeypatch):
        self.left = None
        self.after = False
        for module, name in ((os, "replace"), (os, "rename")):
            monkeypatch.setattr(module, name, self.wrap(getattr(module, name)))

    def wrap(self, real):
        def change(*arguments):
            if self.left is not None:
                self.left -= 1
                if self.left < 0 and not self.after:
                    self.left = None
                    raise Killed
            done = real(*arguments)
            if self.left is not None and self.left < 0:
                self.left = None
                raise Killed
            return done

        return change


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sbatch_faults,
    look_faults,
    st.sampled_from([0.0, 5.0, 50.0]),
    st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=3),
)
def test_there_is_never_a_second_job(monkeypatch, answers, looks, delay, crashes):
    """Any order of answers and crashes: one job at the most, and in the end one that is known."""
    with monkeypatch.context() as patch, tempfile.TemporaryDirectory() as root:
        disk = CrashingDisk(patch)
        world = World(sbatch_faults=list(answers), look_faults=list(looks), delay=delay)
        folder = os.path.join(os.path.realpath(root), "runs", "w", "run")
        report = None
        for turn in range(20):
            disk.left, disk.after = crashes[turn] if turn < len(crashes) else (None, False)
            try:
                report = submit(world, folder)
            except Killed:
                world.now += 1
                continue
            finally:
                assert len(world.jobs) <= 1
            if report.action in ("submitted", "adopted"):
                break
        assert report is not None
        assert report.job_id == "1"
        world.finish()
        world.now += delay
        world.look_faults = []
        disk.left = None
        calls = world.calls
        last = submit(world, folder)
        assert (last.action, last.verdict, last.changed) == ("unchanged", "succeeded", False)
        assert world.calls == calls


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    files.write_text(str(path), "old")

    def killed(*arguments):
        raise Killed

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(Killed):
        files.write_text(str(path), "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.json"]
