# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _baseline
from ansible_collections.dgxc.workloads.plugins.plugin_utils._baseline import BaselineError, compare, updated

from ..report_rows import BEGAN, row

REFERENCE = Path(__file__).parents[4] / "roles" / "report" / "files" / "baselines" / "reference.yml"


def full(**more: Any) -> dict[str, Any]:
    return {**row("a-n1", **more), "cell": "1x8", "family": "a", "reason": "failed: it broke" if more else ""}


def baseline(
    metric: str = "seconds_per_step", value: float = 10.0, tolerance: float = 0.05, **more: Any
) -> dict[str, Any]:
    cells = {"1x8": {metric: {"value": value, "tolerance": tolerance}}}
    return {"schema": 1, "clusters": {"oci": {"workloads": {"alma": cells}, **more}}}


@pytest.mark.parametrize(
    ("metric", "value", "tolerance", "status", "words"),
    [
        ("seconds_per_step", 10.0, 0.05, "ok", "is 10 s, expected 10 s"),
        ("seconds_per_step", 9.5, 0.05, "worse", "is 5.3 % higher: 10 s, expected 9.5 s with a tolerance of 5 %"),
        ("seconds_per_step", 9.53, 0.05, "ok", "4.9 % higher"),
        ("seconds_per_step", 11.0, 0.05, "better", "9.1 % lower"),
        ("samples_per_second", 9.6, 0.0, "ok", "9.6 1/s"),
        ("samples_per_second", 12.0, 0.1, "worse", "20.0 % lower"),
        ("samples_per_second", 8.0, 0.1, "better", "20.0 % higher"),
        ("steps", 128, 0.0, "ok", "128"),
        ("steps", 127, 0.0, "worse", "0.8 % higher"),
        ("steps", 129, 0.0, "worse", "0.8 % lower"),
        ("global_batch_size", 96, 0.0, "ok", "96"),
        ("train_seconds", 1280.0, 0.0, "ok", "1280 s"),
        ("elapsed", 1000.0, 0.1, "worse", "40.0 % higher"),
        ("training_loss", 0.0, 0.1, "worse", "differs"),
    ],
)
def test_a_number_and_what_was_expected(metric: str, value: float, tolerance: float, status: str, words: str) -> None:
    (check,) = compare(baseline(metric, value, tolerance), "oci", [full()])
    assert (check["status"], check["run"]) == (status, "a-n1")
    assert words in check["sentence"]
    assert (_baseline.regressions([check]) != []) is (status == "worse")


def test_what_was_not_measured_fails_and_what_is_missing_does_not() -> None:
    (check,) = compare(baseline(), "oci", [full(seconds=None)])
    assert (check["status"], check["measured"]) == ("not measured", None)
    assert check["sentence"] == "alma 1x8: seconds_per_step was not measured: failed: it broke."
    assert _baseline.regressions([check]) == [check["sentence"]]
    (check,) = compare(baseline(), "oci", [{**full(), "cell": "2x8"}])
    assert check["status"] == "missing"
    assert _baseline.regressions([check]) == []
    assert compare(baseline(), "oci", [{**full(), "workload": "vivit"}]) == []


def test_values_for_reference_never_fail_a_play() -> None:
    checks = compare(baseline(value=1.0, reference_only=True), "oci", [full()])
    assert checks[0]["status"] == "worse"
    assert "reference only" in checks[0]["sentence"]
    assert _baseline.regressions(checks) == []


def test_the_newest_good_run_is_compared() -> None:
    runs = [full(ended=BEGAN + 9), full(seconds=20.0, ended=BEGAN + 5), full(seconds=None, ended=BEGAN + 99)]
    assert compare(baseline(), "oci", runs)[0]["measured"] == 10.0


