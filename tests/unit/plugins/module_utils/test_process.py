# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands, their environment and the login shell."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    NOT_FOUND,
    TIMED_OUT,
    EnvironmentProblem,
    Finished,
    cleaned,
    last_line,
    login_environment,
    run,
)


def test_a_command_answers_with_code_and_both_outputs() -> None:
    answer = run(["sh", "-c", "echo out; echo err >&2; exit 3"], os.environ, None, 10)
    assert answer == Finished(3, "out\n", "err\n")


def test_a_missing_command_is_an_answer_not_an_exception() -> None:
    answer = run(["/nowhere/command"], os.environ, None, 10)
    assert answer.code == NOT_FOUND
    assert "/nowhere/command: No such file" in answer.err


def test_invalid_bytes_are_read() -> None:
    assert run(["printf", "\\303\\251\\377"], os.environ, None, 10).out == "é\ufffd"


def test_who_listens_hears_lines_and_bars_when_they_are_said() -> None:
    heard: list[str] = []
    program = "printf 'one\\n10%%\\r50%%\\r\\n  \\nlast'; printf 'trouble\\n' >&2"
    answer = run(["sh", "-c", program], os.environ, None, 10, heard.append)
    assert answer == Finished(0, "one\n10%\r50%\r\n  \nlast", "trouble\n")
    assert "trouble" in heard
    # A piece may come in parts, and the last bar of a part is all that counts.
    assert "50%" in heard


def test_the_time_limit_ends_the_children_too(tmp_path: Path) -> None:
    program = "import subprocess, sys, time; subprocess.Popen(['sleep', '30']); time.sleep(30)"
    begin = time.monotonic()
    answer = run([sys.executable, "-c", program], os.environ, str(tmp_path), 0.5)
    # A child left alive would keep the pipes open, and the wait for their end would take its 30 seconds.
    assert time.monotonic() - begin < 15
    assert answer.code == TIMED_OUT


def test_foreign_variables_are_taken_away() -> None:
    given = {
        "PATH": "/usr/bin",
        "SLURM_JOB_ID": "1",
        "SLURM_CONF": "/etc/slurm.conf",
        "SBATCH_PARTITION": "debug",
        "NEMO_LAUNCHER_CI": "1",
        "HYDRA_FULL_ERROR": "1",
        "PYTHONPATH": "/elsewhere",
        "BASH_FUNC_module%%": "() { :; }",
        "LC_ALL": "C",
    }
    assert cleaned(given, {"NEMO_LAUNCHER_DEBUG": "1"}) == {
        "PATH": "/usr/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "LC_ALL": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "NEMO_LAUNCHER_DEBUG": "1",
    }


def _profile(tmp_path: Path, text: str) -> Mapping[str, str]:
    (tmp_path / ".bash_profile").write_text(text)
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


MODULE = """
echo "Welcome to the cluster"
module() { if [ "$2" = bad ]; then echo "ERROR: no such module" >&2; return 1; fi; export "LOADED_$2=yes"; }
"""


def test_modules_are_loaded_in_a_login_shell_in_spite_of_banners(tmp_path: Path) -> None:
    environment = login_environment(run, _profile(tmp_path, MODULE), ["slurm", "python39"])
    assert environment["LOADED_slurm"] == "yes"
    assert environment["LOADED_python39"] == "yes"


def test_a_module_that_does_not_load_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"asks for slurm, bad.*ERROR: no such module.*module avail"):
        login_environment(run, _profile(tmp_path, MODULE), ["slurm", "bad"])


def test_a_site_without_modules_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"no 'module' command.*\[\]"):
        login_environment(run, _profile(tmp_path, "unset -f module\n"), ["slurm"])


def test_without_modules_no_shell_is_started() -> None:
    def never(_command: Sequence[str], _environment: Mapping[str, str], _folder: str | None, _limit: float) -> Finished:
        raise AssertionError("nothing to run")

    assert login_environment(never, {"A": "b"}, []) == {"A": "b"}


def test_the_last_line_that_says_something() -> None:
    assert last_line("a\n b \n\n") == "b"
    assert last_line("") == ""
