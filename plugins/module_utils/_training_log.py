# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the log of a training job, of any size, in constant memory.

A log is a stream of *segments* that end in a line feed or a carriage return (progress bars redraw with the latter).
The bytes are searched in blocks of fixed size for a few fixed strings, and only the segments that hold one are looked
at, so that gigabytes take seconds. The blocks lie at fixed places of the file: how the caller cuts its chunks changes
nothing.

Rules that the numbers follow:

* Only a whole bar counts, from its percent sign to its closing bracket. Halves say nothing.
* A step is counted once, with the values of its last drawing. Lightning draws a bar twice for each step, first with
  the values of the step before.
* Warm-up (``warmup_steps``): the first steps of a process are left out of the step time: ten, or a tenth of the
  steps that the bar announces if that is less, and at least one. They hold one-time work (compilation, connections,
  memory pools); NeMo's timer also averages over five steps, which carries the first one on.
* A log to which a requeued job was appended holds more than one attempt. Facts are those of the last one. An attempt
  begins when a rank registers again, when NeMo prints its configuration again after progress, when a bar of the same
  epoch starts again at zero, or when its clock runs back by half.
* Where several tasks draw the bar of one training (older releases of Hugging Face's Trainer, one for each node), the
  bars of the task that came first count.
* The label that ``srun --label`` writes before a line is taken from the lines of the start: settings, ranks, nodes.
* "Num examples" is that of the training, not of the evaluations, which print it again.
* A clock of whole seconds says nothing of how much single steps differ when they are short: no spread below
  ``CLOCK_SPREAD_SECONDS``.
* Beyond the first ``FULL_SCAN_BYTES`` failures are looked for in the blocks that hold a traceback or an error of srun
  (all lines of the first such blocks, of later ones only these), and in the last block. Counts of lines are lower
  bounds in longer logs.
* After ``BAR_LIMIT`` bars (more than any training draws) only the last bar of a block is read; ``thinned`` says so.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    Match,
    NamedTuple,
    Sequence,
)

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_failures import (
    FailureRule,
    all_tokens,
    classify_line,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_text import (
    BAR,
    OPEN_BAR,
    BarText,
    Printed,
    compact_ranges,
    is_infinite,
    is_nan,
    parse_bar_text,
    parse_count,
    parse_duration,
    parse_elapsed,
    parse_number,
    readable,
    strip_ansi,
)

# The unit of work. Larger blocks gain nothing, smaller ones cost more calls.
BLOCK_BYTES = 1 << 20
# A segment longer than this is cut at a blank: such a "line" is binary data or a program that never ends its lines.
SEGMENT_LIMIT_BYTES = 1 << 20
# How far from a found string its segment may reach.
SEGMENT_REACH_BYTES = 8192
# Failures start early or end the log; 8 MiB hold the start of any job, and scanning them fully costs half a second.
FULL_SCAN_BYTES = 8 << 20
# Later blocks with a traceback or an error of srun that are scanned in full, for the lines around it.
FULL_SCAN_EXTRA_BLOCKS = 24
# Beyond the full scan: tracebacks and errors of srun looked at; a log with more of them repeats itself.
TROUBLE_LIMIT = 20_000
# The same for each string that marks progress, a stop or a rank.
MARK_LIMIT = 200_000
# Bars read before thinning: two drawings of each of 100,000 steps, which is a fortnight at 13 seconds a step.
BAR_LIMIT = 200_000
# Percent signs of a block that begin no bar, after which bars are searched by their two first characters; after as
# many of those, only the last bar of the block is read.
PLAIN_PERCENT_LIMIT = 2_000
# Lines of a fully scanned block compared with the table of failures for one string; the last block has no limit.
BLOCK_TROUBLE_LIMIT = 1_000
# Bars looked at from the end of a piece of log to find the last one of the training.
LAST_BAR_LOOKS = 256
# Longest evidence line in the facts, in characters.
EVIDENCE_CHARACTERS = 300
# What may stand before the percent sign of a bar: the rank and the bar's name.
BAR_WORDS_BYTES = 120
# Printed numbers whose meaning is remembered.
NUMBERS_REMEMBERED = 4096
# Points kept of the curve of loss and step time.
SERIES_POINTS = 400
# Hosts and world sizes kept.
NAMES_LIMIT = 256
# Ranks kept; a larger one is damage.
RANK_LIMIT = 1 << 20

WARMUP_STEPS = 10
WARMUP_DIVISOR = 10
# A clock that jumped back by half and at least this many seconds is a new process, not two ranks that differ.
CLOCK_BACK_SECONDS = 10.0

# A bar's clock has whole seconds; differences of steps shorter than this are mostly rounding.
CLOCK_SPREAD_SECONDS = 5.0

# Live progress is in the last bytes of a log: one bar has some 200, and other ranks may write between.
TAIL_BYTES = 64 * 1024

LOG_FORMATS = ("nemo", "huggingface", "none")

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


class _Bar(NamedTuple):
    step: int
    total: int | None
    inside: bytes
    start: int
    end: int


class _Mark(NamedTuple):
    """A segment with a string that was looked for: where the first one is, its start and end.

    ``trouble`` tells whether one of them may be that of a known failure.
    """

    at: int
    start: int
    end: int
    trouble: bool


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


class _Attempt:
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
        self.last_bar: _Bar | None = None
        self.bar_block = b""
        # A later drawing of the last bar, not read yet, and its step and total as they are printed.
        self.redrawn: tuple[Match[bytes], bytes] | None = None
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

    def newest_bar(self) -> _Bar | None:
        """Return the last bar in its last drawing."""
        if self.redrawn is not None:
            match, self.bar_block = self.redrawn
            self.last_bar = _bar_of(match)
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


class _Format(NamedTuple):
    """How one framework writes its logs."""

    name: str
    # Kind of a bar by the text before its percent sign: "train", "validation" or None, and its epoch.
    bar_kind: Callable[[bytes], tuple[str | None, int | None]]
    loss_keys: tuple[str, ...]
    timing_key: str | None
    # The same as they stand in a bar.
    loss_marks: tuple[bytes, ...]
    timing_mark: bytes
    # Strings that mark an interesting line wherever it is; and those looked for in fully scanned blocks only.
    tokens_anywhere: tuple[bytes, ...]
    tokens_scanned: tuple[bytes, ...]
    has_bars: bool


_NEMO_TRAIN = re.compile(rb"Epoch (\d{1,9}):[ :]*\d{0,3}$")
# The usual order of the values, read in one go.
_NEMO_VALUES = re.compile(
    rb", reduced_train_loss=([^,]*), global_step=([^,]*), consumed_samples=[^,]*, train_step_timing in s=([^,]*)"
)
_NEMO_VALIDATION = re.compile(rb"Validation(?: DataLoader \d+)?:[ :]*\d{0,3}$|Validating:[ :]*\d{0,3}$")
_PLAIN_BAR = re.compile(rb"^\s*(?:0*\d{1,6}: ?)?\s*\d{1,3}$")

_MEMBER = re.compile(rb"GLOBAL_RANK: (\d{1,7}), MEMBER: (\d{1,7})/(\d{1,7})(?=\D)")
# The line that a script prints from every rank, as `print("Process ID: %d of %d" % (rank, ranks))`.
_PROCESS_ID = re.compile(rb"Process ID: (\d{1,7}) of (\d{1,7})(?=\D)")
_TASK_LABEL = re.compile(rb"\s*0*(\d{1,7}): ")
_PROCESSES = re.compile(rb"Starting (?:\w{1,10} )?with (\d{1,7}) processes")
_STOPPED = re.compile(
    rb"`?Trainer\.fit`? stopped: (`?max_steps=(\d{1,15})`? reached|`?max_epochs=|No training batches)"
)
_TIME_UP = re.compile(rb"Time limit reached\. Elapsed time is ([0-9:]+|\d+ days?, [0-9:]+)\. Signaling Trainer to stop")
_EARLY = re.compile(rb"Signaling Trainer to stop")
_RESTORED = re.compile(rb"Restor(?:ing|ed all) states from the checkpoint")
_NEMO_START = re.compile(rb"\*{4,} Experiment configuration \*{4,}")
_NEMO_ITERATION = re.compile(rb"Training epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,12}) \| ([^\r\n]{0,4000})")
_NCCL_HOST = re.compile(rb"([A-Za-z0-9][\w.-]{0,200}):\d+:\d+ \[\d+\] NCCL INFO Bootstrap ")

_HF_RUNNING = re.compile(rb"\*{5} Running (\w{1,20}) \*{5}")
_HF_DICTIONARY = re.compile(rb"\{('[\w./-]{1,80}': [^{}\r\n]{1,4000})\}")
_HF_ITEM = re.compile(rb"'([\w./-]{1,80})': '?([^,'{}]{1,60})'?")
_HF_COMPLETED = re.compile(rb"Training completed\. Do not forget")
_HF_PROCESSES = re.compile(rb"Num processes: (\d{1,7})\s")
_HF_RESUMED = re.compile(rb"Continuing training from (?:checkpoint|global step)")
_HF_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("num_examples", re.compile(rb"  Num examples = ([\d,]{1,20})\s")),
    ("epochs", re.compile(rb"  Num Epochs = ([\d,]{1,20})\s")),
    ("batch_size_per_device", re.compile(rb"  Instantaneous batch size per device = ([\d,]{1,20})\s")),
    ("global_batch_size", re.compile(rb"  Total train batch size \([^)]{0,100}\) = ([\d,]{1,20})\s")),
    ("gradient_accumulation_steps", re.compile(rb"  Gradient Accumulation steps = ([\d,]{1,20})\s")),
    ("steps", re.compile(rb"  Total optimization steps = ([\d,]{1,20})\s")),
    ("trainable_parameters", re.compile(rb"  Number of trainable parameters = +([\d,]{1,20})\s")),
)
# Keys of Trainer's dictionaries that are kept once, at the end of a training.
_HF_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss")


