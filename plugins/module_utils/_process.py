# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands with a limit in time and an environment of our choice. Private to this collection.

AnsibleModule.run_command can add to the environment but not take away, and knows no time limit; a launcher that
inherits an enclosing job's SLURM_* variables, or a clone that hangs on a dead network, needs both.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from typing import IO, Callable, Mapping, NamedTuple, Sequence

# Answers of run() for what never became an exit code: the shell's own for "not found", timeout(1)'s for "too long".
NOT_FOUND = 127
TIMED_OUT = 124

# Prefixes of variables that change what a launcher or Slurm does, inherited from an enclosing job or from a profile.
FOREIGN_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "NEMO_", "HYDRA_")
# Python finds the wrong packages through these; environment modules like to set the first.
FOREIGN_NAMES = frozenset(
    ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "VIRTUAL_ENV", "BASH_ENV", "ENV")
)
KEPT_NAMES = frozenset(("SLURM_CONF",))

_MARK = "--dgxc-workloads-environment--"
_LOGIN = (
    'if [ "$#" -gt 0 ]; then'
    ' if ! command -v module >/dev/null 2>&1; then echo "no module command" >&2; exit 3; fi;'
    ' for name in "$@"; do module add "$name" >&2 || exit 4; done; fi;'
    ' printf "%s\\0" "{mark}"; exec env -0'
).replace("{mark}", _MARK)


class Finished(NamedTuple):
    """What a command answered: its exit code (negative: the signal that ended it) and its two outputs as text."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it said, the error output first, without surrounding blanks."""
        return "\n".join(part for part in (self.err.strip(), self.out.strip()) if part)


# (command line, environment, working folder or None, limit in seconds) -> answer
Run = Callable[[Sequence[str], Mapping[str, str], "str | None", float], Finished]


class EnvironmentProblem(Exception):
    """The login shell or an environment module did not do its part; the text is a sentence for the user."""


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: str | None,
    limit: float,
    listen: Callable[[str], None] | None = None,
) -> Finished:
    """Run a command without a terminal and without input, and end it with all its children when the time is over.

    :param listen: takes each line of both outputs when it is said, and what a bar shows as well.
    """
    process = start(command, environment, folder)
    if isinstance(process, Finished):
        return process
    outputs = Outputs(process, listen)
    if outputs.end_within(limit):
        return Finished(process.returncode, *outputs.text())
    # Its own session is its own process group: children of git and pip go with it.
    os.killpg(process.pid, signal.SIGKILL)
    outputs.end_within()
    return Finished(TIMED_OUT, *outputs.text())


def start(
    command: Sequence[str], environment: Mapping[str, str], folder: str | None
) -> subprocess.Popen[bytes] | Finished:
    """Start a command in a session of its own, or return the answer that it could not be started."""
    try:
        return subprocess.Popen(
            list(command),
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Finished(NOT_FOUND, "", "{0}: {1}".format(command[0], error.strerror or error))


class Outputs:
    """The two outputs of a process, read as they come."""

    def __init__(self, process: subprocess.Popen[bytes], listen: Callable[[str], None] | None = None) -> None:
        self._process, self._listen = process, listen
        self._said: list[list[bytes]] = [[], []]
        self._threads = [
            threading.Thread(target=self._read, args=(stream, pieces), daemon=True)
            for stream, pieces in zip((process.stdout, process.stderr), self._said)
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[bytes], pieces: list[bytes]) -> None:
        unfinished = b""
        with stream:
            while True:
                piece = os.read(stream.fileno(), 1 << 16)
                if not piece:
                    return
                pieces.append(piece)
                if self._listen is not None:
                    *lines, unfinished = re.split(rb"[\r\n]", unfinished[-4096:] + piece)
                    full = [line for line in lines if line.strip()]
                    if full:
                        self._listen(full[-1].decode("utf-8", "replace"))

    def end_within(self, seconds: float | None = None) -> bool:
        """Wait until both outputs are read to their end and the process has ended. Tell whether that is so."""
        deadline = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        try:
            self._process.wait(None if deadline is None else max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def text(self) -> tuple[str, str]:
        """Return what was said so far."""
        out, err = (b"".join(pieces).decode("utf-8", "replace") for pieces in self._said)
        return out, err


def cleaned(environment: Mapping[str, str], additions: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without what changes results unseen, with a UTF-8 locale, and with additions."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in KEPT_NAMES
        or not (name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES or name.startswith("BASH_FUNC_"))
    }
    kept["LC_ALL"] = "C.UTF-8"
    kept["PYTHONNOUSERSITE"] = "1"
    kept.update(additions or {})
    return kept


def login_environment(
    run_command: Run, environment: Mapping[str, str], environment_modules: Sequence[str], always: bool = False
) -> dict[str, str]:
    """Return the environment of a login shell in which the environment modules are loaded.

    A plain SSH command has neither the site's PATH nor the function ``module``; a login shell has both. Without modules
    to load, the environment is returned as it is and no shell is started, unless ``always``.

    :raises EnvironmentProblem: there is no ``module`` command, or one of the modules does not load.
    """
    if not environment_modules and not always:
        return dict(environment)
    answer = run_command(["bash", "-l", "-c", _LOGIN, "bash", *environment_modules], environment, None, 120)
    # Profiles print banners; what counts begins behind our mark.
    _banner, mark, listing = answer.out.partition(_MARK + "\0")
    if answer.code == 3:
        raise EnvironmentProblem(
            "dgxc_environment_modules asks for {0}, but a login shell on this host has no 'module' command: set"
            " dgxc_environment_modules to [] if the site has no environment modules.".format(
                ", ".join(environment_modules)
            )
        )
    # Some implementations of module answer 0 and only complain.
    complaint = last_line(answer.err)
    if not environment_modules and not mark:
        raise EnvironmentProblem(
            "a login shell (bash -l) on this host does not start: {0}.".format(complaint or "it said nothing")
        )
    if answer.code != 0 or not mark:
        raise EnvironmentProblem(
            "dgxc_environment_modules asks for {0}, but 'module add' failed with: {1}. Compare the names with the"
            " output of 'module avail' on the login"
            " node.".format(", ".join(environment_modules), complaint or "no message")
        )
    return dict(entry.split("=", 1) for entry in listing.split("\0") if "=" in entry)


def last_line(text: str) -> str:
    """Return the last line that is not blank, without its surrounding blanks; empty when there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
