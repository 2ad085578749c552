# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps that take minutes: the module's answer is the result, and what is said meanwhile comes from its line."""

from __future__ import annotations

import threading
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.dgxc.workloads.plugins.action import (
    dataset_download,
    git_pin,
    heartbeat,
    nemo_launcher_render,
    registry_image,
    run_result,
    slurm_job,
    squashfs_image,
    virtual_environment,
)
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _job_wait, _long_step

PLUGINS = [dataset_download, git_pin, registry_image, squashfs_image, virtual_environment]


WITHOUT_LINE = [nemo_launcher_render, run_result, slurm_job]


class Bench:
    """A long step whose module ends when so many lines were said."""

    def __init__(self, monkeypatch, plugin=git_pin, lines=2, look=None, **task):
        self.said, self.asked, self.enough = [], [], threading.Event()
        self.lines, self.look = lines, look
        monkeypatch.setattr(_job_wait, "FIRST_HEARTBEAT", 0.01)
        monkeypatch.setattr(_long_step.display, "display", self.say)
        values = {"check_mode": False, "async_val": 0, "no_log": False, "delegate_to": None, "environment": [], **task}
        self.action = plugin.ActionModule(
            MagicMock(**{"args": {"a": 1}, **values}), MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock()
        )
        self.action._execute_module = self.execute

        def read(step, command, sudoable):
            return self.read(step, command, sudoable)

        monkeypatch.setattr(_long_step.LongStep, "_low_level_execute_command", read)

    def say(self, line):
        self.said.append(line)
        if len(self.said) >= self.lines:
            self.enough.set()

    def read(self, step, command, sudoable):
        assert step is not self.action
        assert step._connection is not self.action._connection
        assert sudoable
        self.asked.append(command)
        if isinstance(self.look, Exception):
            raise self.look
        return self.look or {"rc": 0, "stdout": "clone: 45%\n"}

    def execute(self, module_name, module_args, task_vars, wrap_async):
        self.module, self.arguments, self.wrapped = module_name, module_args, wrap_async
        assert self.lines == 0 or self.enough.wait(20)
        return {"changed": True}

    def run(self):
        return self.action.run(task_vars={"inventory_hostname": "sandbox"})


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_line_of_the_module_is_said_with_the_host_and_the_time(monkeypatch, plugin):
    bench = Bench(monkeypatch, plugin)
    assert bench.run() == {"changed": True}
    assert bench.said[:2] == ["[sandbox] clone: 45%, for 0 s"] * 2
    assert bench.arguments["a"] == 1
    assert bench.asked[0] == "cat " + bench.arguments["progress_path"]


@pytest.mark.parametrize("plugin", WITHOUT_LINE)
def test_a_module_without_a_line_is_at_work(monkeypatch, plugin):
    bench = Bench(monkeypatch, plugin)
    assert bench.run() == {"changed": True}
    assert bench.said[:2] == ["[sandbox] at work, for 0 s"] * 2
    assert (bench.arguments, bench.asked) == ({"a": 1}, [])


def test_a_module_of_somebody_else_gets_its_own_arguments(monkeypatch):
    task = {"module": "community.docker.docker_image", "arguments": {"name": "a:1"}, "subject": "Docker builds a:1"}
    bench = Bench(monkeypatch, heartbeat, args=task)
    assert bench.run() == {"changed": True, "ran": "community.docker.docker_image"}
    assert (bench.module, bench.arguments) == ("community.docker.docker_image", {"name": "a:1"})
    assert bench.said[0] == "[sandbox] Docker builds a:1, for 0 s"


def test_a_delegated_step_names_the_host_that_works(monkeypatch):
    bench = Bench(monkeypatch, delegate_to="builder")
    bench.run()
    assert bench.said[0].startswith("[builder] ")


@pytest.mark.parametrize("look", [{"rc": 1, "stdout": ""}, AnsibleConnectionFailure("gone"), OSError("no")])
def test_a_line_that_cannot_be_read_is_nobodys_loss(monkeypatch, look):
    bench = Bench(monkeypatch, look=look)
    assert bench.run() == {"changed": True}
    assert bench.said[0] == "[sandbox] at work, for 0 s"


@pytest.mark.parametrize("task", [{"async_val": 60}, {"no_log": True}])
def test_in_the_background_and_in_secret_nothing_is_said(monkeypatch, task):
    bench = Bench(monkeypatch, lines=0, **task)
    bench.run()
    assert bench.arguments == {"a": 1}
    assert bench.wrapped is ("async_val" in task)
    assert (bench.said, bench.asked) == ([], [])


def test_a_quick_step_is_silent_and_costs_no_second_call(monkeypatch):
    bench = Bench(monkeypatch, lines=0)
    monkeypatch.setattr(_job_wait, "FIRST_HEARTBEAT", 60.0)
    bench.run()
    assert (bench.said, bench.asked) == ([], [])


def test_signs_of_life_become_rarer():
    assert [_job_wait.next_heartbeat(passed, 60.0) for passed in (0.0, 30.0, 60.0, 600.0)] == [10.0, 15.0, 30.0, 60.0]
