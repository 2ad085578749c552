# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps that take minutes, and what is said meanwhile. Private to this collection.

The module runs as every module does, in one call, so a step that finds nothing to do costs what it always costs. Only
when it takes longer than some seconds, a second call over the same connection reads the line that the module keeps
about how far it is (``module_utils/_progress.py``). If that call fails nothing is lost but the line; the step is judged
by the module's own answer alone.
"""

from __future__ import annotations

import contextvars
import copy
import io
import shlex
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxc.workloads.plugins.plugin_utils._job_wait import duration, next_heartbeat

display = Display()

#: The longest silence, in seconds.
HEARTBEAT = 60.0


def show_each_line_at_once() -> None:
    """Let a pipe or a file see each line when it is said, not when Python's buffer is full or the play ends.

    ansible-core flushes what it writes only at its end, and a step may take days. The strategy loads an action plugin,
    for the task's class, in the process that writes; so this is in force before the task begins.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


show_each_line_at_once()


class Watch:
    """Says from time to time how far a step is, while the block under it runs."""

    def __init__(self, host: str, look: Callable[[], str], say: Callable[[str], None]) -> None:
        self._host, self._look, self._say = host, look, say
        self._stop = threading.Event()
        # A process that ended in the middle of a line would keep the lock of the queue that all lines go through.
        self._speaking = threading.Lock()
        # Ansible keeps in the context what its output needs.
        context = contextvars.copy_context()
        # A look may hang with its connection, and does not hold up the end of the step.
        self._thread = threading.Thread(target=lambda: context.run(self._watch), daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        with self._speaking:
            self._stop.set()

    def _watch(self) -> None:
        started = time.monotonic()
        passed = 0.0
        while not self._stop.wait(next_heartbeat(passed, HEARTBEAT)):
            line = self._look()
            passed = time.monotonic() - started
            with self._speaking:
                if not self._stop.is_set():
                    self._say("[{}] {}, for {}".format(self._host, line or "at work", duration(passed)))


class LongStep(ActionBase):
    """An action plugin that runs the module of its name and says how far it is.

    Its module has the option `progress_path` (fragment `progress`); without, `HAS_LINE` is false, and all that is said
    is that it is at work.
    """

    HAS_LINE = True
    #: What is run, where it is not the module of the plugin's own name; and what is said of it without a line.
    module_name: str | None = None
    module_arguments: dict[str, Any] | None = None
    subject = ""
    TRANSFERS_FILES = False
    _supports_async = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module."""
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args if self.module_arguments is None else self.module_arguments)
        if self._task.async_val or self._task.no_log:
            # In the background nobody waits; and a secret step stays so.
            return {**result, **self._module(arguments, task_vars)}
        look = self._subject
        if self.HAS_LINE:
            path = arguments.setdefault("progress_path", f"/tmp/.dgxc-workloads-{uuid.uuid4().hex}")
            look = self._reader(path)
        with Watch(str(self._task.delegate_to or task_vars.get("inventory_hostname")), look, _say):
            return {**result, **self._module(arguments, task_vars)}

    def _subject(self) -> str:
        return self.subject

    def _module(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name=self.module_name,
            module_args=arguments,
            task_vars=task_vars,
            wrap_async=bool(self._task.async_val),
        )
        return answer

    def _reader(self, path: str) -> Callable[[], str]:
        """Return a function that reads the module's line, and returns '' if there is none."""
        # What a call leaves in these objects belongs to it alone, and the module's own call is under way.
        second = copy.copy(self)
        second._connection = copy.copy(self._connection)
        second._connection.become = copy.copy(self._connection.become)

        def read() -> str:
            try:
                answer = second._low_level_execute_command("cat {}".format(shlex.quote(path)), sudoable=True)
            except (AnsibleError, OSError) as error:
                display.vvv(f"{path} could not be read: {error}")
                return ""
            return str(answer["stdout"]).strip() if answer["rc"] == 0 else ""

        return read


def _say(line: str) -> None:
    display.display(line)