def _nemo_bar_kind(before: bytes) -> tuple[str | None, int | None]:
    match = _NEMO_TRAIN.search(before)
    if match is not None:
        return "train", int(match.group(1))
    if _NEMO_VALIDATION.search(before) is not None:
        return "validation", None
    return None, None


def _huggingface_bar_kind(before: bytes) -> tuple[str | None, int | None]:
    return ("train", None) if _PLAIN_BAR.match(before) else (None, None)


def _no_bar_kind(before: bytes) -> tuple[str | None, int | None]:
    return None, None


_FORMATS: dict[str, _Format] = {
    "nemo": _Format(
        name="nemo",
        bar_kind=_nemo_bar_kind,
        loss_keys=("reduced_train_loss", "train_loss", "loss"),
        timing_key="train_step_timing in s",
        loss_marks=(b"reduced_train_loss=", b"train_loss=", b"loss="),
        timing_mark=b"train_step_timing in s=",
        tokens_anywhere=(
            b"distributed: GLOBAL_RANK: ",
            b"`Trainer.fit` stopped: ",
            b"Time limit reached. Elapsed time is ",
        ),
        tokens_scanned=(
            b"GLOBAL_RANK: ",
            b"Process ID: ",
            b"Node ID ",
            b"Trainer",
            b" processes",
            b"states from the",
            b"Experiment configuration",
            b"NCCL INFO Bootstrap ",
        ),
        has_bars=True,
    ),
    "huggingface": _Format(
        name="huggingface",
        bar_kind=_huggingface_bar_kind,
        loss_keys=("loss",),
        timing_key=None,
        loss_marks=(),
        timing_mark=b"",
        tokens_anywhere=(b"***** Running training", b"'epoch': ", b"Training completed. Do"),
        tokens_scanned=(
            b"GLOBAL_RANK: ",
            b"Process ID: ",
            b"Node ID ",
            b"***** Running ",
            b"NCCL INFO Bootstrap ",
            b"  Num examples",
            b"  Num Epochs",
            b"  Instantaneous batch",
            b"  Total train batch",
            b"  Gradient Accum",
            b"  Total optimization",
            b"  Number of trainable",
            b"Num processes: ",
            b"Continuing training from",
        ),
        has_bars=True,
    ),
    "none": _Format(
        name="none",
        bar_kind=_no_bar_kind,
        loss_keys=(),
        timing_key=None,
        loss_marks=(),
        timing_mark=b"",
        tokens_anywhere=(b"distributed: GLOBAL_RANK: ",),
        tokens_scanned=(b"GLOBAL_RANK: ", b"Process ID: ", b"Node ID ", b" processes", b"NCCL INFO Bootstrap "),
        has_bars=False,
    ),
}

# PyTorch's launcher waits for those of the other nodes after its own processes have ended. It complains, with a
# traceback, when one of them was faster, and goes on: what it says of that is no failure.
_LEFT_ALONE = b"Error waiting on exit barrier"
_NO_FAILURE_WHEN_LEFT_ALONE = frozenset(
    ("traceback", "python_exception", "head_node_unreachable", "rank_missing", "host_not_resolved")
)

# What every failure of a running job leaves behind: Python's traceback, or srun's word on a task that ended. The
# strings of the light scan are long on purpose: the longer, the faster they are searched.
_TROUBLE = (b"Traceback (most recent call last)", b"srun: error: ")


