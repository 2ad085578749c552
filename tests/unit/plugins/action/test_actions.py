# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins: what they ask, what they print, and how they end."""

from __future__ import annotations

import io
import sys
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.dgxc.workloads.plugins.action import show_lines, slurm_job_wait
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _long_step


def job(verdict="succeeded", **more):
    values = {
        "name": "run", "run_dir": "/s/run", "job_id": "12", "state": "COMPLETED", "reason": "", "nodes": [], "message": "",
        "verdict": verdict, "failure_class": "", "advice": "", "in_queue": verdict == "active", "pending_kind": "",
        "pending_grace": 0.0, "queue_answer": "answered", "accounting_answer": "answered", "progress": None,
        "restarts": 0, "elapsed": 5, "logs": {}, "log_tail": [],
    }  # fmt: skip
    values.update(more)
    return values


def looked(*jobs):
    return {"jobs": list(jobs), "errors": [], "query_seconds": 0.0}


class Bench:
    """The action plugin with everything around it played."""

    def __init__(self, monkeypatch, plugin, arguments, answers=(), check_mode=False):
        self.said = []
        self.asked = []
        self.answers = list(answers)
        monkeypatch.setattr(plugin.display, "display", self.said.append)
        monkeypatch.setattr(slurm_job_wait.time, "sleep", lambda seconds: None)
        task = MagicMock(check_mode=check_mode, async_val=0, args=arguments, environment=[])
        self.connection = MagicMock()
        self.action = plugin.ActionModule(task, self.connection, MagicMock(), MagicMock(), MagicMock(), MagicMock())
        self.action._execute_module = self.execute

    def execute(self, module_name, module_args, task_vars):
        self.asked.append((module_name, module_args))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self):
        return self.action.run(task_vars={"inventory_hostname": "sandbox"})


def test_what_is_said_reaches_a_file_at_once(monkeypatch):
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8"))
    sys.stdout.write("TASK [Wait]\n")
    assert file.getvalue() == b""
    _long_step.show_each_line_at_once()
    sys.stdout.write("[sandbox] waiting for 1 job.\n")
    assert file.getvalue() == b"TASK [Wait]\n[sandbox] waiting for 1 job.\n"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    _long_step.show_each_line_at_once()


def wait(monkeypatch, *answers, check_mode=False, **arguments):
    return Bench(monkeypatch, slurm_job_wait, {"run_dirs": ["/s/run"], **arguments}, answers, check_mode)


def test_it_asks_the_info_module_until_all_is_decided(monkeypatch):
    bench = wait(monkeypatch, looked(job("active", state="RUNNING")), looked(job()), environment_modules=["slurm"])
    result = bench.run()
    assert result["jobs"][0]["verdict"] == "succeeded"
    assert "failed" not in result
    assert (result["changed"], result["looks"]) == (False, 2)
    name, arguments = bench.asked[0]
    assert name == "dgxc.workloads.slurm_job_info"
    assert arguments["run_dirs"] == ["/s/run"]
    assert arguments["environment_modules"] == ["slurm"]
    assert arguments["gone_for"] == {}


def test_a_failure_fails_with_the_reason(monkeypatch):
    bad = job("failed", state="FAILED", message="job 12 ended as FAILED, exit code 1.", log_tail=["boom"])
    result = wait(monkeypatch, looked(bad)).run()
    assert result["failed"] is True
    assert "exit code 1" in result["msg"]
    assert "boom" in result["msg"]


def test_many_failures_are_counted(monkeypatch):
    jobs = [job("failed", name=f"r{number}", run_dir=f"/s/{number}") for number in range(9)]
    result = wait(monkeypatch, looked(*jobs), run_dirs=[f"/s/{number}" for number in range(9)]).run()
    assert "... and 6 more jobs" in result["msg"]


@pytest.mark.parametrize("answer", [AnsibleConnectionFailure("gone"), {"unreachable": True, "msg": "gone"}])
def test_a_lost_connection_is_reset_and_survived(monkeypatch, answer):
    bench = wait(monkeypatch, answer, looked(job()))
    assert bench.run()["jobs"][0]["verdict"] == "succeeded"
    bench.connection.reset.assert_called_once()
    assert any("no contact: gone" in line for line in bench.said)


def test_a_login_node_that_stays_away_fails_with_the_way_back(monkeypatch):
    times = iter(range(0, 10**6, 1000))
    monkeypatch.setattr(slurm_job_wait.time, "monotonic", lambda: float(next(times)))
    bench = wait(monkeypatch, *[AnsibleConnectionFailure("gone")] * 50, unreachable_timeout=5000)
    result = bench.run()
    assert result["failed"] is True
    assert "run the same command again" in result["msg"]


def test_a_mistake_in_the_set_up_is_an_error_at_once(monkeypatch):
    bench = wait(monkeypatch, {"failed": True, "msg": "sbatch was not found"})
    with pytest.raises(AnsibleError, match="sbatch was not found"):
        bench.run()


def test_nothing_to_wait_for_asks_nothing(monkeypatch):
    bench = wait(monkeypatch, run_dirs=[])
    assert bench.run()["jobs"] == []
    assert bench.asked == []


def test_check_mode_waits_for_nothing(monkeypatch):
    bench = wait(monkeypatch, check_mode=True)
    assert bench.run()["changed"] is False
    assert bench.asked == []


def test_a_stuck_job_is_cancelled_only_on_request(monkeypatch):
    held = job("active", state="PENDING", reason="JobHeldUser", pending_kind="stuck")
    bench = wait(monkeypatch, looked(held))
    assert bench.run()["changed"] is False
    cancelled = {"changed": True, "jobs": [{"name": "run", "message": "job 12 was cancelled"}]}
    bench = wait(monkeypatch, looked(held), cancelled, on_stuck="cancel")
    result = bench.run()
    assert result["changed"] is True
    assert bench.asked[1] == (
        "dgxc.workloads.slurm_job",
        {**{key: bench.asked[1][1][key] for key in slurm_job_wait._FOR_INFO}, "state": "cancelled",
         "jobs": [{"run_dir": "/s/run"}]},
    )  # fmt: skip


def test_a_bare_id_is_never_cancelled(monkeypatch):
    bench = Bench(monkeypatch, slurm_job_wait, {"job_ids": ["12"], "on_timeout": "cancel"})
    with pytest.raises(AnsibleError, match="only be cancel with run_dirs"):
        bench.run()


def test_lines_are_printed_as_they_are(monkeypatch):
    bench = Bench(monkeypatch, show_lines, {"lines": ["a  b", "{{ c }}"]})
    result = bench.run()
    assert bench.said == ["\na  b\n{{ c }}\n"]
    assert (result["changed"], result["lines"]) == (False, ["a  b", "{{ c }}"])
