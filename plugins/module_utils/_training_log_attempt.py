# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of one attempt while they are gathered, in constant memory. Private to this collection."""

from __future__ import annotations

from typing import Match

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_bars import Bar, bar_of
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_facts import Failure, LogFacts

# Points kept of the curve of loss and step time.
SERIES_POINTS = 400
WARMUP_STEPS = 10
WARMUP_DIVISOR = 10


class _Statistics:
    """Mean and spread of a stream of numbers (Welford's recurrence), in constant memory."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        self.minimum = float("inf")
        self.maximum = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)
        self.minimum = min(self.minimum, value)
        self.maximum = max(self.maximum, value)

    def standard_deviation(self) -> float | None:
        """Return the sample standard deviation; a single number has none."""
        if self.count < 2:
            return None
        deviation: float = (max(self.squares, 0.0) / (self.count - 1)) ** 0.5
        return deviation


class _Series:
    """At most ``SERIES_POINTS`` evenly spaced points of a curve: when full, every second one is dropped."""

    def __init__(self) -> None:
        self.points: list[list[float | None]] = []
        self._stride = 1
        self._seen = 0

    def add(self, step: int, seconds: float | None, loss: float | None) -> None:
        if self._seen % self._stride == 0:
            if len(self.points) >= SERIES_POINTS:
                self.points = self.points[::2]
                self._stride *= 2
            if self._seen % self._stride == 0:
                self.points.append([float(step), seconds, loss])
        self._seen += 1


def warmup_steps(total: int | None) -> int:
    """Return how many first steps of a process are left out of the step time (the rule of this file's header)."""
    if total is None:
        return WARMUP_STEPS
    return max(1, min(WARMUP_STEPS, total // WARMUP_DIVISOR))


class Attempt:
    """The facts of one attempt while they are gathered."""

    def __init__(self, log_format: str) -> None:
        self.facts = LogFacts(log_format)
        self.timing = _Statistics()
        self.timing_first = 0
        self.timing_last = 0
        self.timing_half_width = 0.0
        self.series = _Series()
        self.failures: dict[str, Failure] = {}
        self.ranks: set[int] = set()
        self.tasks: set[int] = set()
        # By task (None without a label): whether it began to train, and whether it speaks of the training just now.
        self.training: dict[int | None, bool] = {}
        # Whether bars of an evaluation are being drawn that has as many batches as the training has steps.
        self.evaluating = False
        # Whether a launcher complained that another one left before it, when its own processes had ended.
        self.left_alone = False
        self.setting_values: dict[str, set[int]] = {}
        # The task whose bars are read.
        self.bar_task: int | None = None
        self.world_sizes: set[int] = set()
        self.process_counts: set[int] = set()
        self.hosts: set[str] = set()
        self.last_bar: Bar | None = None
        self.bar_block = b""
        # A later drawing of the last bar, not read yet, and its step and total as they are printed.
        self.redrawn: Match[bytes] | None = None
        self.redrawn_block = b""
        self.step_text: tuple[bytes, bytes] = (b"", b"")
        self.first_inside: bytes | None = None
        self.second_step: int | None = None
        self.sample_mark = b""
        self.last_epoch: int | None = None
        self.validation_open = False
        self.restored = False
        self.interrupted = False
        # The clock of the bar after the warm-up, for formats that print no time of a step: (step, seconds).
        self.clock_start: tuple[int, float] | None = None
        self.clock_last: tuple[int, float] | None = None

    def newest_bar(self) -> Bar | None:
        """Return the last bar in its last drawing."""
        if self.redrawn is not None:
            self.last_bar, self.bar_block = bar_of(self.redrawn), self.redrawn_block
            self.redrawn = None
        return self.last_bar

    def has_progress(self) -> bool:
        """Tell whether a step was finished."""
        return bool(self.facts.last_step)

    def is_under_way(self) -> bool:
        """Tell whether the ranks had met, or had failed to: a rank that registers now is a new process.

        Independent trainings of one process each register the same rank again and again, all at the start.
        """
        failed = any(failure.fatal for failure in self.failures.values())
        met = bool(self.process_counts) and self.world_sizes != {1}
        return failed or met or self.facts.stop_reason is not None
