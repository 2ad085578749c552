# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wait for Slurm jobs from the controller; see the documentation beside the module of the same name."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import limits_spec, slurm_spec
from ansible_collections.dgxc.workloads.plugins.plugin_utils._job_wait import (
    SUCCEEDED,
    Ending,
    LookFailed,
    Patience,
    Wait,
    failure_text,
)
from ansible_collections.dgxc.workloads.plugins.plugin_utils._long_step import show_each_line_at_once

display = Display()

ARGUMENT_SPEC: dict[str, Any] = {
    **slurm_spec(),
    **limits_spec(),
    "run_dirs": {"type": "list", "elements": "path"},
    "job_ids": {"type": "list", "elements": "str"},
    "poll_interval_max": {"type": "float", "default": 30.0},
    "pending_timeout": {"type": "float", "default": 0.0},
    "run_timeout": {"type": "float", "default": 0.0},
    "unavailable_timeout": {"type": "float", "default": 3600.0},
    "unreachable_timeout": {"type": "float", "default": 3600.0},
    "heartbeat": {"type": "float", "default": 60.0},
    "on_timeout": {"type": "str", "choices": ["leave", "cancel"], "default": "leave"},
    "on_stuck": {"type": "str", "choices": ["leave", "cancel"], "default": "leave"},
}

_FOR_INFO = [*slurm_spec(), *limits_spec()]


show_each_line_at_once()


class ActionModule(ActionBase):
    """`dgxc.workloads.slurm_job_wait`."""

    TRANSFERS_FILES = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask `slurm_job_info` again and again until every job is decided."""
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec=ARGUMENT_SPEC,
            mutually_exclusive=[("run_dirs", "job_ids")],
            required_one_of=[("run_dirs", "job_ids")],
        )
        selector = "run_dirs" if arguments["run_dirs"] is not None else "job_ids"
        keys: list[str] = list(dict.fromkeys(arguments[selector]))
        if selector == "job_ids" and "cancel" in (arguments["on_timeout"], arguments["on_stuck"]):
            raise AnsibleError("on_timeout and on_stuck can only be cancel with run_dirs: a bare id may not be ours.")
        result.update(changed=False, jobs=[], elapsed=0.0, looks=0)
        if self._task.check_mode:
            result["msg"] = "check mode: nothing was submitted, so nothing is waited for"
            return result
        if not keys:
            return result
        host = task_vars.get("inventory_hostname", "cluster")
        ending = self._wait(selector, keys, arguments, host, task_vars)
        result.update(jobs=ending.jobs, elapsed=round(ending.seconds, 1), looks=ending.looks)
        self._cancel(ending, arguments, task_vars, result)
        result.update(_outcome(ending))
        return result

    def _wait(
        self, selector: str, keys: list[str], arguments: Mapping[str, Any], host: str, task_vars: dict[str, Any]
    ) -> Ending:
        for_info = {name: arguments[name] for name in _FOR_INFO}

        def ask(open_keys: Sequence[str], gone_for: Mapping[str, float]) -> Mapping[str, Any]:
            module_arguments = {**for_info, selector: list(open_keys), "progress": True, "gone_for": dict(gone_for)}
            return self._look(module_arguments, task_vars)

        wait = Wait(
            keys,
            ask,
            display.display,
            time.monotonic,
            time.sleep,
            Patience(
                pending=arguments["pending_timeout"],
                running=arguments["run_timeout"],
                unavailable=arguments["unavailable_timeout"],
                accounting=arguments["accounting_timeout"],
                unreachable=arguments["unreachable_timeout"],
                heartbeat=arguments["heartbeat"],
                longest_pause=arguments["poll_interval_max"],
            ),
            host,
        )
        display.display(
            "[{}] waiting for {} job{}. Ctrl-C ends only this wait; the same command takes it up again.".format(
                host, len(keys), "" if len(keys) == 1 else "s"
            )
        )
        try:
            return wait.run()
        except LookFailed as error:
            raise AnsibleError(str(error)) from None

    def _look(self, module_arguments: dict[str, Any], task_vars: dict[str, Any]) -> Mapping[str, Any]:
        try:
            answer = self._execute_module(
                module_name="dgxc.workloads.slurm_job_info", module_args=module_arguments, task_vars=task_vars
            )
        except AnsibleConnectionFailure as error:
            self._reset_connection()
            raise LookFailed(error.message, unreachable=True) from None
        if answer.get("unreachable"):
            self._reset_connection()
            raise LookFailed(str(answer.get("msg")), unreachable=True)
        if answer.get("failed") or "jobs" not in answer:
            raise LookFailed(_reason(answer), unreachable=False)
        return answer

    def _reset_connection(self) -> None:
        reset = getattr(self._connection, "reset", None)
        if reset is None:
            return
        try:
            reset()
        except (AnsibleError, OSError) as error:
            display.vvv(f"the connection could not be reset: {error}")

    def _cancel(
        self, ending: Ending, arguments: Mapping[str, Any], task_vars: dict[str, Any], result: dict[str, Any]
    ) -> None:
        unwanted = list(ending.overdue if arguments["on_timeout"] == "cancel" else [])
        unwanted += ending.stuck if arguments["on_stuck"] == "cancel" else []
        if not unwanted:
            return
        module_arguments = {name: arguments[name] for name in _FOR_INFO}
        module_arguments.update(state="cancelled", jobs=[{"run_dir": run_dir} for run_dir in unwanted])
        answer = self._execute_module(
            module_name="dgxc.workloads.slurm_job", module_args=module_arguments, task_vars=task_vars
        )
        result["changed"] = bool(answer.get("changed"))
        for job in answer.get("jobs") or []:
            display.display("[{}] {}: {}".format(task_vars.get("inventory_hostname"), job["name"], job["message"]))


def _reason(answer: Mapping[str, Any]) -> str:
    """Why a module gave no result: its own sentence, or the last line of what it printed or raised."""
    for text in (answer.get("msg"), answer.get("module_stderr"), answer.get("exception"), answer.get("module_stdout")):
        lines = str(text or "").strip().splitlines()
        if lines:
            return lines[-1]
    return "slurm_job_info gave no answer"


def _outcome(ending: Ending) -> dict[str, Any]:
    """`failed` and `msg` of the result: all jobs succeeded, or what the person has to know."""
    bad = [info for info in ending.jobs if info.get("verdict") != SUCCEEDED]
    if not bad:
        return {"msg": "all jobs succeeded"}
    if ending.gave_up:
        message = (
            f"gave up waiting: {ending.gave_up}. The jobs were left alone; run the same command again to go on waiting."
        )
        return {"failed": True, "msg": message}
    texts = [failure_text(info) for info in bad[:3]]
    if len(bad) > len(texts):
        texts.append(f"... and {len(bad) - len(texts)} more jobs that did not succeed")
    return {"failed": True, "msg": "\n".join(texts)}
