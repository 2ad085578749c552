# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendering with a launcher that is played by a function, and the reading of what a real one says when it fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_launcher import (
    Rendered,
    RenderProblem,
    launcher_complaint,
    lint_script,
    read_directives,
    render,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import NOT_FOUND, TIMED_OUT, Finished

SCRIPT = """#!/bin/bash

# Parameters
#SBATCH --error={folder}/results/gpt/log_%j.err
#SBATCH --exclusive
#SBATCH --output={folder}/results/gpt/log_%j.out
#SBATCH --time=0-02:00:00

# setup
export A=b

# command 1
srun --output {folder}/results/gpt/log_%j.out bash -c "true"
"""

Play = Callable[[Path], None]


def write(script: str = SCRIPT) -> Play:
    def play(folder: Path) -> None:
        run = folder / "results" / "gpt"
        (run / "results").mkdir(parents=True)
        (run / "gpt_hydra.yaml").write_text(f"results_dir: {folder}/results/gpt\n")
        (run / "launcher_cmd.log").write_text("main.py")
        (run / "gpt_submission.sh").write_text(script.replace("{folder}", str(folder)))

    return play


class Launcher:
    """Plays the launcher, and remembers how it was called."""

    def __init__(self, play: Play, code: int = 0, err: str = "") -> None:
        self.play, self.code, self.err = play, code, err
        self.folder = Path()
        self.command: list[str] = []
        self.environment: dict[str, str] = {}
        self.overlay = ""

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float
    ) -> Finished:
        assert folder is not None
        self.folder, self.command, self.environment = Path(folder), list(command), dict(environment)
        assert self.folder.stat().st_mode & 0o777 == 0o700
        self.overlay = (self.folder / "conf" / "dgxc.yaml").read_text()
        self.play(self.folder)
        return Finished(self.code, "", self.err.replace("{folder}", folder))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "launcher_scripts").mkdir()
    (tmp_path / "launcher_scripts" / "main.py").touch()
    return tmp_path


OUTSIDE = {"PATH": "/usr/bin", "HOME": "/home/me", "SLURM_JOB_ID": "7", "NEMO_LAUNCHER_CI": "1", "SECRET": "s"}


def rendered(clone: Path, launcher: Launcher) -> Rendered:
    return render(launcher, OUTSIDE, str(clone), "/venv/bin/python", "base_results_dir: @ATTEMPT_DIR@/results\n")


def test_what_the_launcher_writes_comes_back_with_the_token(clone: Path) -> None:
    launcher = Launcher(write())
    result = rendered(clone, launcher)
    assert result.files == {
        "conf/dgxc.yaml": "base_results_dir: @ATTEMPT_DIR@/results\n",
        "results/gpt/gpt_hydra.yaml": "results_dir: @ATTEMPT_DIR@/results/gpt\n",
        "results/gpt/gpt_submission.sh": SCRIPT.replace("{folder}", "@ATTEMPT_DIR@"),
    }
    assert result.script == "results/gpt/gpt_submission.sh"
    assert result.logs == {"stdout": "results/gpt/log_%j.out", "stderr": "results/gpt/log_%j.err"}
    assert result.run_name == "gpt"
    assert result.directories == ["results/gpt/results"]
    assert launcher.overlay == f"base_results_dir: {launcher.folder}/results\n"
    assert launcher.command[:2] == ["/venv/bin/python", f"{clone}/launcher_scripts/main.py"]
    assert launcher.command[2:] == ["--config-dir", f"{launcher.folder}/conf", "--config-name", "dgxc"]
    assert launcher.environment == {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "LC_ALL": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NEMO_LAUNCHER_DEBUG": "1",
    }
    assert not launcher.folder.exists()


def test_the_private_folder_is_gone_after_a_failure_too(clone: Path) -> None:
    launcher = Launcher(write(), code=1, err="ValueError: {folder}/conf is bad\n")
    with pytest.raises(RenderProblem, match="ValueError: @ATTEMPT_DIR@/conf is bad"):
        rendered(clone, launcher)
    assert not launcher.folder.exists()


def test_a_missing_launcher_is_named(tmp_path: Path) -> None:
    with pytest.raises(RenderProblem, match=r"There is no .*/launcher_scripts/main.py.*nemo_gpt3_launcher_path"):
        rendered(tmp_path, Launcher(write()))


