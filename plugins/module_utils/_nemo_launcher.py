# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lets the NeMo launcher write a submission script without submitting. Private to this collection.

The launcher is told through a Hydra overlay in a folder of its own, so its clone is not edited. With
NEMO_LAUNCHER_DEBUG=1 it needs neither sbatch nor srun, writes the script and the resolved configuration, and stops.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from typing import Any, Mapping, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    NOT_FOUND,
    TIMED_OUT,
    Finished,
    Run,
    cleaned,
    last_line,
)

# Stands in every text for the folder of the attempt, whose path is not known before the texts are.
TOKEN = "@ATTEMPT_DIR@"
OVERLAY_FOLDER = "conf"
RESULTS_FOLDER = "results"

# What the launcher writes for itself: its own command line, and the answer of an earlier sbatch.
_NOT_PART = frozenset(("launcher_cmd.log", "launcher.log"))
_SCRIPT_ENDING = "_submission.sh"
_LARGEST_TEXT = 4 * 1024 * 1024

# Python itself, whatever it needs to find its libraries, and nothing that could change the result.
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH")

_SECRETS = (
    (re.compile(r"wandb login\s+[^\s$]"), "a Weights & Biases key"),
    (re.compile(r"\b(WANDB_API_KEY|NGC_API_KEY|NGC_CLI_API_KEY|HF_TOKEN|HUGGING_FACE_HUB_TOKEN)=\S"), "a token"),
    (re.compile(r"\bhf_[A-Za-z0-9]{30,}\b|\bnvapi-[A-Za-z0-9_-]{30,}"), "a token"),
)


class RenderProblem(Exception):
    """Why there is no script; the text is a sentence for the user."""


class Rendered(NamedTuple):
    """What the launcher produced, with the token in place of the folder.

    ``files``: relative path -> text, the overlay included. ``script`` is one of them. ``logs``: relative paths of the
    training's two outputs, with ``%j`` for the job id. ``directories``: relative paths that have to be there, too.
    """

    files: dict[str, str]
    script: str
    logs: dict[str, str]
    run_name: str
    directories: list[str]


