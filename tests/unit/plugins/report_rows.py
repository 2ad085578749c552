# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records for the tests of reports: run folders as the collection writes them, and rows as it reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BEGAN = 1_790_000_000


def metric(name: str, unit: str, mean: float | None, deviation: float | None = None, **more: Any) -> dict[str, Any]:
    found = {
        "name": name, "unit": unit, "mean": mean, "standard_deviation": deviation, "count": 118 if mean else 0,
        "first_step": 11 if mean else None, "last_step": 128 if mean else None, "source": "log: clock" if mean else "",
        "reason": None if mean else "the run has not succeeded (gates: log)",
    }  # fmt: skip
    return {**found, **more}


def row(name: str, nodes: int = 1, gpus: int = 8, seconds: float | None = 10.0, **more: Any) -> dict[str, Any]:
    """A row of run_records_info: a good run with a global batch size of 12 for each GPU, or a bad one without seconds."""
    good = seconds is not None
    batch = 12 * nodes * gpus
    size = nodes * gpus
    found: dict[str, Any] = {
        "workload": "alma", "name": name, "key": "0f" * 32, "run_dir": f"/lustre/runs/alma/{name}-0f0f0f0f0f0f",
        "record": f"/lustre/runs/alma/{name}-0f0f0f0f0f0f/record.json", "verdict": "succeeded" if good else "failed",
        "message": "" if good else "job 7 ended as FAILED", "failure_class": "" if good else "failed", "cause": None,
        "gates": [{"name": "slurm", "passed": good, "evidence": "job 7", "message": "Slurm says so."}],
        "metrics": {
            "seconds_per_step": metric("seconds_per_step", "s", seconds, 0.25 if good else None),
            "samples_per_second": metric("samples_per_second", "1/s", batch / seconds if seconds else None),
            "training_loss": metric("training_loss", "1", 1.25 if good else None, count=1, first_step=128),
        },
        "log": {"settings": {"global_batch_size": batch}, "elapsed_seconds": 1280.0, "summary": {}}, "output": None,
        "expect": {"nodes": nodes, "gpus_per_node": gpus, "steps": 128, "global_batch_size": batch}, "steps": 128,
        "steps_done": 128 if good else 17, "node_count": nodes, "gpus_per_node": gpus, "gpus": size,
        "nodes": [f"gpu{number:03d}" for number in range(1, nodes + 1)],
        "identity": {"image": "registry#alma:24.01", "alma_commit": "83ee22f8" * 5},
        "commits": {"alma_commit": "83ee22f8" * 5}, "image": "registry#alma:24.01", "image_digest": None,
        "script": "/lustre/runs/x/train.sbatch", "script_sha256": "ab" * 32, "options": {},
        "state": "COMPLETED" if good else "FAILED", "job_ids": ["7"], "cluster": None, "requested": BEGAN,
        "submitted": BEGAN, "started": BEGAN + 30, "ended": BEGAN + 1430, "elapsed": 1400,
        "gpu_hours": round(size * 1400 / 3600, 6), "user": "demo-user", "host": "login",
        "versions": {"slurm": "22.05.8"}, "environment": {"torch": "2.2.1", "driver": "535.129.03"},
        "attempts": [{"number": 1}], "logs": {"stdout": "/lustre/runs/x/train-7.out"},
        "series": [[1.0, 11.0, 2.5], [64.0, 10.0, 1.9], [128.0, 10.0, 1.25]],
    }  # fmt: skip
    return {**found, **more}


def write_run(
    root: Path, name: str, result: dict[str, Any] | None = None, series: list[list[Any]] | None = None, **spec: Any
) -> Path:
    """A run folder with one attempt, as the collection leaves it."""
    attempt = root / spec.get("workload", "alma") / f"{name}-0f0f0f0f0f0f" / "attempt-1"
    attempt.mkdir(parents=True)
    full = {"name": name, "workload": "alma", "key": "0f" * 32, "script": "train.sbatch", "log_format": "none", **spec}
    intent = {"number": 1, "time": BEGAN, "owner": {"host": "login"}, "spec": full}
    (attempt / "intent.json").write_text(json.dumps(intent))
    (attempt / "job.json").write_text(json.dumps({"job_id": "7"}))
    (attempt / "train.sbatch").write_text("#!/bin/bash\nsrun true\n")
    if result is not None:
        (attempt / "result.json").write_text(json.dumps(result))
    if series is not None:
        (attempt / "series.json").write_text(json.dumps({"points": series}))
    return attempt.parent
