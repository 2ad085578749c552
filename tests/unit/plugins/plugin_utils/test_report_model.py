# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what a report says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _report_model as model
from ansible_collections.dgxc.workloads.plugins.plugin_utils._report_model import ReportError, build_report

from ..report_rows import BEGAN, row


def report(*sources: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    named = [{"label": f"s{number}", "root": "/lustre/runs", "runs": runs} for number, runs in enumerate(sources)]
    made = build_report(named, **options)
    json.dumps(made, allow_nan=False)
    return made


SWEEP = [row("vivit-n1g1b4", 1, 1, 10.0), row("vivit-n1g8b4", 1, 8, 12.5), row("vivit-n2g8b4", 2, 8, 16.0)]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("2x8", (2, 8)),
        (" 2 x 8 ", (2, 8)),
        ("1X1", (1, 1)),
        ({"nodes": 2, "gpus_per_node": 4}, (2, 4)),
        ("16×8", (16, 8)),
    ],
)
def test_sizes(text: Any, cell: tuple[int, int]) -> None:
    assert model.parse_cell(text) == cell


@pytest.mark.parametrize("text", ["8", "0x8", "2x", "", None, "2x8x1", {"nodes": 2}])
def test_what_is_no_size(text: Any) -> None:
    with pytest.raises(ReportError, match="such as 2x8"):
        model.parse_cell(text)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-7b-improved-n2", "gpt-7b-improved"),
        ("vivit-train-acc-n1g8b4", "vivit-train-acc-b4"),
        ("alma-n2g8-r16", "alma-r16"),
        ("n2g8", "n2g8"),
        ("asr", "asr"),
        ("mine-nano", "mine-nano"),
        ("n4-test", "test"),
        ("run.n8.x", "run.x"),
    ],
)
def test_families(name: str, family: str) -> None:
    assert model.family_of(name) == family


def test_speed_up_and_efficiency_against_both_references() -> None:
    (group,) = report(SWEEP)["scaling"]
    assert (group["full_node"], group["rate"], group["notes"]) == ("1x8", "samples per second", [])
    # 12 samples a GPU and step: 1.2, 7.68 and 12 samples a second.
    told = [(entry["cell"], entry["speedup_one_gpu"], entry["efficiency_one_gpu"]) for entry in group["cells"]]
    assert told == [
        ("1x1", pytest.approx(1.0), pytest.approx(1.0)),
        ("1x8", pytest.approx(6.4), pytest.approx(0.8)),
        ("2x8", pytest.approx(10.0), pytest.approx(0.625)),
    ]
    assert group["cells"][2]["speedup_full_node"] == pytest.approx(1.5625)
    assert group["cells"][2]["efficiency_full_node"] == pytest.approx(0.78125)
    assert group["cells"][0]["efficiency_full_node"] == pytest.approx(1.25)


def test_missing_and_failed_sizes_stay_with_the_reason() -> None:
    bad = row(
        "vivit-n2g8b4",
        2,
        8,
        None,
        cause={"name": "x", "cause": "a GPU ran out of memory", "remedy": "r", "evidence": "e"},
    )
    (group,) = report([SWEEP[1], bad], expected=["1x1", "1x8", "2x8"])["scaling"]
    entries = {entry["cell"]: entry for entry in group["cells"]}
    assert entries["1x1"]["verdict"] == "missing"
    assert entries["1x1"]["reason"] == "no run of this size is on record"
    assert (entries["2x8"]["verdict"], entries["2x8"]["seconds_per_step"]) == ("failed", None)
    assert entries["2x8"]["reason"] == "failed: a GPU ran out of memory"
    assert entries["1x8"]["speedup_one_gpu"] is None
    assert entries["1x8"]["speedup_full_node"] == 1.0
    assert group["notes"] == ["There is no good run of size 1x1, so nothing is compared with it."]


def test_of_the_good_runs_of_a_size_the_newest_counts() -> None:
    runs = [
        row("a-n1", 1, 8, 20.0, ended=BEGAN + 1),
        row("a-n1", 1, 8, 10.0, ended=BEGAN + 9, run_dir="/b"),
        row("a-n1", 1, 8, None, ended=BEGAN + 99, run_dir="/c"),
        row("a-n2", 2, 8, 10.0),
    ]
    made = report(runs)
    assert made["scaling"][0]["cells"][0]["seconds_per_step"] == 10.0
    assert made["scaling"][0]["cells"][0]["run_dir"] == "/b"
    assert made["summary"] == {
        "runs": 4, "succeeded": 3, "failed": 1, "other": 0, "gpu_hours": pytest.approx(15.555555, abs=1e-5),
        "gpu_hours_not_good": pytest.approx(3.111111, abs=1e-5),
    }  # fmt: skip