def render(
    run: Run,
    environment: Mapping[str, str],
    launcher_path: str,
    python: str,
    overlay: str,
    config_name: str = "dgxc",
    timeout: float = 300,
) -> Rendered:
    """Run the launcher once with the overlay in a private folder, and return what it wrote. The folder is gone
    afterwards.

    :param launcher_path: the clone; its ``launcher_scripts/main.py`` is started.
    :param overlay: text of the overlay, with TOKEN for the folder of the attempt.
    :raises RenderProblem: there is no launcher, its Python lacks something, it refuses the overlay, or its script is
        bad.
    """
    main = os.path.join(launcher_path, "launcher_scripts", "main.py")
    if not os.path.isfile(main):
        raise RenderProblem(
            "There is no {0}: let the role workspace make the clone, or correct nemo_gpt3_launcher_path.".format(main)
        )
    kept = {name: environment[name] for name in _KEPT if name in environment}
    # realpath: the launcher may resolve links, and then the path in its texts would not be the one to replace.
    folder = os.path.realpath(tempfile.mkdtemp(prefix="dgxc-nemo-"))
    try:
        written = os.path.join(folder, OVERLAY_FOLDER)
        os.mkdir(written)
        with open(os.path.join(written, config_name + ".yaml"), "w", encoding="utf-8") as stream:
            stream.write(overlay.replace(TOKEN, folder))
        answer = run(
            [python, main, "--config-dir", written, "--config-name", config_name],
            cleaned(kept, {"NEMO_LAUNCHER_DEBUG": "1", "PYTHONDONTWRITEBYTECODE": "1"}),
            folder,
            timeout,
        )
        if answer.code != 0:
            raise RenderProblem(failure_sentence(answer, python, launcher_path, timeout).replace(folder, TOKEN))
        texts, directories = _collect(os.path.join(folder, RESULTS_FOLDER), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    texts["{0}/{1}.yaml".format(OVERLAY_FOLDER, config_name)] = overlay
    return _judge(texts, directories, answer)


def _collect(top: str, folder: str) -> tuple[dict[str, str], list[str]]:
    """Read all files below a folder, and name the folders in which there is none."""
    texts: dict[str, str] = {}
    empty: list[str] = []
    for current, folders, names in os.walk(top):
        kept = [name for name in sorted(names) if name not in _NOT_PART]
        if not kept and not folders:
            empty.append(os.path.relpath(current, folder))
        for name in kept:
            path = os.path.join(current, name)
            if os.path.getsize(path) > _LARGEST_TEXT:
                raise RenderProblem("The launcher wrote {0}, which is too large for a configuration file.".format(name))
            with open(path, "rb") as stream:
                content = stream.read()
            try:
                texts[os.path.relpath(path, folder)] = content.decode("utf-8").replace(folder, TOKEN)
            except UnicodeDecodeError:
                raise RenderProblem("The launcher wrote {0}, which is not text in UTF-8.".format(name)) from None
    return texts, sorted(empty)


def _judge(texts: dict[str, str], directories: list[str], answer: Finished) -> Rendered:
    scripts = sorted(path for path in texts if path.endswith(_SCRIPT_ENDING))
    if len(scripts) != 1:
        raise RenderProblem(
            "The launcher ended well but wrote {0} submission scripts where one was expected ({1}): set"
            " nemo_gpt3_launcher_commit to a commit that this collection knows.".format(
                len(scripts), last_line(answer.out) or "it said nothing"
            )
        )
    script = scripts[0]
    problem = lint_script(texts[script])
    if problem:
        raise RenderProblem("The submission script that the launcher wrote {0}".format(problem))
    directives = read_directives(texts[script])
    logs = {}
    for stream, option in (("stdout", "output"), ("stderr", "error")):
        value = directives.get(option, "")
        if not value.startswith(TOKEN + "/"):
            raise RenderProblem(
                "The submission script sends its {0} to {1!r} instead of the attempt folder: set"
                " nemo_gpt3_launcher_commit to a commit that this collection knows.".format(stream, value)
            )
        logs[stream] = value[len(TOKEN) + 1 :]
    return Rendered(texts, script, logs, os.path.basename(os.path.dirname(script)), directories)


def read_directives(script: str) -> dict[str, str]:
    """Return the ``#SBATCH --option=value`` lines of a script as a dictionary; an option without value gives ''."""
    found = {}
    for line in script.splitlines():
        match = re.fullmatch(r"#SBATCH\s+--([a-z-]+)(?:[= ](.*))?", line.rstrip())
        if match:
            found[match[1]] = (match[2] or "").strip("'\"")
    return found


def lint_script(script: str) -> str | None:
    """Return what is wrong with a batch script, as the end of a sentence, or None.

    Slurm itself says nothing about a directive behind the first command: it ignores it, and the job asks for the
    defaults.
    """
    lines = script.splitlines()
    if not lines or not lines[0].startswith("#!"):
        return "does not begin with '#!': sbatch would refuse it."
    if "\r" in script:
        return "has DOS line ends: sbatch would refuse it."
    command_seen = False
    for number, line in enumerate(lines, 1):
        if line.startswith("#SBATCH"):
            if command_seen:
                return "has a #SBATCH line behind its first command (line {0}), which Slurm ignores.".format(number)
        elif line.strip() and not line.lstrip().startswith("#"):
            command_seen = True
    for pattern, what in _SECRETS:
        if pattern.search(script):
            return (
                "contains {0} in clear text, which every user of the cluster could read: take wandb_api_key_file and"
                " tokens out of nemo_gpt3_overrides and nemo_gpt3_env.".format(what)
            )
    time = read_directives(script).get("time", "")
    if time.isdigit():
        return (
            "asks for --time={0}, which Slurm takes as {0} minutes: write the time limit as a quoted text such as"
            ' "0-02:00:00", since YAML reads 2:00:00 without quotes as a number.'.format(time)
        )
    return None


def failure_sentence(answer: Finished, python: str, launcher_path: str, timeout: float) -> str:
    """Say in one sentence why the launcher failed and what helps."""
    text = answer.err
    if answer.code == NOT_FOUND:
        return (
            "The launcher's Python {0} cannot be started ({1}): run the playbook again to"
            " repair its environment.".format(python, last_line(text))
        )
    if answer.code == TIMED_OUT:
        return (
            "The launcher took longer than {0:.0f} s to write its script: look at the login node's load and at the file"
            " system of {1}, or raise nemo_gpt3_launcher_timeout.".format(timeout, launcher_path)
        )
    missing = re.search(r"ModuleNotFoundError: No module named '([^']+)'", text)
    if missing:
        return (
            "The launcher's Python {0} lacks the package {1}: add it to nemo_gpt3_launcher_requirements, or set"
            " nemo_gpt3_launcher_full_requirements: true.".format(python, missing[1])
        )
    if "mutable default" in text:
        return (
            "The launcher's Python {0} is 3.11 or newer, with which hydra-core 1.2 does not work (\"mutable"
            ' default"): set'
            " nemo_gpt3_launcher_python to a Python from 3.8 to 3.10.".format(python)
        )
    return "The launcher refuses the configuration: {0}.".format(launcher_complaint(text))


def launcher_complaint(text: str) -> str:
    """Return what a Hydra program's standard error says at its heart, with the key concerned if it names one."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Set the environment variable HYDRA_FULL_ERROR")]
    if not lines:
        return "it ended without a message"
    key = next((line.split(":", 1)[1].strip() for line in lines if line.strip().startswith("full_key:")), "")
    # An exception's own line stands at the margin, behind the last indented line of a traceback.
    heart = ""
    for index, line in enumerate(lines):
        if re.match(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b", line):
            heart = line
            following = lines[index + 1] if index + 1 < len(lines) else ""
            if "while constructing" in line and following:
                heart = "{0} {1}".format(line, " ".join(part.strip() for part in lines[index + 1 : index + 4]))
    if not heart:
        # Hydra's own complaints about the composition come without a traceback and begin with what they are about.
        heart = next(
            (line for line in lines if line.startswith(("In '", "Could not", "Error", "Key ", "Missing"))), lines[-1]
        )
    heart = heart.strip().rstrip(".")
    return "{0} (key {1})".format(heart, key) if key and key not in heart else heart


def as_result(rendered: Rendered) -> dict[str, Any]:
    """Return plain values for a module's result."""
    return dict(rendered._asdict())
