# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The training loop."""

from __future__ import annotations

import sys
import time
from collections import deque
from datetime import timedelta

import numpy as np

from .checkpoint import Checkpoints, State
from .config import Settings
from .group import Group
from .model import TOKENS_PER_SAMPLE, VALIDATION, Floats, Ints, NextToken, learning_rate, tokens
from .placement import Placement
from .progress import Bar, TrainingBar
from .report import Report


class Training:
    """One run of a training on this rank.

    Samples are dealt out to the data-parallel copies of the model, and the tokens of a copy's samples to the ranks that
    share it, so that all ranks work on different tokens and the sum over all of them is that of the global batch.

    :param version: the name of the run for a logger; its end is shown as ``v_num``
    """

    def __init__(
        self,
        settings: Settings,
        placement: Placement,
        group: Group,
        checkpoints: Checkpoints,
        report: Report,
        version: str,
    ) -> None:
        self._settings, self._group, self._report = settings, group, report
        self._checkpoints, self._version = checkpoints, version
        self._rank = placement.rank
        self._model = NextToken(settings.seed)
        self._state = State(0, 0, 0.0)
        self._val_loss: float | None = None
        self._metrics: dict[str, float | str] = {"v_num": version[-4:]}
        self._timings: deque[float] = deque(maxlen=settings.timing_window)
        self._bar: TrainingBar | None = None
        # Gradient, sum of losses, and whether rank 0 wants to stop: one message for each step.
        self._message: Floats = np.zeros(len(self._model.weights) + 2, np.float32)

    def run(self) -> None:
        """Train up to ``max_steps`` or ``max_time``, from the last checkpoint if there is one."""
        settings, report = self._settings, self._report
        self._restore()
        if settings.sanity_val_batches and not self._state.step:
            self._evaluate(settings.sanity_val_batches, "Sanity Checking", 0)
        if self._finished():
            return
        start = time.monotonic() - self._state.elapsed
        if self._rank == 0:
            self._bar = TrainingBar(sys.stdout, "Training")
            self._bar.reset(settings.train_batches, "Epoch 0")
        stop = False
        saved = self._state.step
        while self._state.step < settings.max_steps and not stop:
            stop = self._step(start)
            if stop:
                self._say_time_is_up()
            if settings.limit_val_batches and (stop or self._state.step % settings.val_check_interval == 0):
                self._validate()
                saved = self._state.step
        if self._bar:
            self._bar.metrics(self._metrics)
        if self._state.step >= settings.max_steps:
            report.lightning(f"`Trainer.fit` stopped: `max_steps={settings.max_steps}` reached.")
        if self._bar:
            self._bar.close(leave=True)
        if self._rank == 0 and saved != self._state.step:
            self._checkpoints.save(self._state, self._model.weights, self._val_loss, validated=False)

    def _restore(self) -> None:
        """Go on from the last checkpoint, which rank 0 reads for all."""
        counts = np.zeros(3, np.float64)
        weights = np.zeros_like(self._model.weights)
        if self._rank == 0:
            loaded = self._checkpoints.load()
            if loaded:
                state, weights = loaded
                counts[:] = state.step, state.consumed_samples, state.elapsed
        self._group.all_reduce(counts)
        if counts[0]:
            self._group.all_reduce(weights)
            self._model.weights[:] = weights
            self._state = State(int(counts[0]), int(counts[1]), float(counts[2]))

    def _finished(self) -> bool:
        """Whether nothing is left to do, as after resuming a training that had reached one of its limits."""
        settings, state = self._settings, self._state
        if settings.max_time is not None and state.elapsed >= settings.max_time:
            self._say_time_is_up()
            return True
        if state.step >= settings.max_steps:
            self._report.lightning(f"`Trainer.fit` stopped: `max_steps={settings.max_steps}` reached.")
            return True
        return False

    def _say_time_is_up(self) -> None:
        elapsed = timedelta(seconds=int(self._state.elapsed))
        self._report.lightning(f"Time limit reached. Elapsed time is {elapsed}. Signaling Trainer to stop.")

    def _share(self, first_sample: int) -> tuple[Ints, Ints]:
        """This rank's part of the global batch that begins with a sample."""
        settings = self._settings
        tensor, replicas = settings.tensor_parallel * settings.context_parallel, settings.data_parallel
        # Megatron counts the ranks of one model copy first, then the copies, then the stages of the pipeline.
        stage, rest = divmod(self._rank, tensor * replicas)
        replica, part = rest // tensor, stage * tensor + rest % tensor
        count = settings.global_batch // replicas * TOKENS_PER_SAMPLE
        start = first_sample * TOKENS_PER_SAMPLE + replica * count
        parts = settings.model_parallel
        return tokens(settings.seed, start + count * part // parts, start + count * (part + 1) // parts)

    def _step(self, start: float) -> bool:
        """One step of all ranks; True if it was the last one for lack of time."""
        settings, state, message = self._settings, self._state, self._message
        began = time.monotonic()
        gradient = message[:-2]
        message[-2] = self._model.gradient(*self._share(state.consumed_samples), gradient)
        late = settings.max_time is not None and began - start >= settings.max_time
        message[-1] = float(late and self._rank == 0)
        self._group.all_reduce(message)
        message[:-1] /= settings.global_batch * TOKENS_PER_SAMPLE
        self._model.step(gradient, learning_rate(settings, state.step), settings.gradient_clip)
        now = time.monotonic()
        self._timings.append(now - began)
        consumed = state.consumed_samples + settings.global_batch
        self._state = State(state.step + 1, consumed, now - start)
        if self._bar:
            self._metrics["reduced_train_loss"] = float(message[-2])
            self._metrics["global_step"] = float(state.step)
            self._metrics["consumed_samples"] = float(np.float32(consumed))
            self._metrics["train_step_timing in s"] = float(np.float32(sum(self._timings) / len(self._timings)))
            if self._val_loss is not None:
                self._metrics["val_loss"] = self._val_loss
            self._bar.update(state.step + 1)
            self._bar.metrics(self._metrics)
        return bool(message[-1])

    def _validate(self) -> None:
        """Validate, and keep a checkpoint."""
        self._val_loss = self._evaluate(self._settings.limit_val_batches, "Validation", 1)
        if self._rank == 0:
            self._metrics["val_loss"] = self._val_loss
            if self._bar:
                self._bar.metrics(self._metrics)
            self._checkpoints.save(self._state, self._model.weights, self._val_loss, validated=True)

    def _evaluate(self, batches: int, name: str, below: int) -> float:
        """The mean loss over so many batches of the validation data."""
        settings = self._settings
        meter = Bar(sys.stdout, name, below) if self._rank == 0 else None
        if meter:
            meter.reset(batches, f"{name} DataLoader 0")
        total = np.zeros(1, np.float64)
        for batch in range(batches):
            total += self._model.loss(*self._share(VALIDATION + batch * settings.global_batch))
            if meter:
                meter.update(batch + 1)
        self._group.all_reduce(total)
        if meter:
            meter.close(leave=False)
            if not below:
                sys.stdout.write("\r")
        return float(np.float32(total[0] / (batches * settings.global_batch * TOKENS_PER_SAMPLE)))