def _format(log_format: str) -> _Format:
    try:
        return _FORMATS[log_format]
    except KeyError:
        raise ValueError("log_format is '%s', but must be one of %s" % (log_format, ", ".join(LOG_FORMATS))) from None


def _value_in(inside: bytes, mark: bytes) -> bytes:
    """Return the text after a mark such as ``loss=`` up to the next comma, or nothing.

    The mark must begin a value: ``loss=`` is not found in ``val_loss=``.
    """
    at = inside.find(mark)
    while at > 0 and inside[at - 1] not in b" ,":
        at = inside.find(mark, at + 1)
    if at < 0:
        return b""
    start = at + len(mark)
    end = inside.find(b",", start)
    return inside[start:] if end < 0 else inside[start:end]


def _is_rank(rank: int, world_size: int) -> bool:
    """Tell whether two numbers can be a rank and the number of ranks; others are damage."""
    return 0 < world_size <= RANK_LIMIT and rank < world_size


def _counters(text: BarText) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return global_step and consumed_samples of a bar, if it shows both."""
    step = parse_number(text.values.get("global_step", ""))
    samples = parse_number(text.values.get("consumed_samples", ""))
    if step is None or samples is None:
        return None, None
    return step.as_dict(), samples.as_dict()


def _label_of(line: bytes) -> int | None:
    """Return the label of ``srun --label`` at the start of a line, or None."""
    match = _TASK_LABEL.match(line)
    return int(match.group(1)) if match is not None else None


def _line_start(block: bytes, at: int) -> bytes:
    """Return how the line around a place begins; nothing when it began in an earlier block."""
    start = block.rfind(b"\n", 0, at) + 1
    return block[start : start + 16] if start > 0 else b""


def _text_before(block: bytes, at: int) -> bytes:
    """Return what stands before a place on its line, at most ``BAR_WORDS_BYTES``."""
    before = block[max(0, at - 120) : at]
    return before[max(before.rfind(b"\r"), before.rfind(b"\n")) + 1 :]


def _bar_at(block: bytes, at: int) -> _Bar | None:
    """Return the whole bar whose percent sign is at this place, or None."""
    match = BAR.match(block, at)
    return None if match is None else _bar_of(match)


def _bar_of(match: Match[bytes]) -> _Bar:
    step, total, inside = match.groups()
    return _Bar(int(step), None if total == b"?" else int(total), inside, match.start(), match.end())


def _last_training_bar(block: bytes, style: _Format, total: int | None) -> _Bar | None:
    """Return the last whole training bar of a block (with this total, if one is given), or None."""
    at = block.rfind(b"%|")
    # Other bars may follow it (a validation, other programs), but not thousands of them.
    for _look in range(LAST_BAR_LOOKS):
        if at < 0:
            return None
        progress_bar = _bar_at(block, at)
        if (
            progress_bar is not None
            and (total is None or progress_bar.total == total)
            and style.bar_kind(_text_before(block, at))[0] == "train"
        ):
            return progress_bar
        at = block.rfind(b"%|", 0, at)
    return None


def _open_bars(block: bytes) -> Iterator[_Bar]:
    """Yield the bars of a training whose number of steps is unknown: ``7it [...]``."""
    at = block.find(b"it [")
    while at >= 0:
        start = at
        while start > 0 and at - start < 16 and 48 <= block[start - 1] <= 57:
            start -= 1
        match = OPEN_BAR.match(block, start)
        if match is not None:
            yield _Bar(int(match.group(1)), None, match.group(2), start, match.end())
        at = block.find(b"it [", at + 4)


def _iteration_bars(block: bytes) -> Iterator[_Bar]:
    """Yield the lines of newer NeMo versions that print a line for each step, written as bars.

    They count from zero and show the last index where a bar shows the number of steps; they have no clock.
    """
    at = block.find(b", iteration ")
    while at >= 0:
        start = max(0, block.rfind(b"\n", max(0, at - 200), at) + 1)
        match = _NEMO_ITERATION.search(block, start, min(len(block), at + SEGMENT_REACH_BYTES))
        if match is not None and match.end() < len(block):
            values = match.group(4).replace(b": ", b"=").replace(b" | ", b", ")
            yield _Bar(
                int(match.group(2)) + 1, int(match.group(3)) + 1, b"00:00, " + values, match.start(), match.end()
            )
        at = block.find(b", iteration ", at + 1)


class _Reader:
    """Take a log in pieces and gather its facts."""

    def __init__(self, log_format: str) -> None:
        self._format = _format(log_format)
        self._attempt = _Attempt(log_format)
        self._attempts_ended = 0
        self._bytes_read = 0
        self._offset = 0
        self._pieces: list[bytes] = []
        self._pieces_size = 0
        self._carry = b""
        self._held: bytes | None = None
        self._cut_segments = 0
        self._bars_read = 0
        self._marks_left = dict.fromkeys(self._format.tokens_anywhere, MARK_LIMIT)
        self._marks_left.update(dict.fromkeys(_TROUBLE, TROUBLE_LIMIT))
        self._trouble_seen = False
        self._extra_blocks = FULL_SCAN_EXTRA_BLOCKS
        self._thinned = False
        self._open_bars = False
        self._iteration_lines = False
        self._last_kind: tuple[bytes, tuple[str | None, int | None]] = (b"", (None, None))
        self._last_training_words = b""
        self._numbers: dict[bytes, Printed | None] = {}
        self._failure_tokens = frozenset(all_tokens())
        self._trouble_tokens = self._failure_tokens - set(self._format.tokens_anywhere)
        self._line_start = b""
        # The label of the line that was looked at last, up to where in which block, and whether a block ended a line.
        self._label: int | None = None
        self._label_block = b""
        self._label_to = 0
        self._at_line_start = True
        self._full_tokens = sorted(
            {_LEFT_ALONE} | set(all_tokens()) | set(self._format.tokens_anywhere) | set(self._format.tokens_scanned)
        )

    # Blocks.

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the log, in any amount."""
        self._bytes_read += len(chunk)
        if not self._pieces and len(chunk) == BLOCK_BYTES:
            self._take_block(chunk)
            return
        self._pieces.append(chunk)
        self._pieces_size += len(chunk)
        if self._pieces_size < BLOCK_BYTES:
            return
        data = b"".join(self._pieces)
        end = len(data) - len(data) % BLOCK_BYTES
        for start in range(0, end, BLOCK_BYTES):
            self._take_block(data[start : start + BLOCK_BYTES])
        self._pieces = [data[end:]] if end < len(data) else []
        self._pieces_size = len(data) - end

    def finish(self) -> LogFacts:
        """End the log and return its facts."""
        if self._pieces:
            self._take_block(b"".join(self._pieces))
            self._pieces = []
        if self._held is not None:
            self._read_block(self._held, full=True, final=True)
            self._held = None
        if self._carry:
            self._read_block(self._carry, full=True, final=True)
            self._carry = b""
        return self._facts()

    def _take_block(self, raw: bytes) -> None:
        data = self._carry + raw if self._carry else raw
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut == 0 and len(data) > SEGMENT_LIMIT_BYTES:
            # At a blank, so that no number is cut in two and read as two numbers.
            cut = data.rfind(b" ", len(data) - SEGMENT_REACH_BYTES) + 1 or len(data)
            self._cut_segments += 1
        self._carry = data[cut:]
        if self._held is not None:
            self._read_block(self._held, full=self._offset < FULL_SCAN_BYTES)
            self._offset += len(self._held)
        self._held = data[:cut]

    def _read_block(self, block: bytes, full: bool, final: bool = False) -> None:
        block = strip_ansi(block)
        if full:
            lines = self._marked_lines(block, self._full_tokens, final)
        else:
            lines = self._marks_of_light_scan(block)
            if self._extra_blocks > 0 and self._trouble_seen:
                self._extra_blocks -= 1
                lines = self._marked_lines(block, self._full_tokens, final)
                full = True
        if self._format.has_bars:
            self._read_bars(block, lines, full)
        for line in lines:
            self._read_line(block, line)
        if self._format.name == "huggingface" and block:
            self._label_at(block, len(block))
            self._at_line_start = block.endswith(b"\n")

    def _label_at(self, block: bytes, at: int) -> int | None:
        """Return the label of the line that holds a place, None without one; places are asked for in order.

        A bar of a whole training may be one line over many blocks, with its label at the start.
        """
        if block is not self._label_block:
            self._label_block, self._label_to = block, 0
            if self._at_line_start:
                self._label = _label_of(block)
        newline = block.rfind(b"\n", self._label_to, at)
        if newline >= 0:
            self._label = _label_of(block[newline + 1 : newline + 17])
        self._label_to = max(at, self._label_to)
        return self._label

    def _is_other_task(self, block: bytes, at: int) -> bool:
        """Tell whether a bar is drawn by another task than the one whose bars are read."""
        if self._format.name != "huggingface":
            return False
        label, reader = self._label_at(block, at), self._attempt.bar_task
        if label is not None and reader is not None and label != reader:
            return True
        return self._is_evaluation(label, block, at)

    def _is_evaluation(self, label: int | None, block: bytes, at: int) -> bool:
        """Tell the bar of an announced evaluation from the training's by its clock, which began later.

        Only where both have the same total; others are told apart by that.
        """
        attempt = self._attempt
        if attempt.training.get(label, True):
            return False
        progress_bar, last = _bar_at(block, at), attempt.newest_bar()
        if progress_bar is None or last is None or progress_bar.total != last.total:
            return False
        if last.step == last.total:
            return True
        now, before = parse_elapsed(progress_bar.inside), parse_elapsed(last.inside)
        if now is not None and before is not None and now < before:
            attempt.evaluating = True
        if not attempt.evaluating:
            return False
        attempt.evaluating = progress_bar.step != progress_bar.total
        return True

    def _marks_of_light_scan(self, block: bytes) -> deque[_Mark]:
        """Return the marked lines of a block that is searched for a few strings only."""
        low = 0
        if b"\n" not in block:
            # Bars and nothing else: a message would end its line. Only one that is being ended may be here.
            low = max(0, len(block) - SEGMENT_REACH_BYTES)
        tokens = [token for token in (*_TROUBLE, *self._format.tokens_anywhere) if self._marks_left[token] > 0]
        self._trouble_seen = False
        found: dict[int, _Mark] = {}
        for token in tokens:
            limit = self._marks_left[token]
            count = self._find_marks(block, token, low, limit, found, token in self._failure_tokens)
            self._marks_left[token] = limit - count
            if count and token in _TROUBLE:
                self._trouble_seen = True
        return deque(sorted(found.values()))

    def _marked_lines(self, block: bytes, tokens: Sequence[bytes], final: bool) -> deque[_Mark]:
        """Return (place of the string, start, end) of every segment that holds one of the strings, in order."""
        found: dict[int, _Mark] = {}
        for token in tokens:
            limited = not final and token in self._trouble_tokens
            limit = BLOCK_TROUBLE_LIMIT if limited else len(block)
            self._find_marks(block, token, 0, limit, found, token in self._failure_tokens)
        return deque(sorted(found.values()))

    @staticmethod
    def _find_marks(block: bytes, token: bytes, low: int, limit: int, found: dict[int, _Mark], trouble: bool) -> int:
        """Add the segments that hold a string, by their start, at most ``limit``; return how many were seen."""
        size = len(block)
        count = 0
        at = block.find(token, low)
        while at >= 0 and count < limit:
            count += 1
            reach = max(0, at - SEGMENT_REACH_BYTES)
            start = max(block.rfind(b"\n", reach, at), block.rfind(b"\r", reach, at)) + 1 or reach
            high = min(size, at + SEGMENT_REACH_BYTES)
            end = block.find(b"\n", at, high)
            end = high if end < 0 else end
            carriage = block.find(b"\r", at, end)
            end = end if carriage < 0 else carriage
            before = found.get(start)
            if before is None:
                found[start] = _Mark(at, start, end, trouble)
            elif at < before.at or trouble > before.trouble:
                found[start] = _Mark(min(at, before.at), start, max(end, before.end), trouble or before.trouble)
            at = block.find(token, max(end, at + 1))
        return count

    # Lines.

    def _read_line(self, block: bytes, mark: _Mark) -> None:
        start, end = mark.start, mark.end
        # With its end, which tells a whole number from one that was cut.
        line = block[start : end + 1]
        self._line_start = line if start == 0 or block[start - 1 : start] == b"\n" else _line_start(block, start)
        self._read_events(line)
        if self._format.name == "nemo":
            self._read_lightning(line)
        elif self._format.name == "huggingface":
            self._read_huggingface(line)
        if _LEFT_ALONE in line:
            self._attempt.left_alone = True
        if mark.trouble:
            # Only such a line is compared with the long table of failures.
            self._read_trouble(block, start, line)

    def _read_trouble(self, block: bytes, start: int, line: bytes) -> None:
        before_start = block.rfind(b"\n", max(0, start - SEGMENT_REACH_BYTES), max(0, start - 1)) + 1
        rule = classify_line(line, block[before_start:start])
        if rule is not None and not (self._attempt.left_alone and rule.name in _NO_FAILURE_WHEN_LEFT_ALONE):
            self._add_failure(rule, line)

    def _read_events(self, line: bytes) -> None:
        if b"GLOBAL_RANK: " in line:
            for match in _MEMBER.finditer(line):
                self._add_rank(int(match.group(1)), int(match.group(3)), line)
            self._add_task()
        if b"Process ID: " in line:
            for match in _PROCESS_ID.finditer(line):
                self._add_process(int(match.group(1)), int(match.group(2)), line)
            self._add_task()
        if b"Node ID " in line:
            self._add_task()
        if b" processes" in line:
            processes = _PROCESSES.search(line)
            if processes is not None:
                self._attempt.process_counts.add(int(processes.group(1)))
        if b"NCCL INFO Bootstrap " in line:
            host = _NCCL_HOST.search(line)
            if host is not None and len(self._attempt.hosts) < NAMES_LIMIT:
                self._attempt.hosts.add(host.group(1).decode("ascii", "replace"))

    def _read_lightning(self, line: bytes) -> None:
        attempt = self._attempt
        if b"Trainer" in line:
            stopped = _STOPPED.search(line)
            time_up = _TIME_UP.search(line)
            if stopped is not None:
                # A stop at max_time is followed by no such line; one that follows says the true reason.
                if stopped.group(2) is not None:
                    self._add_stop(STOP_MAX_STEPS, line)
                    attempt.facts.stop_steps = int(stopped.group(2))
                elif b"epochs" in stopped.group(1):
                    self._add_stop(STOP_MAX_EPOCHS, line)
                else:
                    self._add_stop(STOP_NO_BATCHES, line)
            elif time_up is not None:
                self._add_stop(STOP_MAX_TIME, line)
                attempt.facts.stop_elapsed_seconds = parse_duration(time_up.group(1))
            elif _EARLY.search(line) is not None:
                self._add_stop(STOP_EARLY, line)
        if b"states from the" in line and _RESTORED.search(line) is not None:
            attempt.restored = True
        began_before = attempt.has_progress() or attempt.interrupted
        if began_before and b"Experiment configuration" in line and _NEMO_START.search(line) is not None:
            self._new_attempt()

    def _read_huggingface(self, line: bytes) -> None:
        running = _HF_RUNNING.search(line) if b"***** Running " in line else None
        if running is not None:
            self._begin_part(running.group(1) == b"training")
        if b"Num processes: " in line:
            processes = _HF_PROCESSES.search(line)
            if processes is not None:
                self._attempt.process_counts.add(int(processes.group(1)))
        if b"Continuing training from" in line and _HF_RESUMED.search(line) is not None:
            self._attempt.restored = True
        if b" = " in line:
            for name, pattern in _HF_SETTINGS:
                match = pattern.search(line)
                if match is not None:
                    count = parse_count(match.group(1).decode("ascii"))
                    if count is not None:
                        self._add_setting(name, count)
        if b"'epoch': " in line:
            for dictionary in _HF_DICTIONARY.finditer(line):
                self._read_dictionary(dictionary.group(1), line)
        if b"Training completed. Do" in line and _HF_COMPLETED.search(line) is not None:
            self._add_stop(STOP_COMPLETED, line)

    def _read_dictionary(self, text: bytes, line: bytes) -> None:
        facts = self._attempt.facts
        for match in _HF_ITEM.finditer(text):
            key = match.group(1).decode("utf-8", "replace")
            value = match.group(2).decode("utf-8", "replace").strip()
            if key == "loss":
                loss = self._add_loss(match.group(2).strip(), line)
                if loss is not None:
                    self._attempt.series.add(facts.last_step or 0, None, loss)
            elif key == "eval_loss":
                facts.validation_count += 1
                number = parse_number(value)
                if number is not None:
                    facts.last_validation_loss = number.value
            elif key in _HF_SUMMARY:
                number = parse_number(value)
                if number is not None:
                    facts.summary[key] = number.value
                elif key == "train_loss":
                    self._add_loss(match.group(2).strip(), line)
                if key == "train_runtime":
                    self._add_stop(STOP_COMPLETED, line)

    def _add_task(self) -> int | None:
        """Note the task that wrote the line at hand and return its label; None without one.

        The label stands once at the start of a line, before all that a bar draws on it.
        """
        task = _label_of(self._line_start)
        if task is not None and task < RANK_LIMIT:
            self._attempt.tasks.add(task)
        return task

    def _begin_part(self, training: bool) -> None:
        """Begin what a task announces: its training, or an evaluation or prediction, whose settings do not count."""
        task = self._add_task()
        attempt = self._attempt
        began_before = attempt.has_progress() or attempt.interrupted
        if training and began_before and (task is None or task in attempt.training):
            self._new_attempt()
            self._add_task()
        if task is None and not training:
            # Its label is lost: it may be any of them.
            self._attempt.training.update(dict.fromkeys(self._attempt.training, False))
        self._attempt.training[task] = training

    def _add_setting(self, name: str, value: int) -> None:
        task = self._add_task()
        attempt = self._attempt
        if name == "num_examples" and not attempt.training.get(task, True):
            return
        attempt.facts.settings[name] = value
        values = attempt.setting_values.setdefault(name, set())
        if len(values) < NAMES_LIMIT:
            values.add(value)

    def _add_process(self, rank: int, processes: int, line: bytes) -> None:
        """Note the rank of a script's own line.

        Such a line may come late, even after progress: Python holds back what it prints to a file. Only a rank that
        says it again is a new process, unless each of several processes is alone.
        """
        if not _is_rank(rank, processes):
            return
        if rank in self._attempt.ranks and processes > 1:
            self._new_attempt()
        self._note_rank(rank, processes, line)

    def _add_rank(self, rank: int, world_size: int, line: bytes) -> None:
        if not _is_rank(rank, world_size):
            return
        attempt = self._attempt
        if attempt.has_progress() or attempt.interrupted or (rank in attempt.ranks and attempt.is_under_way()):
            self._new_attempt()
        self._note_rank(rank, world_size, line)

    def _note_rank(self, rank: int, world_size: int, line: bytes) -> None:
        attempt = self._attempt
        attempt.facts.rank_lines += 1
        if attempt.facts.rank_evidence is None:
            attempt.facts.rank_evidence = readable(line, EVIDENCE_CHARACTERS)
        attempt.ranks.add(rank)
        if len(attempt.world_sizes) < NAMES_LIMIT:
            attempt.world_sizes.add(world_size)

    def _add_stop(self, reason: str, line: bytes) -> None:
        facts = self._attempt.facts
        facts.stop_reason = reason
        facts.stop_line = readable(line, EVIDENCE_CHARACTERS)
        self._survived()

    def _add_failure(self, rule: FailureRule, line: bytes) -> None:
        text = readable(line, EVIDENCE_CHARACTERS)
        if rule.name == "requeued":
            self._attempt.interrupted = True
        known = self._attempt.failures.get(rule.name)
        if known is None:
            self._attempt.failures[rule.name] = Failure(
                rule.name, rule.fatal, rule.cause, rule.remedy, 1, text, text, True
            )
            return
        known.count += 1
        known.last_line = text
        known.after_progress = True

    def _survived(self) -> None:
        """Note that the training went on after the failures seen so far."""
        for failure in self._attempt.failures.values():
            failure.after_progress = False

    # Bars.

    def _read_bars(self, block: bytes, lines: deque[_Mark], full: bool) -> None:
        """Read the whole bars of a block, and the marked lines between them, in order."""
        if self._open_bars or self._iteration_lines:
            self._read_rare_bars(block, lines, _open_bars(block) if self._open_bars else _iteration_bars(block))
            return
        if self._bars_read >= BAR_LIMIT:
            last = _last_training_bar(block, self._format, None)
            if last is not None:
                self._thinned = True
                self._read_rare_bars(block, lines, [last])
            return
        sign, plain = b"%", 0
        find, match_bar = block.find, BAR.match
        bars_read = 0
        at = find(sign)
        while at >= 0:
            match = match_bar(block, at)
            if match is None:
                plain += 1
                if plain == PLAIN_PERCENT_LIMIT:
                    sign = b"%|"
                elif plain == 2 * PLAIN_PERCENT_LIMIT:
                    self._thinned = True
                    last = _last_training_bar(block, self._format, None)
                    if last is not None and last.start > at:
                        self._read_rare_bars(block, lines, [last])
                    break
                at = find(sign, at + 1)
                continue
            while lines and lines[0][0] < at:
                self._read_line(block, lines.popleft())
            bars_read += 1
            attempt = self._attempt
            words = self._last_training_words
            if self._is_other_task(block, at):
                at = find(sign, match.end())
                continue
            if match.group(1, 2) == attempt.step_text and words and block[at - len(words) : at] == words:
                # The same step drawn again, the most frequent case: kept as it is, read when the step is over.
                attempt.redrawn = (match, block)
            else:
                self._read_bar(block, _bar_of(match))
            at = find(sign, match.end())
        self._bars_read += bars_read
        if full and self._format.name == "nemo" and not self._attempt.has_progress():
            # Rarer forms, until one of them has shown progress.
            self._read_rare_bars(block, lines, _open_bars(block))
            self._open_bars = self._attempt.has_progress()
            if not self._open_bars:
                self._read_rare_bars(block, lines, _iteration_bars(block))
                self._iteration_lines = self._attempt.has_progress()

    def _read_rare_bars(self, block: bytes, lines: deque[_Mark], bars: Iterable[_Bar]) -> None:
        for progress_bar in bars:
            while lines and lines[0][0] < progress_bar.start:
                self._read_line(block, lines.popleft())
            self._read_bar(block, progress_bar)

    def _kind(self, block: bytes, at: int) -> tuple[str | None, int | None]:
        # Successive bars have the same words before them until the percentage changes.
        words, kind = self._last_kind
        if words and block[at - len(words) : at] == words:
            return kind
        low = max(0, at - BAR_WORDS_BYTES)
        before = block[low:at]
        start = max(before.rfind(b"\r"), before.rfind(b"\n")) + 1
        kind = self._format.bar_kind(before[start:])
        # Remembered with the line break before the words: without it, other words could stand there.
        words = before[start - 1 :] if start > 0 else b""
        self._last_kind = (words, kind)
        if kind[0] == "train":
            self._last_training_words = words
        return kind

    def _read_bar(self, block: bytes, progress_bar: _Bar) -> None:
        kind, epoch = self._kind(block, progress_bar.start)
        if block.startswith(b"Training epoch ", progress_bar.start):
            kind, epoch = "train", None
        if kind != "train":
            if kind == "validation":
                self._read_validation(progress_bar)
            return
        attempt = self._attempt
        last = attempt.newest_bar()
        if self._format.name == "huggingface":
            if not self._is_training_total(progress_bar) or self._is_other_task(block, progress_bar.start):
                return
            if attempt.bar_task is None:
                attempt.bar_task = self._label_at(block, progress_bar.start)
        if last is None or progress_bar.step != last.step:
            if last is not None:
                if progress_bar.step < last.step:
                    if not self._starts_again(progress_bar, epoch):
                        if progress_bar.step == 0 and epoch is not None:
                            attempt.last_epoch = epoch
                        return
                    self._new_attempt()
                elif self._clock_ran_back(progress_bar):
                    self._new_attempt()
                else:
                    self._commit_bar()
                attempt = self._attempt
            facts = attempt.facts
            if facts.last_step is None or progress_bar.step > facts.last_step:
                self._survived()
                facts.last_step = progress_bar.step
        attempt.last_bar = progress_bar
        attempt.bar_block = block
        attempt.step_text = (
            b"%d" % progress_bar.step,
            b"?" if progress_bar.total is None else b"%d" % progress_bar.total,
        )
        attempt.last_epoch = epoch

    def _is_training_total(self, progress_bar: _Bar) -> bool:
        """Tell a training bar from the nameless evaluation bars of Hugging Face's Trainer, by its total."""
        known = self._attempt.facts.settings.get("steps")
        last = self._attempt.newest_bar()
        if known is None and last is not None:
            known = last.total
        return known is None or progress_bar.total == known

    def _starts_again(self, progress_bar: _Bar, epoch: int | None) -> bool:
        """Decide whether a bar that went back belongs to a new process rather than to a new epoch or another rank."""
        attempt = self._attempt
        if epoch is not None and attempt.last_epoch is not None and epoch > attempt.last_epoch:
            return False
        if progress_bar.step == 0 and parse_elapsed(progress_bar.inside) == 0.0:
            return attempt.has_progress()
        return self._clock_ran_back(progress_bar)

    def _clock_ran_back(self, progress_bar: _Bar) -> bool:
        last = self._attempt.newest_bar()
        if last is None or self._iteration_lines:
            return False
        end = last.inside.find(b"<")
        if 0 < end == progress_bar.inside.find(b"<") and progress_bar.inside[:end] >= last.inside[:end]:
            # Written in the same number of characters, later times come later in the alphabet.
            return False
        before, now = parse_elapsed(last.inside), parse_elapsed(progress_bar.inside)
        return before is not None and now is not None and now * 2.0 < before - CLOCK_BACK_SECONDS

    def _read_validation(self, progress_bar: _Bar) -> None:
        # The bar of a validation is drawn many times; the first whole one after an incomplete one ends it.
        if progress_bar.total is not None and progress_bar.step >= progress_bar.total:
            if self._attempt.validation_open:
                self._attempt.facts.validation_count += 1
            self._attempt.validation_open = False
        else:
            self._attempt.validation_open = True

    def _commit_bar(self) -> None:
        """Take the values of the last drawing of a step.

        This runs for every step of a training, so it looks only for the texts it needs and remembers what they mean:
        three digits have few values.
        """
        attempt = self._attempt
        progress_bar = attempt.newest_bar()
        if progress_bar is None or progress_bar.step <= 0:
            return
        facts = attempt.facts
        if facts.first_step is None:
            facts.first_step = progress_bar.step
        elif attempt.second_step is None and progress_bar.step > facts.first_step:
            attempt.second_step = progress_bar.step
        if attempt.first_inside is None and b"consumed_samples=" in progress_bar.inside:
            attempt.first_inside = progress_bar.inside
        if self._format.timing_key is None:
            self._read_clock(progress_bar)
            return
        # Lightning draws a new step with the values of the one before first. If the log lost the second drawing, the
        # last values are shown again: they count once. (A rounded number, with an exponent, cannot tell.)
        usual = _NEMO_VALUES.search(progress_bar.inside)
        if usual is not None:
            loss_text, mark, timing_text = usual.groups()
        else:
            loss_text, mark, timing_text = self._values(progress_bar.inside)
        if mark and mark == attempt.sample_mark and b"e" not in mark:
            return
        attempt.sample_mark = mark
        loss = self._add_loss(loss_text) if loss_text else None
        seconds = self._number(timing_text)
        if seconds is not None and seconds.value > 0.0:
            if progress_bar.step > self._origin() + warmup_steps(progress_bar.total):
                if attempt.timing.count == 0:
                    attempt.timing_first = progress_bar.step
                attempt.timing.add(seconds.value)
                attempt.timing_last = progress_bar.step
                if seconds.half_width > attempt.timing_half_width:
                    attempt.timing_half_width = seconds.half_width
            attempt.series.add(progress_bar.step, seconds.value, loss)
        elif loss is not None:
            attempt.series.add(progress_bar.step, None, loss)

    def _values(self, inside: bytes) -> tuple[bytes, bytes, bytes]:
        """Return loss, global step and step time as printed in a bar; empty where it shows none."""
        losses = [text for text in (_value_in(inside, mark) for mark in self._format.loss_marks) if text]
        timing = _value_in(inside, self._format.timing_mark)
        return (losses[0] if losses else b""), _value_in(inside, b"global_step="), timing

    def _number(self, text: bytes) -> Printed | None:
        if text not in self._numbers:
            if len(self._numbers) >= NUMBERS_REMEMBERED:
                self._numbers.clear()
            self._numbers[text] = parse_number(text.decode("utf-8", "replace"))
        return self._numbers[text]

    def _origin(self) -> int:
        """Return the step before the first one of this process: 0 when fresh, the checkpoint's when resumed."""
        facts = self._attempt.facts
        if facts.first_step is None:
            return 0
        return facts.first_step - 1 if self._is_resumed() is not False else 0

    def _read_clock(self, progress_bar: _Bar) -> None:
        """Take the step time from the clock of the bar, for formats that print none."""
        attempt = self._attempt
        elapsed = parse_elapsed(progress_bar.inside)
        if elapsed is None or progress_bar.step < self._origin() + warmup_steps(progress_bar.total):
            return
        now = (progress_bar.step, elapsed)
        if attempt.clock_start is None or attempt.clock_last is None:
            attempt.clock_start = now
        else:
            steps = now[0] - attempt.clock_last[0]
            seconds = now[1] - attempt.clock_last[1]
            if steps > 0 and seconds >= 0.0:
                attempt.timing.add(seconds / steps)
                attempt.series.add(progress_bar.step, seconds / steps, None)
        attempt.clock_last = now

    def _add_loss(self, text: bytes, line: bytes | None = None) -> float | None:
        """Count a loss; ``line`` is the evidence, the bar if it is not given."""
        facts = self._attempt.facts
        number = self._number(text)
        if number is not None:
            facts.loss_count += 1
            facts.printed_loss = number.text
            facts.last_loss = number.value
            if facts.minimum_loss is None or number.value < facts.minimum_loss:
                facts.minimum_loss = number.value
            return number.value
        printed = text.decode("utf-8", "replace")
        if is_nan(printed):
            facts.nan_count += 1
        elif is_infinite(printed):
            facts.inf_count += 1
        else:
            return None
        facts.loss_count += 1
        facts.printed_loss = printed
        if facts.first_nonfinite_line is None:
            facts.first_nonfinite_line = readable(self._bar_line() if line is None else line, EVIDENCE_CHARACTERS)
        return None

    def _bar_line(self) -> bytes:
        progress_bar = self._attempt.newest_bar()
        if progress_bar is None:
            return b""
        block = self._attempt.bar_block
        return _text_before(block, progress_bar.start) + block[progress_bar.start : progress_bar.end]

    def _read_last_bar(self) -> None:
        """Read the last bar of the attempt in full, and the first one with counters."""
        attempt = self._attempt
        progress_bar = attempt.newest_bar()
        if progress_bar is None:
            return
        facts = attempt.facts
        facts.last_progress_line = readable(self._bar_line(), EVIDENCE_CHARACTERS)
        facts.total_steps = progress_bar.total
        facts.epoch = attempt.last_epoch
        text = parse_bar_text(progress_bar.inside)
        if text is None:
            return
        if not self._iteration_lines:
            facts.elapsed_seconds = text.elapsed_seconds
            facts.remaining_seconds = text.remaining_seconds
        timing = parse_number(text.values.get(self._format.timing_key or "", ""))
        facts.last_step_seconds = timing.value if timing is not None else text.seconds_per_step
        validation = parse_number(text.values.get("val_loss", ""))
        if validation is not None:
            facts.last_validation_loss = validation.value
        facts.global_step, facts.consumed_samples = _counters(text)
        first = parse_bar_text(attempt.first_inside) if attempt.first_inside is not None else None
        if first is not None:
            facts.first_global_step, facts.first_consumed_samples = _counters(first)

    # Attempts.

    def _new_attempt(self) -> None:
        self._attempts_ended += 1
        self._attempt = _Attempt(self._format.name)

    def _is_resumed(self) -> bool | None:
        """Tell whether the training went on from a checkpoint; None when the log does not show it."""
        attempt = self._attempt
        first = attempt.facts.first_step
        if attempt.restored:
            return True
        if first is None:
            return None
        if first == 1:
            return False
        if attempt.second_step is not None:
            # A bar drawn every k steps starts at k.
            return first > attempt.second_step - first
        return None

    def _facts(self) -> LogFacts:
        self._commit_bar()
        attempt = self._attempt
        facts = attempt.facts
        facts.bytes_read = self._bytes_read
        facts.attempts = self._attempts_ended + (1 if self._bytes_read else 0)
        facts.cut_segments = self._cut_segments
        facts.resumed = self._is_resumed()
        self._read_last_bar()
        facts.step_timing = self._timing()
        facts.ranks = compact_ranges(sorted(attempt.ranks))
        facts.rank_count = len(attempt.ranks)
        facts.tasks = compact_ranges(sorted(attempt.tasks))
        facts.task_count = len(attempt.tasks)
        facts.conflicts = _conflicts([attempt.setting_values])
        facts.world_sizes = sorted(attempt.world_sizes)
        facts.process_counts = sorted(attempt.process_counts)
        facts.hosts = sorted(attempt.hosts)
        facts.failures = list(attempt.failures.values())
        facts.series = attempt.series.points
        return facts

    def _timing(self) -> StepTiming | None:
        attempt = self._attempt
        statistics = attempt.timing
        if statistics.count == 0:
            return None
        warmup = warmup_steps(attempt.facts.total_steps)
        if self._format.timing_key is not None:
            return StepTiming(
                statistics.mean,
                statistics.standard_deviation(),
                statistics.count,
                attempt.timing_first,
                attempt.timing_last,
                statistics.minimum,
                statistics.maximum,
                warmup,
                attempt.timing_half_width,
                "log: %s" % self._format.timing_key,
                self._thinned,
            )
        start, last = attempt.clock_start, attempt.clock_last
        if start is None or last is None or last[0] <= start[0]:
            return None
        steps = last[0] - start[0]
        # The clock has whole seconds: the mean is taken over the whole span, which the rounding hardly touches.
        mean = (last[1] - start[1]) / steps
        return StepTiming(
            mean,
            statistics.standard_deviation() if mean >= CLOCK_SPREAD_SECONDS else None,
            steps,
            start[0] + 1,
            last[0],
            statistics.minimum,
            statistics.maximum,
            warmup,
            1.0 / steps,
            "log: clock of the progress bar",
            self._thinned,
        )


