# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of reading the records of a run root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._run_records import run_records_info, run_row

from ..report_rows import BEGAN, write_run

RESULT: dict[str, Any] = {
    "schema": 1,
    "verdict": "succeeded",
    "message": "",
    "failure_class": "",
    "gates": [{"name": "slurm", "passed": True, "evidence": "", "message": ""}],
    "metrics": {"seconds_per_step": {"mean": 12.7}},
    "steps_done": 64,
    "versions": {"slurm": "24.05.2"},
    "user": "demo-user",
    "job": {
        "state": "COMPLETED", "nodes": ["gpu001", "gpu002"], "elapsed": 900, "submit_time": BEGAN, "start_time": BEGAN + 5,
        "end_time": BEGAN + 905,
    },
}  # fmt: skip
EXPECT = {"nodes": 2, "gpus_per_node": 8, "steps": 64}
DIGEST = "sha256:" + "0a" * 32
IDENTITY = {"alma_commit": "83ee22f8" * 5, "image_reference": "reg#alma:24.01", "image_digest": DIGEST, "model": "x"}


def read(root: Path, **options: Any) -> dict[str, Any]:
    asked = {"root": str(root), "workloads": [], "names": [], "series": True, "must_exist": True, **options}
    result = run_records_info(asked)
    json.dumps(result, allow_nan=False)
    return result


@pytest.mark.parametrize(
    ("identity", "digest"),
    [
        ({"image": "/a.sqsh", "image_digest": "squashfs-tables:" + "1b" * 32}, "squashfs-tables:" + "1b" * 32),
        ({"image": f"docker://reg#alma:24.01@{DIGEST}"}, DIGEST),
        ({"image": "reg#alma:24.01", "image_digest": "", "data": DIGEST}, None),
    ],
)
def test_the_digest_of_an_image(tmp_path: Path, identity: dict[str, str], digest: str | None) -> None:
    write_run(tmp_path, "alma-n2", RESULT, identity=identity)
    (row,) = read(tmp_path)["runs"]
    assert row["image_digest"] == digest


def test_a_record_answers_the_questions(tmp_path: Path) -> None:
    points = [[1.0, 13.0, 2.5], [64.0, 12.5, None]]
    folder = write_run(tmp_path, "alma-n2", RESULT, points, expect=EXPECT, identity=IDENTITY, options={"nodes": "2"})
    (folder / "attempt-1" / "environment.json").write_text('{"torch": "2.2.1", "driver": "535.129.03"}')
    result = read(tmp_path)
    assert (result["failed"], result["changed"]) == (False, False)
    (row,) = result["runs"]
    assert (row["workload"], row["name"], row["verdict"], row["state"]) == ("alma", "alma-n2", "succeeded", "COMPLETED")
    assert row["commits"] == {"alma_commit": "83ee22f8" * 5}
    assert (row["image"], row["image_digest"]) == ("reg#alma:24.01", DIGEST)
    assert row["script"] == str(folder / "attempt-1" / "train.sbatch")
    assert len(row["script_sha256"]) == 64
    assert (row["node_count"], row["gpus_per_node"], row["gpus"], row["nodes"]) == (2, 8, 16, ["gpu001", "gpu002"])
    assert (row["job_ids"], row["user"], row["host"]) == (["7"], "demo-user", "login")
    assert (row["requested"], row["submitted"], row["started"], row["ended"]) == (BEGAN, BEGAN, BEGAN + 5, BEGAN + 905)
    assert (row["elapsed"], row["gpu_hours"]) == (900, 4.0)
    assert row["versions"] == {"slurm": "24.05.2"}
    assert row["environment"] == {"torch": "2.2.1", "driver": "535.129.03"}
    assert row["logs"] == {"stdout": str(folder / "attempt-1" / "slurm-7.out")}
    assert row["series"] == points
    assert read(tmp_path, series=False)["runs"][0]["series"] is None


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["alma-n1", "alma-n2", "vivit-n1"]),
        ({"workloads": ["vivit"]}, ["vivit-n1"]),
        ({"workloads": ["v*", "x"]}, ["vivit-n1"]),
        ({"names": ["*-n1"]}, ["alma-n1", "vivit-n1"]),
        ({"names": ["alma-n2-0f0f*"]}, ["alma-n2"]),
        ({"names": ["alma"]}, []),
    ],
)
def test_runs_are_chosen_by_workload_and_name(tmp_path: Path, options: dict[str, Any], names: list[str]) -> None:
    write_run(tmp_path, "alma-n1", RESULT)
    write_run(tmp_path, "alma-n2", RESULT)
    write_run(tmp_path, "vivit-n1", RESULT, workload="vivit")
    (tmp_path / "alma" / "nothing").mkdir()
    assert [row["name"] for row in read(tmp_path, **options)["runs"]] == names


