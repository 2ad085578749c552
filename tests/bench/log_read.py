# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how long reading a large training log takes, and how much memory.

Writes a log of the size asked for (3 GB, or less when the disk has no room for twice that), reads it in a process of
its own, compares with ``wc -l``, and removes it. The last line of the output is one JSON object: ``seconds``,
``wc_seconds``, ``peak_mb``, and what the log was. Exit code 1 when a limit is passed: 100 MB of memory, or twice the
time of ``wc -l`` plus ten seconds (in proportion for a smaller log).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).resolve().parents[2]
FULL_SIZE = 3_000_000_000
MEMORY_LIMIT_MB = 100.0
TIME_LIMIT_EXTRA_SECONDS = 10.0
PIECE_STEPS = 20_000

KINDS = ("mixed", "bars", "lines", "errors", "trainer")


def bar(step: int, total: int, previous: bool) -> str:
    """Return one drawing of NeMo's bar; Lightning draws each step first with the values of the step before."""
    shown = step - 1 if previous else step
    elapsed = step * 13
    clock = f"{elapsed // 3600}:{elapsed // 60 % 60:02d}:{elapsed % 60:02d}"
    return (
        f"\rEpoch 0: : {100 * step // total:3d}%|▏         | {step}/{total} [{clock}<37:16:04, v_num=m9yd, "
        f"reduced_train_loss={2 + 1000 / (shown + 200):.3g}, global_step={shown - 1}.0, "
        f"consumed_samples={shown * 512}.0, train_step_timing in s=13.{shown % 90 + 10}]"
    )


def trainer_bar(step: int, total: int) -> str:
    """Return what Hugging Face's Trainer writes for one step: its bar, and every ten steps its losses."""
    elapsed = step * 13
    clock = f"{elapsed // 3600}:{elapsed // 60 % 60:02d}:{elapsed % 60:02d}"
    text = f"\r{100 * step // total:3d}%|▏         | {step}/{total} [{clock}<37:16:04, 12.72s/it]"
    if step % 10 == 0:
        text += f"\n0: {{'loss': {2 + 1000 / (step + 200):.4f}, 'learning_rate': 5e-05, 'epoch': {step / total:.2f}}}\n"
    return text


def piece(kind: str, start: int, total: int) -> bytes:
    """Return the next part of the log: ``PIECE_STEPS`` steps with what else such a log holds."""
    parts: list[str] = []
    for step in range(start + 1, start + 1 + PIECE_STEPS):
        if kind in ("mixed", "bars"):
            parts.append(bar(step, total, True))
            parts.append(bar(step, total, False))
        if kind in ("mixed", "lines"):
            for channel in range(6):
                parts.append(
                    f"\n{step % 16:2d}: gpu{step % 4 + 1:03d}:{4000 + step % 900}:{step % 5000} [{channel}] NCCL INFO "
                    f"Channel {channel:02d}/0 : 11[3] -> 3[3] [receive] via NET/IB/{channel}/GDRDMA"
                )
        if kind == "trainer":
            parts.append(trainer_bar(step, total))
        if kind == "errors":
            parts.append(f"\n{step % 16:2d}: srun: error: the answer to try {step} was: {step % 900}, trying again")
    return "".join(parts).encode("utf-8")


def write_log(stream: IO[bytes], kind: str, size: int) -> int:
    """Write a log of at least ``size`` bytes; return the number of bytes."""
    written = stream.write(
        b"".join(b"Initializing distributed: GLOBAL_RANK: %d, MEMBER: %d/16\n" % (rank, rank + 1) for rank in range(16))
    )
    steps = 0
    total = 10_000_000
    while written < size:
        written += stream.write(piece(kind, steps, total))
        steps += PIECE_STEPS
    written += stream.write(b"\n`Trainer.fit` stopped: `max_steps=%d` reached.\n" % steps)
    stream.flush()
    os.fsync(stream.fileno())
    return written


def peak_memory_mb() -> float:
    """Return the largest memory of this process, without that of the one that started it (which ru_maxrss counts)."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024.0
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def read_only(path: str, log_format: str) -> None:
    """Read one log and print what was seen and what it cost: the measured process."""
    sys.path.insert(0, str(REPOSITORY / "collections"))
    from ansible_collections.dgxc.workloads.plugins.module_utils import _training_log

    began, began_cpu = time.perf_counter(), time.process_time()
    facts = _training_log.read_log_file(path, log_format)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    peak_mb = peak_memory_mb()
    print(
        json.dumps(
            {
                "seconds": round(seconds, 3),
                "cpu_seconds": round(cpu_seconds, 3),
                "peak_mb": round(peak_mb, 1),
                "last_step": facts.last_step,
                "rank_count": facts.rank_count,
                "stop_reason": facts.stop_reason,
                "thinned": facts.step_timing.thinned if facts.step_timing else None,
                "averaged": facts.step_timing.count if facts.step_timing else 0,
            }
        )
    )


def main() -> int:
    """Run the measurement; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the reading of a large training log.")
    parser.add_argument("--bytes", type=int, default=0, help="size of the log; 0 means 3 GB if the disk has room")
    parser.add_argument("--kind", choices=KINDS, default="mixed", help="what the log holds")
    parser.add_argument("--log-format", default=None, help="how to read it; default: as its kind is")
    parser.add_argument("--directory", default=None, help="where to write it; default: the temporary folder")
    parser.add_argument("--python", default=sys.executable, help="the Python that reads it")
    parser.add_argument("--read", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.log_format = arguments.log_format or ("huggingface" if arguments.kind == "trainer" else "nemo")
    if arguments.read:
        read_only(arguments.read, arguments.log_format)
        return 0

    directory = arguments.directory or tempfile.gettempdir()
    size = arguments.bytes or min(FULL_SIZE, shutil.disk_usage(directory).free // 2)
    with tempfile.NamedTemporaryFile(dir=directory, prefix="log_read_", suffix=".out") as stream:
        print(f"writing {size / 1e9:.2f} GB ({arguments.kind}) to {stream.name}", flush=True)
        size = write_log(stream, arguments.kind, size)
        began = time.perf_counter()
        subprocess.run(["wc", "-l", stream.name], check=True, stdout=subprocess.DEVNULL)
        wc_seconds = time.perf_counter() - began
        answer = subprocess.run(
            [arguments.python, __file__, "--read", stream.name, "--log-format", arguments.log_format],
            check=True,
            capture_output=True,
            text=True,
        )
    result = json.loads(answer.stdout.splitlines()[-1])
    limit = 2.0 * wc_seconds + TIME_LIMIT_EXTRA_SECONDS * max(size / FULL_SIZE, 0.1)
    result.update(
        wc_seconds=round(wc_seconds, 3),
        limit_seconds=round(limit, 3),
        bytes=size,
        kind=arguments.kind,
        within_limits=result["seconds"] <= limit and result["peak_mb"] <= MEMORY_LIMIT_MB,
    )
    print(json.dumps(result))
    return 0 if result["within_limits"] else 1


if __name__ == "__main__":
    sys.exit(main())