def test_success_without_a_script_is_none(clone: Path) -> None:
    with pytest.raises(RenderProblem, match="wrote 0 submission scripts"):
        rendered(clone, Launcher(lambda folder: None))


def test_a_file_that_is_no_text_is_named(clone: Path) -> None:
    def play(folder: Path) -> None:
        write()(folder)
        (folder / "results" / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(RenderProblem, match="binary, which is not text"):
        rendered(clone, Launcher(play))


def test_logs_elsewhere_are_noticed(clone: Path) -> None:
    with pytest.raises(RenderProblem, match="sends its stdout to '/elsewhere"):
        rendered(clone, Launcher(write(SCRIPT.replace("--output={folder}", "--output=/elsewhere"))))


@pytest.mark.parametrize(
    ("code", "err", "said"),
    [
        (NOT_FOUND, "/venv/bin/python: No such file or directory", "cannot be started"),
        (TIMED_OUT, "", "longer than 300 s.*nemo_gpt3_launcher_timeout"),
        (1, "Traceback\nModuleNotFoundError: No module named 'hydra'\n", "lacks the package hydra"),
        (
            1,
            "ValueError: mutable default <class 'hydra.conf.JobConf'> for field job is not allowed",
            "nemo_gpt3_launcher_python to a Python from 3.8 to 3.10",
        ),
        (
            1,
            "In 'config': Could not find 'training/gpt3/nosuch'\n\nConfig search path:\n\tprovider=hydra\n",
            "In 'config': Could not find 'training/gpt3/nosuch'",
        ),
        (
            1,
            'Traceback (most recent call last):\n  File "main.py", line 1\n'
            "omegaconf.errors.InterpolationToMissingValueError: Missing mandatory value: launcher_scripts_path\n"
            "    full_key: training.model.tokenizer.vocab_file\n    object_type=dict\n\n"
            "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
            r"Missing mandatory value: launcher_scripts_path \(key training.model.tokenizer.vocab_file\)",
        ),
        (
            1,
            "Traceback\n  raise yaml.constructor.ConstructorError(\n"
            'yaml.constructor.ConstructorError: while constructing a mapping\n  in "x.yaml", line 2, column 1\n'
            'found duplicate key stages\n  in "x.yaml", line 12, column 1\n',
            "found duplicate key stages",
        ),
        (1, "", "ended without a message"),
        (-9, "Killed\n", "Killed"),
    ],
)
def test_failures_become_sentences(clone: Path, code: int, err: str, said: str) -> None:
    with pytest.raises(RenderProblem, match=said):
        rendered(clone, Launcher(lambda folder: None, code, err))


def test_the_heart_of_a_complaint() -> None:
    text = (
        "Error executing job with overrides: []\nKeyError: 'trainingg'\n\nSet the environment variable HYDRA_FULL_ERROR"
    )
    assert launcher_complaint(text) == "KeyError: 'trainingg'"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "does not begin"),
        ("\n#!/bin/bash\n", "does not begin"),
        ("#!/bin/bash\r\n", "DOS line ends"),
        ("#!/bin/bash\nset -e\n#SBATCH --nodes=2\n", r"behind its first command \(line 3\)"),
        ("#!/bin/bash\n#SBATCH --time=7200\n", "--time=7200.* 7200 minutes"),
        ("#!/bin/bash\nsrun bash -c 'wandb login 0123456789abcdef'\n", "Weights & Biases key in clear text"),
        ("#!/bin/bash\nexport HF_TOKEN=x\n", "a token in clear text"),
    ],
)
def test_bad_scripts_are_found(script: str, said: str) -> None:
    problem = lint_script(script)
    assert problem is not None
    assert re.search(said, problem)


def test_good_scripts_pass() -> None:
    assert lint_script(SCRIPT) is None
    assert lint_script("#!/bin/bash\n#SBATCH --time=0-02:00:00\n\nwandb login ${KEY}\n") is None


def test_directives_are_read() -> None:
    script = "#!/bin/sh\n#SBATCH --exclusive\n#SBATCH --time=1\n#SBATCH --job-name 'a b'\n##SBATCH --nodes=4\n"
    assert read_directives(script) == {"exclusive": "", "time": "1", "job-name": "a b"}
