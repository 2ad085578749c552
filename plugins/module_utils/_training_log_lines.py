# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lines of a log look like that tell of ranks, settings, losses and ends. Private to this collection."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_text import BarText, parse_number

# Ranks kept; a larger one is damage.
RANK_LIMIT = 1 << 20
# The usual order of the values, read in one go.
NEMO_VALUES = re.compile(
    rb", reduced_train_loss=([^,]*), global_step=([^,]*), consumed_samples=[^,]*, train_step_timing in s=([^,]*)"
)
MEMBER = re.compile(rb"GLOBAL_RANK: (\d{1,7}), MEMBER: (\d{1,7})/(\d{1,7})(?=\D)")
# The line that a script prints from every rank, as `print("Process ID: %d of %d" % (rank, ranks))`.
PROCESS_ID = re.compile(rb"Process ID: (\d{1,7}) of (\d{1,7})(?=\D)")
_TASK_LABEL = re.compile(rb"\s*0*(\d{1,7}): ")
PROCESSES = re.compile(rb"Starting (?:\w{1,10} )?with (\d{1,7}) processes")
STOPPED = re.compile(rb"`?Trainer\.fit`? stopped: (`?max_steps=(\d{1,15})`? reached|`?max_epochs=|No training batches)")
TIME_UP = re.compile(rb"Time limit reached\. Elapsed time is ([0-9:]+|\d+ days?, [0-9:]+)\. Signaling Trainer to stop")
EARLY = re.compile(rb"Signaling Trainer to stop")
RESTORED = re.compile(rb"Restor(?:ing|ed all) states from the checkpoint")
NEMO_START = re.compile(rb"\*{4,} Experiment configuration \*{4,}")
NCCL_HOST = re.compile(rb"([A-Za-z0-9][\w.-]{0,200}):\d+:\d+ \[\d+\] NCCL INFO Bootstrap ")
HF_RUNNING = re.compile(rb"\*{5} Running (\w{1,20}) \*{5}")
HF_DICTIONARY = re.compile(rb"\{('[\w./-]{1,80}': [^{}\r\n]{1,4000})\}")
HF_ITEM = re.compile(rb"'([\w./-]{1,80})': '?([^,'{}]{1,60})'?")
HF_COMPLETED = re.compile(rb"Training completed\. Do not forget")
HF_PROCESSES = re.compile(rb"Num processes: (\d{1,7})\s")
HF_RESUMED = re.compile(rb"Continuing training from (?:checkpoint|global step)")
HF_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("num_examples", re.compile(rb"  Num examples = ([\d,]{1,20})\s")),
    ("epochs", re.compile(rb"  Num Epochs = ([\d,]{1,20})\s")),
    ("batch_size_per_device", re.compile(rb"  Instantaneous batch size per device = ([\d,]{1,20})\s")),
    ("global_batch_size", re.compile(rb"  Total train batch size \([^)]{0,100}\) = ([\d,]{1,20})\s")),
    ("gradient_accumulation_steps", re.compile(rb"  Gradient Accumulation steps = ([\d,]{1,20})\s")),
    ("steps", re.compile(rb"  Total optimization steps = ([\d,]{1,20})\s")),
    ("trainable_parameters", re.compile(rb"  Number of trainable parameters = +([\d,]{1,20})\s")),
)
# Keys of Trainer's dictionaries that are kept once, at the end of a training.
HF_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss")
# PyTorch's launcher waits for those of the other nodes after its own processes have ended. It complains, with a
# traceback, when one of them was faster, and goes on: what it says of that is no failure.
LEFT_ALONE = b"Error waiting on exit barrier"
NO_FAILURE_WHEN_LEFT_ALONE = frozenset(
    ("traceback", "python_exception", "head_node_unreachable", "rank_missing", "host_not_resolved")
)
# What every failure of a running job leaves behind: Python's traceback, or srun's word on a task that ended. The
# strings of the light scan are long on purpose: the longer, the faster they are searched.
TROUBLE = (b"Traceback (most recent call last)", b"srun: error: ")


def value_in(inside: bytes, mark: bytes) -> bytes:
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


def is_rank(rank: int, world_size: int) -> bool:
    """Tell whether two numbers can be a rank and the number of ranks; others are damage."""
    return 0 < world_size <= RANK_LIMIT and rank < world_size


def counters(text: BarText) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return global_step and consumed_samples of a bar, if it shows both."""
    step = parse_number(text.values.get("global_step", ""))
    samples = parse_number(text.values.get("consumed_samples", ""))
    if step is None or samples is None:
        return None, None
    return step.as_dict(), samples.as_dict()


def label_of(line: bytes) -> int | None:
    """Return the label of ``srun --label`` at the start of a line, or None."""
    match = _TASK_LABEL.match(line)
    return int(match.group(1)) if match is not None else None


def line_start(block: bytes, at: int) -> bytes:
    """Return how the line around a place begins; nothing when it began in an earlier block."""
    start = block.rfind(b"\n", 0, at) + 1
    return block[start : start + 16] if start > 0 else b""