def read_log(chunks: Iterable[bytes], log_format: str) -> LogFacts:
    """Read a log given in pieces of any size.

    ``log_format`` is ``nemo``, ``huggingface`` or ``none`` (failures and ranks only). Any bytes are accepted. Raises
    ValueError for an unknown format.
    """
    reader = _Reader(log_format)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


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
    merged.conflicts = _conflicts(
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


def _conflicts(parts: Sequence[dict[str, set[int]]]) -> dict[str, list[int]]:
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


def tail_progress(read_tail: bytes | Callable[[], bytes], log_format: str, total: int | None = None) -> Progress | None:
    """Return the progress that the last whole training bar in the last bytes of a log shows; None without one.

    ``read_tail`` gives those bytes, or is a function that reads them; they may begin in the middle of a line. ``total``
    is the number of steps to expect: with it, bars of another length (evaluations of Hugging Face's Trainer have no
    name) are passed over. Raises ValueError for an unknown format.
    """
    style = _format(log_format)
    if not style.has_bars:
        return None
    data = strip_ansi(read_tail if isinstance(read_tail, bytes) else read_tail())
    progress_bar = _last_training_bar(data, style, total)
    if progress_bar is None and log_format == "nemo":
        bars = [
            progress_bar
            for progress_bar in _open_bars(data)
            if style.bar_kind(_text_before(data, progress_bar.start))[0] == "train"
        ]
        bars = bars or list(_iteration_bars(data))
        progress_bar = bars[-1] if bars else None
    if progress_bar is None:
        return None
    text = parse_bar_text(progress_bar.inside)
    if text is None:
        return None
    loss: float | None = None
    for key in style.loss_keys:
        number = parse_number(text.values[key]) if key in text.values else None
        if number is not None:
            loss = number.value
            break
    seconds = text.seconds_per_step
    key = style.timing_key or ""
    timing = parse_number(text.values[key]) if key in text.values else None
    if timing is not None:
        seconds = timing.value
    elif seconds is None and progress_bar.step > 0 and text.elapsed_seconds > 0.0:
        seconds = text.elapsed_seconds / progress_bar.step
    remaining = text.remaining_seconds
    if remaining is None and seconds is not None and progress_bar.total is not None:
        remaining = max(0.0, seconds * (progress_bar.total - progress_bar.step))
    return Progress(progress_bar.step, progress_bar.total, seconds, loss, text.elapsed_seconds, remaining)


def read_log_file(path: str, log_format: str) -> LogFacts:
    """Read one log file in constant memory. Raises OSError when it cannot be read, ValueError for a bad format."""
    reader = _Reader(log_format)
    with open(path, "rb", buffering=0) as stream:
        while True:
            chunk = stream.read(BLOCK_BYTES)
            if not chunk:
                return reader.finish()
            reader.feed(chunk)


def read_log_files(paths: Sequence[str], log_format: str) -> LogFacts | None:
    """Read the log files of one job and join their facts; a file that does not exist is left out.

    Returns None when none of them exists. Raises OSError when one exists and cannot be read.
    """
    parts = []
    for path in paths:
        try:
            parts.append(read_log_file(path, log_format))
        except FileNotFoundError:
            continue
    return merge_facts(parts) if parts else None


def read_log_tail(path: str, size: int = TAIL_BYTES) -> bytes:
    """Return the last ``size`` bytes of a file. Raises OSError when it cannot be read."""
    with open(path, "rb", buffering=0) as stream:
        end = stream.seek(0, 2)
        stream.seek(max(0, end - size))
        pieces = []
        missing = size
        while missing > 0:
            piece = stream.read(missing)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
    return b"".join(pieces)


def last_lines(path: str, count: int) -> list[str]:
    """Return the last ``count`` lines of a file for a message: a redrawn bar shows its last drawing only.

    Raises OSError when the file cannot be read.
    """
    return tail_lines(read_log_tail(path), count)


def tail_lines(data: bytes, count: int) -> list[str]:
    """Return the last ``count`` lines that say something; of redrawn text the last drawing, each of bounded length."""
    lines: list[str] = []
    if count <= 0:
        return lines
    for line in reversed(data.split(b"\n")):
        drawings = [drawing for drawing in line.split(b"\r") if drawing.strip()]
        text = readable(drawings[-1], EVIDENCE_CHARACTERS) if drawings else ""
        if text:
            lines.append(text)
            if len(lines) == count:
                break
    lines.reverse()
    return lines