def test_hours_of_all_attempts_count(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "a", {**RESULT, "verdict": "failed", "gpu_hours": 1.5}, expect=EXPECT)
    second = folder / "attempt-2"
    second.mkdir()
    for name in ("intent.json", "job.json"):
        (second / name).write_text((folder / "attempt-1" / name).read_text())
    (second / "result.json").write_text(json.dumps(RESULT))
    (row,) = read(tmp_path)["runs"]
    assert (row["gpu_hours"], row["job_ids"], row["verdict"]) == (5.5, ["7", "7"], "succeeded")
    assert [attempt["verdict"] for attempt in row["attempts"]] == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("files", "verdict", "words"),
    [
        ({"result.json": None}, "open", "job 7 has no verdict on record"),
        ({"result.json": None, "job.json": None}, "open", "no job is on record"),
        ({"result.json": '{"verdict": "suc'}, "open", "job 7 has no verdict"),
        ({"result.json": "[]"}, "open", "job 7 has no verdict"),
        (
            {"result.json": None, "job.json": '{"refused": "Invalid account"}'},
            "failed",
            "sbatch refused: Invalid account",
        ),
        ({"result.json": None, "intent.json": "{"}, "unknown", "cannot be read"),
        ({"intent.json": '{"spec": [], "owner": 7, "time": "x"}'}, "succeeded", ""),
        ({"series.json": "{"}, "succeeded", ""),
        ({"series.json": '{"points": [[1, 2], "x", [1, NaN, 2.0], [2, null, Infinity]]}'}, "succeeded", ""),
        ({"result.json": '{"verdict": "succeeded", "job": 7, "metrics": {"x": NaN}}'}, "succeeded", ""),
    ],
)
def test_damaged_records_are_told_as_such(
    tmp_path: Path, files: dict[str, str | None], verdict: str, words: str
) -> None:
    folder = write_run(tmp_path, "a", RESULT, [[1.0, 1.0, 1.0]], expect=EXPECT)
    for name, content in files.items():
        path = folder / "attempt-1" / name
        path.unlink() if content is None else path.write_text(content)
    (row,) = read(tmp_path)["runs"]
    assert row["verdict"] == verdict
    assert words in row["message"]


def test_a_run_folder_without_attempts(tmp_path: Path) -> None:
    row = run_row(str(tmp_path))
    assert (row["verdict"], row["message"], row["job_ids"]) == ("unknown", "the run folder has no attempt", [])


def test_long_curves_are_thinned_and_keep_their_end(tmp_path: Path) -> None:
    points = [[float(step), 1.0, None] for step in range(1, 1001)] + [[float(step), None, 2.0] for step in range(1, 11)]
    write_run(tmp_path, "a", RESULT, points)
    series = read(tmp_path)["runs"][0]["series"]
    times = [point for point in series if point[1] is not None]
    assert 150 <= len(times) <= 200
    assert times[-1][0] == 1000.0
    assert len([point for point in series if point[2] is not None]) == 10


def test_a_missing_root(tmp_path: Path) -> None:
    missing = read(tmp_path / "nothing")
    assert missing["failed"] is True
    assert "<dgxc_shared_root>/runs" in missing["msg"]
    assert read(tmp_path / "nothing", must_exist=False)["runs"] == []