def test_differences_beside_the_size_are_told() -> None:
    other = dict(SWEEP[1], identity={"image": "another"})
    (group,) = report([SWEEP[0], other])["scaling"]
    assert any("differ in commits, image or data" in note for note in group["notes"])
    timed = dict(SWEEP[1], metrics={"seconds_per_step": {"mean": 1.0, "source": "trainer: train_runtime / steps, all"}})
    (group,) = report([SWEEP[0], timed])["scaling"]
    assert "The step times are not of one kind: log: clock; trainer: train_runtime / steps." in group["notes"]
    plain = [dict(run, metrics={"seconds_per_step": run["metrics"]["seconds_per_step"]}) for run in SWEEP]
    (group,) = report(plain)["scaling"]
    assert group["rate"] == "steps per second"
    assert any("fair only for one batch size" in note for note in group["notes"])
    assert group["cells"][1]["speedup_one_gpu"] == pytest.approx(0.8)


def test_a_single_size_is_no_scaling_unless_more_are_expected() -> None:
    assert report([SWEEP[0]])["scaling"] == []
    assert len(report([SWEEP[0]], expected=["1x1", "2x8"])["scaling"]) == 1
    assert report([SWEEP[0]], expected=["4x8"])["scaling"] == []
    # A run that does not say its size is in the table and nowhere else.
    made = report([row("x", node_count=None, gpus_per_node=None)])
    assert (made["runs"][0]["cell"], made["scaling"]) == ("?x?", [])


def test_two_sources_are_compared_size_by_size() -> None:
    faster = [row("other-n1g1", 1, 1, 8.0), row("other-n2g8", 2, 8, None)]
    made = report(SWEEP, faster)
    told = {entry["cell"]: entry["values"] for entry in made["comparison"]}
    assert list(told) == ["1x1", "1x8", "2x8"]
    assert [value["seconds_per_step"] for value in told["1x1"]] == [10.0, 8.0]
    assert [value["ratio"] for value in told["1x1"]] == [None, pytest.approx(0.8)]
    assert told["1x8"][1]["reason"] == "no run of this size is on record"
    assert told["2x8"][1]["reason"] == "failed: job 7 ended as FAILED"
    assert report(SWEEP)["comparison"] == []


def test_families_are_compared_with_their_like() -> None:
    first = [row("a-n1", 1, 8, 10.0), row("b-n1", 1, 8, 20.0)]
    made = report(first, [row("b-n1", 1, 8, 10.0)])
    told = {entry["family"]: [value["seconds_per_step"] for value in entry["values"]] for entry in made["comparison"]}
    assert told == {"a": [10.0, None], "b": [20.0, 10.0]}


def test_another_report_is_a_source() -> None:
    text = json.dumps(report(SWEEP))
    made = build_report([{"label": "now", "runs": SWEEP}, ({"label": "then", "file": "/x.json"}, text)])
    assert [source["label"] for source in made["sources"]] == ["now", "then"]
    assert all(entry["values"][1]["ratio"] == pytest.approx(1.0) for entry in made["comparison"])
    looped = build_report([{"label": "now", "runs": SWEEP}, {"item": {"label": "b"}, "root": "/b", "runs": []}])
    assert looped["sources"][1] == {"label": "b", "root": "/b", "runs": 0}
    for bad in ("", "{}", "[]", '{"sources": [], "runs": []}'):
        with pytest.raises(ReportError, match=r"/x\.json is no report"):
            build_report([({"label": "then", "file": "/x.json"}, bad)])
    with pytest.raises(ReportError, match="two sources"):
        build_report([{"label": "a"}, {"label": "a"}])


def test_the_same_records_give_the_same_report_whatever_their_order() -> None:
    assert report(SWEEP) == report(SWEEP[::-1])
    assert report(SWEEP)["as_of"] == "2026-09-21 14:37:10 UTC"
    assert report([])["as_of"] == "-"
    assert report([])["summary"]["gpu_hours"] is None


def test_reasons() -> None:
    assert model.reason(row("a")) == ""
    assert model.reason(row("a", seconds=None)) == "failed: job 7 ended as FAILED"
    assert model.reason(row("a", verdict="open", message="")) == "open: no reason is on record"
    missing = {"seconds_per_step": {"mean": None, "reason": "the log shows no step time after the warm-up"}}
    assert model.reason(row("a", metrics=missing)) == "the log shows no step time after the warm-up"
    assert model.reason(row("a", metrics={})) == "no step time is on record"
    # A number of a run that is not good is nobody's.
    assert model.metric(row("a", verdict="failed"), "seconds_per_step") is None


def test_baselines_are_held_against_the_cluster_of_each_source() -> None:
    values = {"alma": {"1x8": {"seconds_per_step": {"value": 10.0, "tolerance": 0.05}}}}
    baseline = {"schema": 1, "clusters": {"oci": {"workloads": values}, "s1": {"workloads": values}}}
    made = report([row("a", seconds=10.2)], [row("a", seconds=12.0)], baseline=baseline, cluster="oci")
    told = [(check["cluster"], check["status"]) for check in made["baseline"]["checks"]]
    assert told == [("oci", "ok"), ("s1", "worse")]
    assert report([row("a")])["baseline"] is None
