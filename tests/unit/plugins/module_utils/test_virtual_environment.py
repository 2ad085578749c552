# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments: decisions with played commands, and one real build without packages."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    NOT_FOUND,
    TIMED_OUT,
    Finished,
    run,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._virtual_environment import (
    STAMP,
    EnvironmentFailure,
    VirtualEnvironments,
    Wish,
    pip_sentence,
    version_problem,
    wish_problem,
)


class Host:
    """Plays a host with some Pythons, on which venv and pip work unless told otherwise."""

    def __init__(self, folder: Path, versions: Mapping[str, str]) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.versions = dict(versions)
        for name in versions:
            (self.bin / name).touch(mode=0o755)
        self.calls: list[str] = []
        self.venv = Finished(0, "", "")
        self.pip = Finished(0, "", "")
        self.broken = False

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float
    ) -> Finished:
        assert "PYTHONPATH" not in environment
        if "venv" in command:
            self.calls.append("venv")
            (Path(command[-1]) / "bin").mkdir()
            (Path(command[-1]) / "bin" / "python").touch()
            return self.venv
        if "pip" in command:
            self.calls.append("pip " + " ".join(command[command.index("--disable-pip-version-check") + 1 :]))
            return self.pip
        if command[-1] == "":
            self.calls.append("try")
            return Finished(1 if self.broken else 0, "", "")
        self.calls.append("ask")
        name = os.path.basename(command[0])
        if name not in self.versions:
            return Finished(NOT_FOUND, "", "")
        return Finished(0, f"banner --dgxc-workloads-python--{self.versions[name]} {command[0]}", "")

    def environments(self) -> VirtualEnvironments:
        return VirtualEnvironments(self, {"PATH": str(self.bin), "PYTHONPATH": "/x"})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, {"python3": "3.9.18", "python3.11": "3.11.2", "python3.10": "3.10.1"})


def wish(tmp_path: Path, **changes: Any) -> Wish:
    base = Wish(str(tmp_path / "venvs" / "x"), "python3", ["hydra-core<1.3"], "", "3.8", "3.11", "the_python")
    return base._replace(**changes)


def test_an_environment_is_made_once(host: Host, tmp_path: Path) -> None:
    outcome = host.environments().ensure(wish(tmp_path))
    assert outcome.action == "created"
    assert host.calls == ["ask", "venv", "pip hydra-core<1.3"]
    path = tmp_path / "venvs" / "x"
    assert path.is_symlink()
    assert json.loads((path / STAMP).read_text())["requirements"] == ["hydra-core<1.3"]
    host.calls.clear()
    again = host.environments().ensure(wish(tmp_path))
    assert (again.action, host.calls) == ("unchanged", ["try"])


def test_a_narrower_range_is_seen_by_an_environment_that_is_there(host: Host, tmp_path: Path) -> None:
    host.environments().ensure(wish(tmp_path))
    assert host.environments().ensure(wish(tmp_path, minimum="3.9", below="3.10")).action == "unchanged"
    with pytest.raises(EnvironmentFailure, match=r"is Python 3\.9\.18"):
        host.environments().ensure(wish(tmp_path, minimum="3.10"))


def test_other_requirements_turn_the_link_to_a_new_build(host: Host, tmp_path: Path) -> None:
    host.environments().ensure(wish(tmp_path))
    first = os.readlink(tmp_path / "venvs" / "x")
    outcome = host.environments().ensure(wish(tmp_path, requirements=["other"]))
    assert outcome.action == "replaced"
    assert os.readlink(tmp_path / "venvs" / "x") != first
    assert not (tmp_path / "venvs" / first).exists()


