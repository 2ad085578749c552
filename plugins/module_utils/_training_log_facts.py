# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a training log tells: the facts of one log, and of the logs of one job together. Private to this collection."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Iterator, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_text import compact_ranges

STOP_MAX_STEPS = "max_steps"
STOP_MAX_TIME = "max_time"
STOP_MAX_EPOCHS = "max_epochs"
STOP_NO_BATCHES = "no_batches"
STOP_EARLY = "early_stop"
STOP_COMPLETED = "completed"


@dataclass
class StepTiming:
    """Statistics of the seconds per step; steps ``first_step`` to ``last_step`` were averaged.

    ``half_width`` is the precision of one value as printed, in seconds. ``thinned`` tells that not all steps between
    the two were read.
    """

    mean: float
    standard_deviation: float | None
    count: int
    first_step: int
    last_step: int
    minimum: float
    maximum: float
    warmup_steps: int
    half_width: float
    source: str
    thinned: bool


@dataclass
class Failure:
    """One known failure seen in the log. ``count`` is the number of lines, a lower bound in long logs."""

    name: str
    fatal: bool
    cause: str
    remedy: str
    count: int
    first_line: str
    last_line: str
    after_progress: bool


@dataclass
class LogFacts:
    """What a log says about the last attempt in it. None means that the log does not say it.

    Steps are those of the bar, exactly: ``last_step`` of ``total_steps``. ``printed_loss`` is the last loss as text,
    also when it is ``nan``; ``last_loss`` is the last finite one. ``consumed_samples`` and ``global_step`` come from
    one bar and carry their printed precision; the ``first_`` ones belong to the first bar that had both. ``ranks`` are
    written as ranges, and so are ``tasks``, the labels of ``srun --label``. ``settings`` are what the trainer says of
    itself; ``conflicts`` holds those of which the tasks say different things, with all their values.
    ``series`` holds at most ``SERIES_POINTS`` of ``[step, seconds or None, loss or None]``.
    """

    log_format: str
    bytes_read: int = 0
    attempts: int = 0
    cut_segments: int = 0
    first_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    resumed: bool | None = None
    elapsed_seconds: float | None = None
    remaining_seconds: float | None = None
    last_progress_line: str | None = None
    step_timing: StepTiming | None = None
    last_step_seconds: float | None = None
    loss_count: int = 0
    printed_loss: str | None = None
    last_loss: float | None = None
    minimum_loss: float | None = None
    nan_count: int = 0
    inf_count: int = 0
    first_nonfinite_line: str | None = None
    consumed_samples: dict[str, Any] | None = None
    global_step: dict[str, Any] | None = None
    first_consumed_samples: dict[str, Any] | None = None
    first_global_step: dict[str, Any] | None = None
    validation_count: int = 0
    last_validation_loss: float | None = None
    stop_reason: str | None = None
    stop_steps: int | None = None
    stop_elapsed_seconds: float | None = None
    stop_line: str | None = None
    ranks: str = ""
    rank_count: int = 0
    rank_lines: int = 0
    rank_evidence: str | None = None
    tasks: str = ""
    task_count: int = 0
    world_sizes: list[int] = field(default_factory=list)
    process_counts: list[int] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    settings: dict[str, int] = field(default_factory=dict)
    conflicts: dict[str, list[int]] = field(default_factory=dict)
    summary: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    series: list[list[float | None]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, text and finite numbers: strict JSON."""
        return asdict(self)


@dataclass
class Progress:
    """How far a running training is, from one bar. ``loss`` is None when not finite or not shown."""

    step: int
    total: int | None
    seconds_per_step: float | None
    loss: float | None
    elapsed_seconds: float
    remaining_seconds: float | None


def merge_facts(parts: Sequence[LogFacts]) -> LogFacts:
    """Join the facts of the files of one job, for example its stdout and stderr.

    Progress comes from the file that shows most of it; stops, ranks, settings and failures from all. Failures of a
    file that shows no progress count as "after progress", because nothing shows that the training went on after them.
    Raises ValueError without any part.
    """
    if not parts:
        raise ValueError("merge_facts needs the facts of at least one log")
    main = max(parts, key=lambda part: (part.last_step or 0, part.loss_count))
    merged = LogFacts(**{name: getattr(main, name) for name in LogFacts.__dataclass_fields__})
    others = [part for part in parts if part is not main]
    merged.bytes_read = sum(part.bytes_read for part in parts)
    merged.attempts = max(part.attempts for part in parts)
    merged.cut_segments = sum(part.cut_segments for part in parts)
    if any(part.resumed for part in parts):
        merged.resumed = True
    ranks: set[int] = set()
    tasks: set[int] = set()
    for part in parts:
        ranks.update(_expand_ranges(part.ranks))
        tasks.update(_expand_ranges(part.tasks))
    merged.tasks = compact_ranges(sorted(tasks))
    merged.task_count = len(tasks)
    merged.conflicts = conflicts(
        [{name: set(values) for name, values in part.conflicts.items()} for part in parts]
        + [{name: {value} for name, value in part.settings.items()} for part in parts]
    )
    merged.ranks = compact_ranges(sorted(ranks))
    merged.rank_count = len(ranks)
    merged.rank_lines = sum(part.rank_lines for part in parts)
    merged.world_sizes = sorted({size for part in parts for size in part.world_sizes})
    merged.process_counts = sorted({count for part in parts for count in part.process_counts})
    merged.hosts = sorted({host for part in parts for host in part.hosts})
    merged.settings = {}
    merged.summary = {}
    for part in [*others, main]:
        merged.settings.update(part.settings)
        merged.summary.update(part.summary)
    for part in others:
        if merged.stop_reason is None:
            merged.stop_reason = part.stop_reason
            merged.stop_steps = part.stop_steps
            merged.stop_elapsed_seconds = part.stop_elapsed_seconds
            merged.stop_line = part.stop_line
        merged.rank_evidence = merged.rank_evidence or part.rank_evidence
        merged.nan_count += part.nan_count
        merged.inf_count += part.inf_count
        merged.first_nonfinite_line = merged.first_nonfinite_line or part.first_nonfinite_line
        if not main.loss_count and part.loss_count:
            merged.loss_count += part.loss_count
            merged.printed_loss = part.printed_loss
            merged.last_loss = part.last_loss
            merged.minimum_loss = part.minimum_loss
        merged.validation_count = max(merged.validation_count, part.validation_count)
        if merged.last_validation_loss is None:
            merged.last_validation_loss = part.last_validation_loss
        if not merged.series:
            merged.series = part.series
    merged.failures = _merge_failures([part.failures for part in parts])
    return merged


def conflicts(parts: Sequence[dict[str, set[int]]]) -> dict[str, list[int]]:
    """Return the settings that have more than one value in all parts together, with their values in order."""
    values: dict[str, set[int]] = {}
    for part in parts:
        for name, seen in part.items():
            values.setdefault(name, set()).update(seen)
    return {name: sorted(seen) for name, seen in sorted(values.items()) if len(seen) > 1}


def _merge_failures(lists: Sequence[Sequence[Failure]]) -> list[Failure]:
    merged: dict[str, Failure] = {}
    for failures in lists:
        for failure in failures:
            known = merged.get(failure.name)
            if known is None:
                merged[failure.name] = Failure(**asdict(failure))
                continue
            known.count += failure.count
            known.last_line = failure.last_line
            known.after_progress = known.after_progress or failure.after_progress
    return list(merged.values())


def _expand_ranges(text: str) -> Iterator[int]:
    for part in text.split(",") if text else []:
        first, _dash, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
