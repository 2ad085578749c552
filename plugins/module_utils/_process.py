# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands with a limit in time and an environment of our choice. Private to this collection.

AnsibleModule.run_command can add to the environment but not take away, and knows no time limit; a launcher that
inherits an enclosing job's SLURM_* variables, or a clone that hangs on a dead network, needs both.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Callable, Mapping, NamedTuple, Sequence

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


def run(command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float) -> Finished:
    """Run a command without a terminal and without input, and end it with all its children when the time is over."""
    try:
        process = subprocess.Popen(
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
    try:
        out, err = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        # Its own session is its own process group: children of git and pip go with it.
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = TIMED_OUT
    return Finished(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


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