def test_any_size_and_one_family() -> None:
    values = {"seconds_per_step": {"value": 5.0}}
    known = {"schema": 1, "clusters": {"oci": {"workloads": {"alma": {"any": values}, "alma/b": {"2x8": values}}}}}
    runs = [full(), {**full(), "cell": "2x8"}, {**full(), "cell": "2x8", "family": "b"}]
    told = [(check["workload"], check["cell"]) for check in compare(known, "oci", runs)]
    assert told == [("alma", "1x8"), ("alma", "2x8"), ("alma/b", "2x8")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("text", "has no clusters"),
        ({"schema": 1}, "has no clusters"),
        ({"schema": 2, "clusters": {}}, "schema is 2"),
        ({"schema": 1, "clusters": {"a": {}}}, "clusters.a has no workloads"),
        ({"schema": 1, "clusters": {"a": {"workloads": {"b": {"8": {}}}}}}, "a.workloads.b.8 is no size"),
        ({"schema": 1, "clusters": {"a": {"workloads": {"b": 7}}}}, "is no size"),
        (
            {"schema": 1, "clusters": {"a": {"workloads": {"b": {"1x8": {"speed": {"value": 1}}}}}}},
            "speed is no metric",
        ),
        ({"schema": 1, "clusters": {"a": {"workloads": {"b": {"1x8": {"steps": {"value": "1"}}}}}}}, "has no value"),
        ({"schema": 1, "clusters": {"a": {"workloads": {"b": {"1x8": {"steps": {"value": True}}}}}}}, "has no value"),
        (
            {"schema": 1, "clusters": {"a": {"workloads": {"b": {"1x8": {"steps": {"value": 1, "tolerance": -1}}}}}}},
            "no fraction",
        ),
    ],
)
def test_what_is_no_baseline_is_told(content: Any, words: str) -> None:
    assert any(words in sentence for sentence in _baseline.problems(content))
    with pytest.raises(BaselineError, match=r"."):
        compare(content, "a", [])


def test_an_unknown_cluster_is_told_with_those_there_are() -> None:
    with pytest.raises(BaselineError, match=r"no cluster 'azure'; it has oci"):
        compare(baseline(), "azure", [full()])


def test_a_new_baseline_keeps_what_it_does_not_measure() -> None:
    old = baseline("training_loss", 1.0, 0.2)
    old["clusters"]["oci"]["workloads"]["alma"]["4x8"] = {"seconds_per_step": {"value": 3.0, "tolerance": 0.3}}
    old["clusters"]["oci"]["workloads"]["alma"]["1x8"]["seconds_per_step"] = {
        "value": 3.0,
        "tolerance": 0.3,
        "note": "n",
    }
    old["clusters"]["azure"] = {"workloads": {}}
    new = updated(old, "oci", [full(), full(seconds=None)], 0.1)
    cells = new["clusters"]["oci"]["workloads"]["alma"]
    assert cells["1x8"] == {
        "training_loss": {"value": 1.0, "tolerance": 0.2},
        "seconds_per_step": {"value": 10.0, "tolerance": 0.3, "note": "n"},
        "samples_per_second": {"value": 9.6, "tolerance": 0.1},
        "steps": {"value": 128, "tolerance": 0.0},
    }
    assert cells["4x8"]["seconds_per_step"]["value"] == 3.0
    assert set(new["clusters"]) == {"azure", "oci"}
    assert old["clusters"]["oci"]["workloads"]["alma"]["1x8"]["seconds_per_step"]["value"] == 3.0
    # What was written can be read, and holds for the runs that it was made from.
    again = yaml.safe_load(yaml.safe_dump(new))
    assert {check["status"] for check in compare(again, "oci", [full()])} <= {"ok", "worse", "missing"}
    assert updated(new, "oci", [full()], 0.1) == new


def test_a_first_baseline() -> None:
    new = updated(None, "oci", [full(), {**full(), "family": "b", "cell": "2x8"}], 0.05)
    assert list(new["clusters"]["oci"]["workloads"]) == ["alma/a", "alma/b"]
    assert _baseline.problems(new) == []
    with pytest.raises(BaselineError, match="no run is good"):
        updated(None, "oci", [full(seconds=None)], 0.05)
    with pytest.raises(BaselineError, match="for reference only"):
        updated(baseline(reference_only=True), "oci", [full()], 0.05)
    with pytest.raises(BaselineError, match="has no clusters"):
        updated({"x": 1}, "oci", [full()], 0.05)


def test_the_documents_numbers_are_a_baseline_for_reference() -> None:
    content = yaml.safe_load(REFERENCE.read_text())
    assert _baseline.problems(content) == []
    assert all(cluster["reference_only"] is True for cluster in content["clusters"].values())
    alma = content["clusters"]["document"]["workloads"]["alma"]
    assert (alma["1x8"]["steps"]["value"], alma["2x8"]["steps"]["value"]) == (128, 64)
    checks = compare(content, "document", [full()])
    assert {check["metric"]: check["status"] for check in checks if check["cell"] == "1x8"}["steps"] == "ok"
    # Sizes that nobody ran are no news in numbers that are for reference.
    assert {check["cell"] for check in checks} == {"1x8"}


def test_values_from_the_trainers_own_state() -> None:
    state = {"trainer_state": {"last_epoch": 14.07, "runtime_seconds": 324.2}}
    assert _baseline.measured(full(output=state), "last_epoch") == 14
    assert _baseline.measured(full(output=state), "train_seconds") == 324.2
    assert _baseline.measured(full(), "last_epoch") is None
    assert _baseline.measured(full(verdict="failed"), "steps") is None
