# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
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

from collections import deque
from typing import Iterable, NamedTuple, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_attempt import Attempt, warmup_steps
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_bars import (
    BAR_WORDS_BYTES,
    SEGMENT_REACH_BYTES,
    Bar,
    bar_at,
    bar_of,
    iteration_bars,
    last_training_bar,
    open_bars,
    style_of,
    text_before,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_facts import (
    STOP_COMPLETED,
    STOP_EARLY,
    STOP_MAX_EPOCHS,
    STOP_MAX_STEPS,
    STOP_MAX_TIME,
    STOP_NO_BATCHES,
    Failure,
    LogFacts,
    StepTiming,
    conflicts,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_failures import (
    FailureRule,
    all_tokens,
    classify_line,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_lines import (
    EARLY,
    HF_COMPLETED,
    HF_DICTIONARY,
    HF_ITEM,
    HF_PROCESSES,
    HF_RESUMED,
    HF_RUNNING,
    HF_SETTINGS,
    HF_SUMMARY,
    LEFT_ALONE,
    MEMBER,
    NCCL_HOST,
    NEMO_START,
    NEMO_VALUES,
    NO_FAILURE_WHEN_LEFT_ALONE,
    PROCESS_ID,
    PROCESSES,
    RANK_LIMIT,
    RESTORED,
    STOPPED,
    TIME_UP,
    TROUBLE,
    counters,
    is_rank,
    label_of,
    line_start,
    value_in,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_text import (
    BAR,
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
# Longest evidence line in the facts, in characters.
EVIDENCE_CHARACTERS = 300
# Printed numbers whose meaning is remembered.
NUMBERS_REMEMBERED = 4096
# Hosts and world sizes kept.
NAMES_LIMIT = 256
# A clock that jumped back by half and at least this many seconds is a new process, not two ranks that differ.
CLOCK_BACK_SECONDS = 10.0
# A bar's clock has whole seconds; differences of steps shorter than this are mostly rounding.
CLOCK_SPREAD_SECONDS = 5.0


class _Mark(NamedTuple):
    """A segment with a string that was looked for: where the first one is, its start and end.

    ``trouble`` tells whether one of them may be that of a known failure.
    """

    at: int
    start: int
    end: int
    trouble: bool


class Reader:
    """Take a log in pieces and gather its facts."""

    def __init__(self, log_format: str) -> None:
        self._format = style_of(log_format)
        self._attempt = Attempt(log_format)
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
        self._marks_left.update(dict.fromkeys(TROUBLE, TROUBLE_LIMIT))
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
            {LEFT_ALONE} | set(all_tokens()) | set(self._format.tokens_anywhere) | set(self._format.tokens_scanned)
        )

    # Blocks.

    # --- blocks -------------------------------------------------------------------------------------------------------

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
                self._label = label_of(block)
        newline = block.rfind(b"\n", self._label_to, at)
        if newline >= 0:
            self._label = label_of(block[newline + 1 : newline + 17])
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
        progress_bar, last = bar_at(block, at), attempt.newest_bar()
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

    # --- lines --------------------------------------------------------------------------------------------------------

    def _marks_of_light_scan(self, block: bytes) -> deque[_Mark]:
        """Return the marked lines of a block that is searched for a few strings only."""
        low = 0
        if b"\n" not in block:
            # Bars and nothing else: a message would end its line. Only one that is being ended may be here.
            low = max(0, len(block) - SEGMENT_REACH_BYTES)
        tokens = [token for token in (*TROUBLE, *self._format.tokens_anywhere) if self._marks_left[token] > 0]
        self._trouble_seen = False
        found: dict[int, _Mark] = {}
        for token in tokens:
            limit = self._marks_left[token]
            count = self._find_marks(block, token, low, limit, found, token in self._failure_tokens)
            self._marks_left[token] = limit - count
            if count and token in TROUBLE:
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
        self._line_start = line if start == 0 or block[start - 1 : start] == b"\n" else line_start(block, start)
        self._read_events(line)
        if self._format.name == "nemo":
            self._read_lightning(line)
        elif self._format.name == "huggingface":
            self._read_huggingface(line)
        if LEFT_ALONE in line:
            self._attempt.left_alone = True
        if mark.trouble:
            # Only such a line is compared with the long table of failures.
            self._read_trouble(block, start, line)

    def _read_trouble(self, block: bytes, start: int, line: bytes) -> None:
        before_start = block.rfind(b"\n", max(0, start - SEGMENT_REACH_BYTES), max(0, start - 1)) + 1
        rule = classify_line(line, block[before_start:start])
        if rule is not None and not (self._attempt.left_alone and rule.name in NO_FAILURE_WHEN_LEFT_ALONE):
            self._add_failure(rule, line)

    def _read_events(self, line: bytes) -> None:
        if b"GLOBAL_RANK: " in line:
            for match in MEMBER.finditer(line):
                self._add_rank(int(match.group(1)), int(match.group(3)), line)
            self._add_task()
        if b"Process ID: " in line:
            for match in PROCESS_ID.finditer(line):
                self._add_process(int(match.group(1)), int(match.group(2)), line)
            self._add_task()
        if b"Node ID " in line:
            self._add_task()
        if b" processes" in line:
            processes = PROCESSES.search(line)
            if processes is not None:
                self._attempt.process_counts.add(int(processes.group(1)))
        if b"NCCL INFO Bootstrap " in line:
            host = NCCL_HOST.search(line)
            if host is not None and len(self._attempt.hosts) < NAMES_LIMIT:
                self._attempt.hosts.add(host.group(1).decode("ascii", "replace"))

    def _read_lightning(self, line: bytes) -> None:
        attempt = self._attempt
        if b"Trainer" in line:
            stopped = STOPPED.search(line)
            time_up = TIME_UP.search(line)
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
            elif EARLY.search(line) is not None:
                self._add_stop(STOP_EARLY, line)
        if b"states from the" in line and RESTORED.search(line) is not None:
            attempt.restored = True
        began_before = attempt.has_progress() or attempt.interrupted
        if began_before and b"Experiment configuration" in line and NEMO_START.search(line) is not None:
            self._new_attempt()

    def _read_huggingface(self, line: bytes) -> None:
        running = HF_RUNNING.search(line) if b"***** Running " in line else None
        if running is not None:
            self._begin_part(running.group(1) == b"training")
        if b"Num processes: " in line:
            processes = HF_PROCESSES.search(line)
            if processes is not None:
                self._attempt.process_counts.add(int(processes.group(1)))
        if b"Continuing training from" in line and HF_RESUMED.search(line) is not None:
            self._attempt.restored = True
        if b" = " in line:
            for name, pattern in HF_SETTINGS:
                match = pattern.search(line)
                if match is not None:
                    count = parse_count(match.group(1).decode("ascii"))
                    if count is not None:
                        self._add_setting(name, count)
        if b"'epoch': " in line:
            for dictionary in HF_DICTIONARY.finditer(line):
                self._read_dictionary(dictionary.group(1), line)
        if b"Training completed. Do" in line and HF_COMPLETED.search(line) is not None:
            self._add_stop(STOP_COMPLETED, line)

    def _read_dictionary(self, text: bytes, line: bytes) -> None:
        facts = self._attempt.facts
        for match in HF_ITEM.finditer(text):
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
            elif key in HF_SUMMARY:
                number = parse_number(value)
                if number is not None:
                    facts.summary[key] = number.value
                elif key == "train_loss":
                    self._add_loss(match.group(2).strip(), line)
                if key == "train_runtime":
                    self._add_stop(STOP_COMPLETED, line)

    # --- what a line tells --------------------------------------------------------------------------------------------

    def _add_task(self) -> int | None:
        """Note the task that wrote the line at hand and return its label; None without one.

        The label stands once at the start of a line, before all that a bar draws on it.
        """
        task = label_of(self._line_start)
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
        if not is_rank(rank, processes):
            return
        if rank in self._attempt.ranks and processes > 1:
            self._new_attempt()
        self._note_rank(rank, processes, line)

    def _add_rank(self, rank: int, world_size: int, line: bytes) -> None:
        if not is_rank(rank, world_size):
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

    # --- bars ---------------------------------------------------------------------------------------------------------

    def _read_bars(self, block: bytes, lines: deque[_Mark], full: bool) -> None:
        """Read the whole bars of a block, and the marked lines between them, in order."""
        if self._open_bars or self._iteration_lines:
            self._read_rare_bars(block, lines, open_bars(block) if self._open_bars else iteration_bars(block))
            return
        if self._bars_read >= BAR_LIMIT:
            last = last_training_bar(block, self._format, None)
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
                    last = last_training_bar(block, self._format, None)
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
                attempt.redrawn, attempt.redrawn_block = match, block
            else:
                self._read_bar(block, bar_of(match))
            at = find(sign, match.end())
        self._bars_read += bars_read
        if full and self._format.name == "nemo" and not self._attempt.has_progress():
            # Rarer forms, until one of them has shown progress.
            self._read_rare_bars(block, lines, open_bars(block))
            self._open_bars = self._attempt.has_progress()
            if not self._open_bars:
                self._read_rare_bars(block, lines, iteration_bars(block))
                self._iteration_lines = self._attempt.has_progress()

    def _read_rare_bars(self, block: bytes, lines: deque[_Mark], bars: Iterable[Bar]) -> None:
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

    def _read_bar(self, block: bytes, progress_bar: Bar) -> None:
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

    def _is_training_total(self, progress_bar: Bar) -> bool:
        """Tell a training bar from the nameless evaluation bars of Hugging Face's Trainer, by its total."""
        known = self._attempt.facts.settings.get("steps")
        last = self._attempt.newest_bar()
        if known is None and last is not None:
            known = last.total
        return known is None or progress_bar.total == known

    def _starts_again(self, progress_bar: Bar, epoch: int | None) -> bool:
        """Decide whether a bar that went back belongs to a new process rather than to a new epoch or another rank."""
        attempt = self._attempt
        if epoch is not None and attempt.last_epoch is not None and epoch > attempt.last_epoch:
            return False
        if progress_bar.step == 0 and parse_elapsed(progress_bar.inside) == 0.0:
            return attempt.has_progress()
        return self._clock_ran_back(progress_bar)

    def _clock_ran_back(self, progress_bar: Bar) -> bool:
        last = self._attempt.newest_bar()
        if last is None or self._iteration_lines:
            return False
        end = last.inside.find(b"<")
        if 0 < end == progress_bar.inside.find(b"<") and progress_bar.inside[:end] >= last.inside[:end]:
            # Written in the same number of characters, later times come later in the alphabet.
            return False
        before, now = parse_elapsed(last.inside), parse_elapsed(progress_bar.inside)
        return before is not None and now is not None and now * 2.0 < before - CLOCK_BACK_SECONDS

    def _read_validation(self, progress_bar: Bar) -> None:
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
        usual = NEMO_VALUES.search(progress_bar.inside)
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
        losses = [text for text in (value_in(inside, mark) for mark in self._format.loss_marks) if text]
        timing = value_in(inside, self._format.timing_mark)
        return (losses[0] if losses else b""), value_in(inside, b"global_step="), timing

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

    def _read_clock(self, progress_bar: Bar) -> None:
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
        return text_before(block, progress_bar.start) + block[progress_bar.start : progress_bar.end]

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
        facts.global_step, facts.consumed_samples = counters(text)
        first = parse_bar_text(attempt.first_inside) if attempt.first_inside is not None else None
        if first is not None:
            facts.first_global_step, facts.first_consumed_samples = counters(first)

    # Attempts.

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def _new_attempt(self) -> None:
        self._attempts_ended += 1
        self._attempt = Attempt(self._format.name)

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
        facts.conflicts = conflicts([attempt.setting_values])
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
