# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a training leaves in its folder: files, and the ``trainer_state.json`` of Hugging Face's Trainer.

That file is read strictly. Python writes ``NaN`` into it where a loss was none, which is no JSON, and a job that was
killed while writing leaves half of it: both are told in a sentence, and neither counts as a state.
"""

from __future__ import annotations

import glob
import json
import math
import os
from dataclasses import dataclass, field
from typing import Any, Mapping

# A state holds one small entry for each logged step. A file beyond this (bytes) is something else.
STATE_LIMIT_BYTES = 256 << 20
# Names kept of the files that match one pattern.
NAMES_LIMIT = 20


@dataclass
class TrainerState:
    """What the trainer says of a training. ``losses`` are (step, loss), ``last_epoch`` the newest in its history."""

    global_step: int
    max_steps: int | None
    last_epoch: float | None
    evaluations: int = 0
    evaluation_loss: float | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)
    runtime_seconds: float | None = None


@dataclass
class OutputFacts:
    """What lies in an attempt's folder: for each pattern the files with content, relative to the folder.

    ``trainer_state`` is None when it was not asked for, or when ``trainer_state_problem`` says what is wrong with it.
    """

    files: dict[str, list[str]] = field(default_factory=dict)
    trainer_state: TrainerState | None = None
    trainer_state_path: str = ""
    trainer_state_problem: str = ""

    def is_complete(self) -> bool:
        """Tell whether nothing that was asked for is missing or unreadable."""
        return all(self.files.values()) and not self.trainer_state_problem


class StateError(ValueError):
    """A trainer's state cannot be read; the message is a sentence without the file's name."""


def pattern_problem(pattern: Any) -> str | None:
    """Return what is wrong with a path or pattern of an expected file, or None: it must stay below its folder."""
    if not isinstance(pattern, str) or not pattern or "\0" in pattern:
        return "is no path"
    if pattern.startswith("/") or ".." in pattern.split("/"):
        return "leads out of the folder"
    return None


# A gradient's norm may be no number: with fp16, the scaler tries such a step and leaves it out.
_LOSSES = ("loss", "eval_loss", "train_loss")


def parse_trainer_state(text: str) -> TrainerState:
    """Read the text of a ``trainer_state.json``. Raises StateError with a sentence when it is not a whole one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError("is cut or damaged (%s)" % error) from None
    if not isinstance(value, dict) or not isinstance(value.get("log_history"), list):
        raise StateError("is not the state of a trainer: it has no log_history")
    step = _whole(value.get("global_step"))
    if step is None:
        raise StateError("is not the state of a trainer: it has no global_step")
    state = TrainerState(step, _whole(value.get("max_steps")), _finite(value.get("epoch")))
    for entry in value["log_history"]:
        if isinstance(entry, Mapping):
            _add_entry(state, entry)
    return state


def _add_entry(state: TrainerState, entry: Mapping[str, Any]) -> None:
    for name in _LOSSES:
        value = entry.get(name)
        if isinstance(value, float) and not math.isfinite(value):
            raise StateError("holds %s, which is no number: the loss was lost during the training" % json.dumps(value))
    epoch, step = _finite(entry.get("epoch")), _whole(entry.get("step"))
    if epoch is not None:
        state.last_epoch = epoch
    loss, evaluation = _finite(entry.get("loss")), _finite(entry.get("eval_loss"))
    if loss is not None and step is not None:
        state.losses.append((step, loss))
    if evaluation is not None:
        state.evaluations += 1
        state.evaluation_loss = evaluation
    runtime = _finite(entry.get("train_runtime"))
    if runtime is not None:
        state.runtime_seconds = runtime


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    # A text such as 1e999 is valid JSON and becomes infinite.
    return number if number - number == 0.0 else None


def read_trainer_state(path: str) -> TrainerState:
    """Read a ``trainer_state.json``. Raises StateError with a sentence, and OSError when the file cannot be opened."""
    with open(path, "rb") as stream:
        data = stream.read(STATE_LIMIT_BYTES + 1)
    if len(data) > STATE_LIMIT_BYTES:
        raise StateError("has more than %d bytes, which no trainer's state has" % STATE_LIMIT_BYTES)
    if not data.strip():
        raise StateError("is empty")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StateError("is cut or damaged (%s)" % error) from None
    return parse_trainer_state(text)


def matching_files(folder: str, pattern: str) -> list[str]:
    """Return the files below a folder that match a pattern and are not empty, sorted, at most ``NAMES_LIMIT``.

    ``**`` stands for any folders. A file that vanishes meanwhile is left out.
    """
    names = []
    for path in glob.iglob(os.path.join(glob.escape(folder), pattern), recursive=True):
        try:
            if os.path.isfile(path) and os.path.getsize(path) > 0:
                names.append(os.path.relpath(path, folder))
        except OSError:
            continue
    return sorted(names)[:NAMES_LIMIT]


def read_output(folder: str, wanted: Mapping[str, Any]) -> OutputFacts:
    """Look for what ``expect.output`` names in an attempt's folder. Never raises for what is in the files."""
    facts = OutputFacts()
    for pattern in wanted.get("files") or []:
        text = str(pattern)
        facts.files[text] = [] if pattern_problem(text) else matching_files(folder, text)
    name = str(wanted.get("trainer_state") or "")
    if not name:
        return facts
    facts.trainer_state_path = name
    wrong = pattern_problem(name)
    if wrong:
        facts.trainer_state_problem = "The path %s %s; name a file below the attempt's folder." % (name, wrong)
        return facts
    try:
        facts.trainer_state = read_trainer_state(os.path.join(folder, name))
    except FileNotFoundError:
        facts.trainer_state_problem = "There is no %s; look whether the training saved it." % name
    except OSError as error:
        facts.trainer_state_problem = "%s cannot be read: %s." % (name, error.strerror or error)
    except StateError as error:
        facts.trainer_state_problem = "%s %s; look for the cause in the log." % (name, error)
    return facts
