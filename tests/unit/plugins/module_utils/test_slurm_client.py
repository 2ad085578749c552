# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding Slurm, and asking it: which commands are called, in which environment, and what their failures mean."""

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _slurm_client as client
from ansible_collections.dgxc.workloads.plugins.module_utils import _slurm_parse as parse
from ansible_collections.dgxc.workloads.plugins.module_utils._process import _MARK, TIMED_OUT, Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import ANSWERED, DISABLED, NO_ANSWER

OK = Finished(0, "", "")


class Recorder:
    """Answers commands by their first word and keeps what it was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    def __call__(self, arguments, environment, folder, limit):
        self.calls.append((list(arguments), dict(environment)))
        return self.answers.get(arguments[0], OK)

    def arguments(self, command):
        return [arguments for arguments, environment in self.calls if arguments[0] == command]


def slurm(recorder, environment=None):
    return client.Slurm(recorder, environment or {"PATH": "/usr/bin"}, 1001, lambda: 0.0)


def test_the_users_own_settings_of_slurm_do_not_leak_in():
    dirty = {
        "PATH": "/usr/bin", "SLURM_CONF": "/etc/s.conf", "SBATCH_PARTITION": "debug", "SBATCH_WAIT": "1",
        "SQUEUE_STATES": "RUNNING", "SACCT_FORMAT": "x", "SLURM_CPU_BIND": "y", "SLURM_JOB_ID": "7", "PMI_RANK": "0",
        "SLURM_CLUSTERS": "other", "LC_ALL": "de_DE.UTF-8", "HOME": "/home/u",
    }  # fmt: skip
    assert client.clean_environment(dirty) == {
        "PATH": "/usr/bin", "SLURM_CONF": "/etc/s.conf", "LC_ALL": "C.UTF-8", "HOME": "/home/u",
    }  # fmt: skip


def find(recorder, present=(), **settings):
    return client.find_environment(recorder, {"PATH": "/usr/bin"}, exists=lambda path: path in present, **settings)


def test_slurm_on_the_path_needs_no_login_shell():
    recorder = Recorder()
    assert find(recorder, ["/usr/bin/sbatch", "/etc/slurm/slurm.conf"])["PATH"] == "/usr/bin"
    assert recorder.calls == []


OTHER = _MARK + "\0PATH=/opt/slurm/bin:/usr/bin\0"
CONFIGURED = _MARK + "\0PATH=/usr/bin\0SLURM_CONF=/site/slurm.conf\0"


@pytest.mark.parametrize(
    ("present", "environment", "shell", "asked", "found"),
    [
        # A package that its administrator configured, in one of the places that packages have.
        (["/etc/slurm-llnl/slurm.conf"], {}, OTHER, False, "/usr/bin"),
        (["/run/slurm/conf/slurm.conf"], {}, OTHER, False, "/usr/bin"),
        ([], {"SLURM_CONF": "/site/slurm.conf"}, OTHER, False, "/usr/bin"),
        # One without configuration gives way to what a login shell finds, or takes its SLURM_CONF.
        ([], {}, OTHER, True, "/opt/slurm/bin:/usr/bin"),
        ([], {}, CONFIGURED, True, "/usr/bin"),
        # By DNS it may be configured all the same.
        ([], {}, _MARK + "\0PATH=/usr/bin\0", True, "/usr/bin"),
        ([], {}, "no mark: the login shell does not start", True, "/usr/bin"),
        ([], {}, _MARK + "\0PATH=/nothing\0", True, "/usr/bin"),
    ],
)
def test_a_packaged_slurm_without_configuration_gives_way(present, environment, shell, asked, found):
    recorder = login(shell)
    there = {"/usr/bin/sbatch", "/opt/slurm/bin/sbatch", *present}
    answer = client.find_environment(recorder, {"PATH": "/usr/bin", **environment}, exists=there.__contains__)
    assert answer["PATH"] == found
    assert bool(recorder.calls) is asked
    assert ("SLURM_CONF" in answer) is (shell is CONFIGURED or bool(environment))


def test_a_sites_own_build_is_believed():
    recorder = login(OTHER)
    there = {"/opt/slurm/bin/sbatch"}
    found = client.find_environment(recorder, {"PATH": "/opt/slurm/bin:/usr/bin"}, exists=there.__contains__)
    assert found["PATH"] == "/opt/slurm/bin:/usr/bin"
    assert recorder.calls == []


def test_slurm_bin_dir_goes_first():
    recorder = Recorder()
    assert find(recorder, ["/opt/s/sbatch"], slurm_bin_dir="/opt/s")["PATH"] == "/opt/s:/usr/bin"
    assert recorder.calls == []


def test_a_wrong_slurm_bin_dir_is_told():
    with pytest.raises(client.SlurmNotFound, match="slurm_bin_dir is '/opt/s', but there is no sbatch in it"):
        find(Recorder(), slurm_bin_dir="/opt/s")


def login(stdout):
    return Recorder(bash=Finished(0, stdout, "noise"))


def test_modules_are_loaded_by_a_login_shell_that_may_talk():
    noisy = "Welcome!\nPATH=/wrong\n" + _MARK + "\0PATH=/m/bin\0A=1\n2\0SQUEUE_USERS=x\0"
    recorder = login(noisy)
    found = find(recorder, ["/m/bin/sbatch"], environment_modules=["slurm", "python39"])
    assert found == {"PATH": "/m/bin", "A": "1\n2", "LC_ALL": "C.UTF-8"}
    command = recorder.arguments("bash")[0]
    assert command[1:3] == ["-l", "-c"]
    assert command[5:] == ["slurm", "python39"]


MODULES = [
    (Finished(3, "", "no module command"), "has no 'module' command"),
    (Finished(4, "", "Unable to locate a modulefile for 'slurm'"), "failed with: Unable to locate a modulefile"),
    (Finished(0, _MARK + "\0PATH=/usr/bin\0", ""), "sbatch was not found after loading the environment modules slurm"),
]


@pytest.mark.parametrize(("answer", "words"), MODULES)
def test_a_module_that_does_not_help_is_told(answer, words):
    with pytest.raises(client.SlurmNotFound, match=words):
        find(Recorder(bash=answer), environment_modules=["slurm"])


def test_no_slurm_anywhere_names_the_settings():
    with pytest.raises(client.SlurmNotFound, match="set dgxc_environment_modules to the modules"):
        find(login(_MARK + "\0PATH=/usr/bin\0"))


def test_a_module_name_is_not_a_command():
    recorder = login(_MARK + "\0PATH=/m/bin\0")
    find(recorder, ["/m/bin/sbatch"], environment_modules=["slurm; rm -rf /"])
    command = recorder.arguments("bash")[0]
    assert "rm -rf" not in command[3]
    assert command[5:] == ["slurm; rm -rf /"]


def test_sbatch_gets_long_options_and_flags():
    recorder = Recorder()
    slurm(recorder).submit("/s/job.sh", {"chdir": "/s", "exclusive": ""}, {"A": "b,c"})
    (arguments, environment) = recorder.calls[0]
    assert arguments == ["sbatch", "--parsable", "--chdir=/s", "--exclusive", "/s/job.sh"]
    assert environment["A"] == "b,c"
    assert not any("b,c" in argument for argument in arguments)


def test_a_look_is_one_squeue_and_one_sacct_whatever_the_number():
    recorder = Recorder()
    asked = slurm(recorder)
    asked.look([str(number) for number in range(1, 1001)])
    assert [arguments[0] for arguments, environment in recorder.calls] == ["squeue", "sacct"]
    assert asked.queries == 2
    assert recorder.calls[0][1]["SLURM_TIME_FORMAT"] == "%s"


def test_known_ids_are_asked_by_id_so_that_sacct_has_no_window():
    recorder = Recorder()
    slurm(recorder).look(["12", "9"])
    assert recorder.arguments("sacct")[0][-2:] == ["-j", "9,12"]
    assert recorder.arguments("squeue")[0][-2:] == ["-j", "9,12"]
    assert "all" in recorder.arguments("squeue")[0]


def test_unknown_ids_are_looked_for_from_their_time_on_without_a_date():
    recorder = Recorder()
    slurm(recorder).look([], since=1000.0, now=1060.0)
    assert recorder.arguments("sacct")[0][-4:] == ["-S", "now-360seconds", "-u", "1001"]
    assert recorder.arguments("squeue")[0][-2:] == ["-u", "1001"]


def test_the_recorded_cluster_goes_into_every_command():
    recorder = Recorder()
    asked = slurm(recorder)
    asked.look(["12"], cluster="rel")
    asked.cancel(["12"], cluster="rel")
    assert all("rel" in arguments for arguments, environment in recorder.calls)


def test_each_cluster_is_asked_and_all_have_to_answer():
    wanted = [client.Wanted("12", 0.0, "rel"), client.Wanted("7", 0.0), client.Wanted(None, 50.0)]
    recorder = Recorder()
    look = slurm(recorder).look_for(wanted, 60.0)
    assert (look.queue_answer, look.accounting_answer) == (ANSWERED, ANSWERED)
    queues = recorder.arguments("squeue")
    assert ["rel" in arguments for arguments in queues] == [False, True]
    assert [arguments[arguments.index("-j") + 1] for arguments in recorder.arguments("sacct") if "-j" in arguments] == [
        "7",
        "12",
    ]

    def half(arguments, environment, folder, limit):
        return Finished(1, "", "down") if "rel" in arguments and arguments[0] == "squeue" else OK

    look = client.Slurm(half, {}, 1, lambda: 0.0).look_for(wanted, 60.0)
    assert (look.queue_answer, look.accounting_answer) == (NO_ANSWER, ANSWERED)


ANSWERS = [
    ({"squeue": Finished(1, "", "slurm_load_jobs error: Invalid job id specified")}, ANSWERED, ANSWERED),
    ({"squeue": Finished(1, "", "Unable to contact slurm controller (connect failure)")}, NO_ANSWER, ANSWERED),
    ({"squeue": Finished(TIMED_OUT, "", "")}, NO_ANSWER, ANSWERED),
    ({"sacct": Finished(1, "", "sacct: error: x\nsacct: error: Problem talking to the database")},
     ANSWERED, NO_ANSWER),
    ({"sacct": Finished(1, "", "Slurm accounting storage is disabled")}, ANSWERED, DISABLED),
]  # fmt: skip


@pytest.mark.parametrize(("answers", "queue", "accounting"), ANSWERS)
def test_a_query_that_fails_says_nothing_about_the_job(answers, queue, accounting):
    look = slurm(Recorder(**answers)).look(["12"])
    assert (look.queue_answer, look.accounting_answer) == (queue, accounting)
    assert bool(look.errors) == (NO_ANSWER in (queue, accounting))


def test_one_failing_part_of_the_accounting_is_no_answer():
    results = [Finished(1, "", "Connection refused"), OK]

    def run(arguments, environment, folder, limit):
        return results.pop(0) if arguments[0] == "sacct" else OK

    look = client.Slurm(run, {}, 1, lambda: 0.0).look(["12"], since=1.0, now=2.0)
    assert look.accounting_answer == NO_ANSWER


def test_without_accounting_the_controller_is_asked():
    line = "JobId=12 JobState=COMPLETED ExitCode=0:0 SubmitTime=5 EndTime=9 NodeList=n1 WorkDir=/s/a\n"
    recorder = Recorder(
        sacct=Finished(1, "", "Slurm accounting storage is disabled"),
        scontrol=Finished(0, line, ""),
    )
    look = slurm(recorder).look(["12"])
    assert look.accounting_answer == DISABLED
    assert [(row.job_id, row.state, row.work_dir) for row in look.accounting] == [("12", "COMPLETED", "/s/a")]


def test_jobs_are_found_by_their_folder_only():
    look = client.Look(
        ANSWERED,
        ANSWERED,
        [parse.QueueRow("12_3", "RUNNING", 1, 1, [], "", "/s/a")],
        parse.parse_accounting(""),
    )
    assert look.jobs_in("/s/a") == ["12"]
    assert look.jobs_in("/s") == []
    assert look.jobs_in("") == []
