# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports, baselines and archives on the sandbox: a real run of NeMo, and records of a sweep beside it."""

from __future__ import annotations

import csv
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.person import Person, at_the_keyboard
from tests.harness.sandbox import PREFIX, USER, Play
from tests.unit.plugins.report_rows import BEGAN, metric, write_run

SHARED = PREFIX / "shared" / USER
CAUSE = {
    "name": "cuda_out_of_memory",
    "cause": "a GPU ran out of memory",
    "remedy": "lower it",
    "evidence": "CUDA out of",
}


def result(nodes: int, gpus: int, seconds: float | None) -> dict[str, Any]:
    """What a judged run has on record."""
    good = seconds is not None
    names = [f"gpu{number:03d}" for number in range(1, nodes + 1)]
    return {
        "verdict": "succeeded" if good else "failed", "message": "" if good else "job 7 ended as FAILED",
        "failure_class": "", "cause": None if good else CAUSE, "gates": [], "steps_done": 150 if good else 3,
        "metrics": {
            "seconds_per_step": metric("seconds_per_step", "s", seconds, 0.01 if good else None),
            "samples_per_second": metric("samples_per_second", "1/s", 4 * nodes * gpus / seconds if seconds else None),
        },
        "job": {"state": "COMPLETED", "nodes": names, "elapsed": 300, "submit_time": BEGAN, "start_time": BEGAN + 1,
                "end_time": BEGAN + 301},
    }  # fmt: skip


class Reader(Person):
    """Somebody who wants to know what came of the runs below a folder of their own."""

    def __init__(self, logs: Path, root: Path) -> None:
        super().__init__(logs, root)
        self.reports = logs / "reports"

    def play(self, playbook: str, *arguments: str, **given: object) -> Play:
        places = {"report_directory": str(self.reports), "archive_directory": str(self.logs / "archives")}
        return super().play(playbook, *arguments, **{**places, **given})

    def sweep(self, root: Path, factor: float, bad: tuple[int, int] | None = None) -> None:
        """Records of a ViViT sweep, as if it had run."""
        for nodes, gpus, seconds in ((1, 1, 1.0), (1, 8, 1.25), (2, 8, 1.6)):
            good = (nodes, gpus) != bad
            write_run(
                root, f"vivit-n{nodes}g{gpus}b4", result(nodes, gpus, seconds * factor if good else None),
                [[1.0, seconds, 2.0], [150.0, seconds, 0.5]], workload="vivit",
                expect={"nodes": nodes, "gpus_per_node": gpus, "steps": 150},
            )  # fmt: skip
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(root)], check=True)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """One reader for the whole story: the tests of this file build on one another."""
    with at_the_keyboard("report", lambda root: Reader(tmp_path_factory.mktemp("plays"), root)) as someone:
        someone.sweep(someone.root / "runs", 1.0, bad=(2, 8))
        someone.sweep(someone.root / "earlier", 0.8)
        yield someone


def test_a_report_of_a_real_run_and_a_sweep(reader: Reader):
    reader.play("nemo_gpt3", nemo_gpt3_nodes=1, nemo_gpt3_max_steps=40, nemo_gpt3_val_check_interval=20).succeeds(180)
    values = {"report_expected": ["1x1", "1x8", "2x8", "4x8"], "report_write_baseline": str(reader.logs / "base.yml")}
    looked = reader.play("report", "--check", "--diff", report_expected=values["report_expected"]).succeeds()
    assert "4 runs: 3 succeeded, 1 failed" in looked
    assert not reader.reports.exists()
    output = reader.play("report", **values).succeeds()
    assert "vivit-n2g8b4: failed: a GPU ran out of memory" in output
    with (reader.reports / "report.csv").open() as stream:
        lines = {line["name"]: line for line in csv.DictReader(stream)}
    nemo = lines["gpt-7b-improved-n1"]
    assert (nemo["verdict"], nemo["steps_done"], nemo["gpus"]) == ("succeeded", "40", "8")
    assert float(nemo["seconds_per_step_mean"]) > 0.0
    assert nemo["slurm_version"]
    assert lines["vivit-n2g8b4"]["seconds_per_step_mean"] == ""
    report = json.loads((reader.reports / "report.json").read_text())
    (sweep,) = [group for group in report["scaling"] if group["workload"] == "vivit"]
    told = {entry["cell"]: (entry["verdict"], entry["speedup_one_gpu"]) for entry in sweep["cells"]}
    assert told == {
        "1x1": ("succeeded", 1.0), "1x8": ("succeeded", pytest.approx(6.4)), "2x8": ("failed", None),
        "4x8": ("missing", None),
    }  # fmt: skip
    page = (reader.reports / "report.html").read_text()
    assert page.count("<svg") >= 5
    assert "no run of this size is on record" in page
    assert "# Training runs" in (reader.reports / "report.md").read_text()


def test_the_second_time_changes_nothing(reader: Reader):
    values = {"report_expected": ["1x1", "1x8", "2x8", "4x8"], "report_write_baseline": str(reader.logs / "base.yml")}
    play = reader.play("report", **values)
    play.succeeds()
    assert play.changed == 0


def test_two_sweeps_side_by_side_and_a_regression(reader: Reader):
    earlier = {"label": "earlier", "root": str(reader.root / "earlier"), "workload": "vivit"}
    play = reader.play(
        "report", report_workload="vivit", report_compare=[earlier], report_file="both",
        report_baseline=str(reader.logs / "base.yml"), report_fail_on_regression=True, report_plots=False,
    )  # fmt: skip
    play.succeeds()
    report = json.loads((reader.reports / "both.json").read_text())
    ratios = {entry["cell"]: entry["values"][1]["ratio"] for entry in report["comparison"]}
    assert ratios == {"1x1": pytest.approx(0.8), "1x8": pytest.approx(0.8), "2x8": None}
    base = (reader.logs / "base.yml").read_text()
    (reader.logs / "strict.yml").write_text(base.replace("value: 1.25", "value: 1.0"))
    output = reader.play(
        "report", report_workload="vivit", report_formats=["csv"], report_baseline=str(reader.logs / "strict.yml"),
        report_fail_on_regression=True,
    ).fails()  # fmt: skip
    assert "seconds_per_step is 25.0 % higher: 1.25 s, expected 1 s with a tolerance of 5 %" in output.replace(
        "\n", " "
    )


def test_nonsense_is_told_before_anything_is_written(reader: Reader):
    output = reader.play(
        "report",
        report_directory="here",
        report_expected=["8"],
        report_compare=[{"label": "x"}],
        report_baseline="/no.yml",
    ).fails()
    for words in ("report_directory", "report_expected", "report_compare", "report_baseline"):
        assert words in output


def test_one_run_is_packed(reader: Reader):
    secret = "hf_" + "a1B2c3D4e5" * 3
    (attempt,) = (reader.root / "runs" / "nemo_gpt3").glob("*/attempt-1")
    (attempt / "note.txt").write_text(f"token {secret}\n")
    play = reader.play("archive", archive_names="gpt-*")
    play.succeeds()
    (packed,) = (reader.logs / "archives").glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
        text = b"".join(stream.read() for name in archive.getnames() if (stream := archive.extractfile(name)))
    assert {"record.json", "MANIFEST.json", "attempt-1/conf/dgxc.yaml", "attempt-1/result.json"} <= set(names)
    assert not [name for name in names if name.endswith(".npz")]
    assert b"token [removed]" in text
    assert secret.encode() not in text
    again = reader.play("archive", archive_names="gpt-*")
    again.succeeds()
    assert again.changed == 0
    assert "archive_names is not set" in reader.play("archive").fails()
