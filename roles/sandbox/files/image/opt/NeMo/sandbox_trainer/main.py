# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the command line to a training, and from its end to a return code."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

import numpy as np
import yaml

from .checkpoint import Checkpoints
from .config import Config, Settings, read, settings
from .group import Group
from .placement import Placement, placement
from .report import Report
from .training import Training


class Terminated(BaseException):
    """Slurm, or somebody, asks this process to end."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main(arguments: Sequence[str]) -> int:
    """Train. Returns 0 when a limit of the training was reached, 143 after SIGTERM, and else 1 with a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    overrides: list[str] = []
    rank = os.environ.get("SLURM_PROCID", "0")
    try:
        config, overrides = read(arguments)
        _train(config)
    except Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Report.every_rank(f"[rank: {rank}] Received SIGTERM: {int(signal.SIGTERM)}")
        return 128 + int(signal.SIGTERM)
    except Exception:  # what Hydra does around the function it calls
        Report.every_rank(f"Error executing job with overrides: {overrides}\n{traceback.format_exc().rstrip()}")
        return 1
    return 0


def _train(config: Config) -> None:
    wanted = settings(config)
    place = placement(os.environ, wanted)
    report = Report(place.rank)
    report.info(
        "megatron_gpt_pretraining:34",
        "\n\n************** Experiment configuration ***********\n" + yaml.safe_dump(config.tree, sort_keys=False),
    )
    checkpoints = Checkpoints(config, report)
    report.info("exp_manager:394", f"Experiments will be logged at {checkpoints.log_folder}")
    report.every_rank(
        f"Initializing distributed: GLOBAL_RANK: {place.rank}, MEMBER: {place.rank + 1}/{place.world_size}"
    )
    with Group(place) as group:
        _introduce(report, wanted, place)
        # Diverging numbers are a result to be shown, not something to warn about.
        with np.errstate(all="ignore"):
            Training(wanted, place, group, checkpoints, report, _version(place)).run()


def _introduce(report: Report, wanted: Settings, place: Placement) -> None:
    """Say how many ranks have met, and how they share the work."""
    rule = "-" * 100
    report.lightning(
        f"{rule}\ndistributed_backend=nccl\n"
        f"All distributed processes registered. Starting with {place.world_size} processes\n{rule}\n"
    )
    shared = wanted.tensor_parallel * wanted.context_parallel
    stage = shared * wanted.data_parallel
    groups = [
        list(range(first + part, first + stage, shared))
        for first in range(0, place.world_size, stage)
        for part in range(shared)
    ]
    report.info("megatron_init:241", f"Rank 0 has data parallel group: {groups[0]}")
    report.info("megatron_init:247", f"All data parallel group ranks: {groups}")
    report.info("megatron_init:256", f"Rank 0 has model parallel group: {_model_group(wanted, stage)}")
    # Not NeMo's words: nobody shall take the numbers of the sandbox for those of a GPU.
    report.warning(
        "sandbox_trainer", "This is the sandbox's trainer: a small model on mock data. Its speed and loss mean nothing."
    )


def _model_group(wanted: Settings, stage: int) -> list[int]:
    """The ranks that share rank 0's copy of the model."""
    shared = wanted.tensor_parallel * wanted.context_parallel
    return [first * stage + part for first in range(wanted.pipeline_parallel) for part in range(shared)]


def _version(place: Placement) -> str:
    """A name for this run as loggers make them up, but the same whenever the same job step is looked at."""
    digits = int.from_bytes(hashlib.sha256(place.token.encode()).digest()[:8], "big")
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[digits // len(letters) ** place_value % len(letters)] for place_value in range(8))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