def test_a_requirements_file_is_followed_by_its_content(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    pinned = wish(tmp_path, requirements=[], requirements_file=str(file))
    assert host.environments().ensure(pinned, check_mode=True).action == "created"
    with pytest.raises(EnvironmentFailure, match=r"requirements.txt cannot be read: No such file"):
        host.environments().ensure(pinned)
    file.write_text("one")
    assert host.environments().ensure(pinned).action == "created"
    assert host.calls[-1] == f"pip --requirement {file}"
    assert host.environments().ensure(pinned).action == "unchanged"
    file.write_text("two")
    assert host.environments().ensure(pinned).action == "replaced"


def test_check_mode_says_and_does_not(host: Host, tmp_path: Path) -> None:
    assert host.environments().ensure(wish(tmp_path), check_mode=True).action == "created"
    assert host.calls == ["ask"]
    assert not (tmp_path / "venvs").exists()


def test_a_build_cut_off_is_never_used(host: Host, tmp_path: Path) -> None:
    host.pip = Finished(-9, "", "")
    with pytest.raises(EnvironmentFailure, match="pip cannot install"):
        host.environments().ensure(wish(tmp_path))
    assert list((tmp_path / "venvs").iterdir()) == []
    # As a killed module leaves it: a build without a link.
    (tmp_path / "venvs" / ".x.build-dead").mkdir()
    host.pip = Finished(0, "", "")
    assert host.environments().ensure(wish(tmp_path)).action == "created"


def test_of_two_builds_at_once_the_first_to_finish_stays(host: Host, tmp_path: Path) -> None:
    inner = host.environments()
    plain = host.__call__
    faster: list[str] = []

    def racing(command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float) -> Finished:
        if "pip" in command and not faster:
            faster.append("begun")
            faster.append(inner.ensure(wish(tmp_path)).action)
        return plain(command, environment, folder, limit)

    outer = VirtualEnvironments(racing, {"PATH": str(host.bin)})
    assert outer.ensure(wish(tmp_path)).action == "created"
    assert faster == ["begun", "created"]
    # One build and the link to it, nothing left over.
    assert len(list((tmp_path / "venvs").iterdir())) == 2


def test_a_broken_environment_is_made_again(host: Host, tmp_path: Path) -> None:
    host.environments().ensure(wish(tmp_path))
    host.broken = True
    assert host.environments().ensure(wish(tmp_path)).action == "replaced"


def test_abandoned_builds_are_swept(host: Host, tmp_path: Path) -> None:
    for name in (".x.build-old", ".x.build-young", ".y.build-old"):
        (tmp_path / "venvs" / name).mkdir(parents=True)
    for name in (".x.build-old", ".y.build-old"):
        os.utime(tmp_path / "venvs" / name, (10_000, 10_000))
    host.environments().ensure(wish(tmp_path))
    left = {entry.name for entry in (tmp_path / "venvs").iterdir()}
    assert ".x.build-old" not in left
    assert {".x.build-young", ".y.build-old"} < left


def test_somebody_elses_folder_is_refused(host: Host, tmp_path: Path) -> None:
    (tmp_path / "venvs" / "x").mkdir(parents=True)
    with pytest.raises(EnvironmentFailure, match="not a virtual environment that this collection made"):
        host.environments().ensure(wish(tmp_path))


def test_a_python_that_is_too_new_is_refused_with_a_better_one(host: Host, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure) as caught:
        host.environments().ensure(wish(tmp_path, python="python3.11"))
    assert str(caught.value) == (
        "the_python is 'python3.11', which is Python 3.11.2, but what is to be installed needs 3.8 or newer and older"
        " than"
        f" 3.11: set the_python to {host.bin}/python3.10, which this host has."
    )


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path, {"python3": "3.12.1"})
    with pytest.raises(EnvironmentFailure, match=r"python3.9', but there is no such Python.*environment module"):
        host.environments().ensure(wish(tmp_path, python="python3.9"))
    with pytest.raises(EnvironmentFailure, match=r"is Python 3.12.1.*python39"):
        host.environments().ensure(wish(tmp_path))


def test_a_python_without_ensurepip_is_named(host: Host, tmp_path: Path) -> None:
    host.venv = Finished(1, "The virtual environment was not created because ensurepip is not available.", "")
    with pytest.raises(EnvironmentFailure, match="python3-venv"):
        host.environments().ensure(wish(tmp_path))


@pytest.mark.parametrize(
    ("version", "good"),
    [("3.7.16", False), ("3.8.0", True), ("3.10.13", True), ("3.11.0", False), ("3.9", True), ("4.0.0", False)],
)
def test_versions_are_compared_as_numbers(tmp_path: Path, version: str, good: bool) -> None:
    assert (version_problem(version, wish(tmp_path), ()) is None) is good
    assert version_problem(version, wish(tmp_path, minimum="", below=""), ()) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Finished(TIMED_OUT, "", ""), "longer than 60 s.*workspace_timeout"),
        (
            Finished(1, "", "WARNING: NewConnectionError\nERROR: No matching distribution found for x\n"),
            "package index",
        ),
        (
            Finished(1, "", "ERROR: No matching distribution found for x==9\n"),
            "x==9. To go on, correct the requirement",
        ),
        (Finished(1, "", "ERROR: OSError: [Errno 28] No space left on device\n"), "make room"),
        (Finished(1, "", "error: command 'gcc' failed\nERROR: Failed building wheel for y\n"), "C compiler"),
        (Finished(2, "", ""), "no message"),
    ],
)
def test_pips_failures_become_sentences(tmp_path: Path, answer: Finished, said: str) -> None:
    assert re.search(said, pip_sentence(answer, wish(tmp_path), 60))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"path": "venv"}, "absolute path"),
        ({"python": "python3 -E"}, "the_python is"),
        ({"minimum": "3"}, 'like "3.8"'),
        ({"requirements": ["-r x"]}, "without options"),
        ({"requirements": []}, "neither requirements nor"),
    ],
)
def test_nonsense_is_told_in_one_sentence(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    problem = wish_problem(wish(tmp_path, **changes))
    assert problem is not None
    assert said in problem


def test_a_real_environment_without_packages(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# nothing\n")
    real = wish(tmp_path, python=sys.executable, requirements=[], requirements_file=str(file), minimum="", below="")
    environment = {**os.environ, "PIP_NO_INDEX": "1"}
    assert VirtualEnvironments(run, environment).ensure(real).action == "created"
    assert VirtualEnvironments(run, environment).ensure(real).action == "unchanged"
    assert run([f"{real.path}/bin/python", "-m", "pip", "--version"], environment, None, 60).code == 0
