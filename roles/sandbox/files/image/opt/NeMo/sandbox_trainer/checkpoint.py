# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints, named and kept as NeMo does: the best few by validation loss, and the last one to go on from."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .config import Config
from .model import Floats
from .report import Report

LAST = "-last"
DRAFT = ".unfinished"


@dataclass(frozen=True)
class State:
    """How far a training is: steps done, samples consumed, seconds trained in all its runs."""

    step: int
    consumed_samples: int
    elapsed: float


class Checkpoints:
    """The checkpoint folder of a training. Only rank 0 uses it.

    A checkpoint is a folder with ``weights.npz`` and ``state.json``. It is written under another name and renamed, so
    there are no halves of them.
    """

    def __init__(self, config: Config, report: Report) -> None:
        folder = config.get("exp_manager.explicit_log_dir")
        name = config.get("exp_manager.name", "megatron_gpt")
        root = Path(folder) if folder else Path(config.get("exp_manager.exp_dir", "nemo_experiments"), name)
        self.folder = root / "checkpoints"
        self.log_folder = root
        self._report = report
        self._wanted = bool(config.get("exp_manager.create_checkpoint_callback", True))
        self._resume = bool(config.get("exp_manager.resume_if_exists", False))
        self._lenient = bool(config.get("exp_manager.resume_ignore_no_checkpoint", False))
        parameters = "exp_manager.checkpoint_callback_params"
        self._template = str(config.get(f"{parameters}.filename", f"{name}--{{val_loss:.2f}}-{{step}}"))
        self._top_k = config.integer(f"{parameters}.save_top_k", 3, minimum=-1)
        self._best: list[tuple[float, str]] = []
        self._last: str | None = None

    def load(self) -> tuple[State, Floats] | None:
        """The last checkpoint, where resuming is asked for and there is one.

        :raises FileNotFoundError: when resuming is asked for, nothing is there, and that is not to be ignored
        """
        for draft in self.folder.glob(f"*{DRAFT}"):
            shutil.rmtree(draft, ignore_errors=True)
        if not self._resume:
            return None
        found = [path for path in self.folder.glob(f"*{LAST}") if (path / "state.json").exists()]
        if not found:
            words = "There were no checkpoints found in checkpoint_dir or no checkpoint folder at checkpoint_dir "
            if not self._lenient:
                raise FileNotFoundError(f"{words}:{self.folder}. Cannot resume.")
            self._report.warning("exp_manager:708", f"{words}:{self.folder}. Training from scratch.")
            return None
        states = {path: json.loads((path / "state.json").read_text(encoding="utf-8")) for path in found}
        path = max(found, key=lambda path: int(states[path]["step"]))
        self._report.info("exp_manager:733", f"Resuming training from checkpoint: {path}")
        self._report.lightning(f"Restoring states from the checkpoint path at {path}")
        state: dict[str, Any] = states[path]
        self._last = path.name
        self._best = [(float(loss), str(name)) for loss, name in state["best"] if (self.folder / name).is_dir()]
        with np.load(path / "weights.npz") as arrays:
            weights: Floats = arrays["weights"]
        return State(int(state["step"]), int(state["consumed_samples"]), float(state["elapsed"])), weights

    def save(self, state: State, weights: Floats, val_loss: float | None, validated: bool) -> None:
        """Keep the state as the last one and, after a validation, as one of the best if it is."""
        if not self._wanted:
            return
        name = self._name(state, val_loss)
        if validated and val_loss is not None:
            self._save_best(name, state, weights, val_loss)
        self._write(name + LAST, state, weights)
        if self._last not in (None, name + LAST):
            self._remove(str(self._last))
        self._last = name + LAST

    def _save_best(self, name: str, state: State, weights: Floats, val_loss: float) -> None:
        score = float("inf") if np.isnan(val_loss) else val_loss
        worst = max(self._best) if 0 < self._top_k <= len(self._best) else None
        if not self._top_k or (worst and score >= worst[0]):
            self._report.lightning(f"Epoch 0, global step {state.step}: 'val_loss' was not in top {self._top_k}")
            return
        self._best = [*(entry for entry in self._best if entry != worst), (score, name)]
        self._report.lightning(
            f"Epoch 0, global step {state.step}: 'val_loss' reached {score:0.5f} (best {min(self._best)[0]:0.5f}), "
            f"saving model to '{self.folder / name}.ckpt' as top {self._top_k}"
        )
        self._write(name, state, weights)
        if worst:
            self._remove(worst[1])

    def _name(self, state: State, val_loss: float | None) -> str:
        """The configured name, with each metric named before its value, as Lightning inserts it."""
        template = re.sub(r"\{(\w+)", r"\1={\1", self._template)
        return template.format(
            val_loss=0.0 if val_loss is None else val_loss,
            step=state.step,
            consumed_samples=float(state.consumed_samples),
            epoch=0,
        )

    def _write(self, name: str, state: State, weights: Floats) -> None:
        target = self.folder / name
        draft = self.folder / (name + DRAFT)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        with (draft / "weights.npz").open("wb") as stream:
            np.savez(stream, weights=weights)
            stream.flush()
            os.fsync(stream.fileno())
        with (draft / "state.json").open("w", encoding="utf-8") as text:
            json.dump({**vars(state), "best": self._best}, text)
            text.flush()
            os.fsync(text.fileno())
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)

    def _remove(self, name: str) -> None:
        self._report.info("nlp_overrides:480", f"Removing checkpoint: {self.folder / name}.ckpt")
        shutil.rmtree(self.folder / name, ignore_errors=True)
