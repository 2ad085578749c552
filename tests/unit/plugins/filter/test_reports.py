# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the filters that make reports and baselines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.dgxc.workloads.plugins.filter import reports

from ..report_rows import row

SOURCES = [{"label": "oci", "root": "/r", "runs": [row("a-n1"), row("a-n2", 2, 8, 11.0)]}]
BASELINE = {"schema": 1, "clusters": {"oci": {"workloads": {"alma": {"1x8": {"seconds_per_step": {"value": 9.0}}}}}}}


@pytest.fixture
def good(tmp_path: Path) -> dict[str, Any]:
    return {
        "report_formats": ["html"], "report_expected": ["1x8"], "report_compare": [], "report_directory": str(tmp_path),
        "report_plots": True, "report_baseline": "", "report_baseline_tolerance": 0.05, "report_fail_on_regression": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"report_formats": ["pdf"]}, ["report_formats has 'pdf'"]),
        ({"report_expected": ["8"]}, ["report_expected: '8' is no size"]),
        ({"report_directory": "reports"}, ["give an absolute path"]),
        ({"report_baseline_tolerance": -1}, ["report_baseline_tolerance"]),
        ({"report_baseline_tolerance": "5 %"}, ["report_baseline_tolerance"]),
        ({"report_baseline": "/absent.yml"}, ["no such file on the controller"]),
        ({"report_write_baseline": "/absent/b.yml"}, ["/absent/b.yml', but there is no such folder on the controller"]),
        ({"report_fail_on_regression": True}, ["report_baseline names no file"]),
        ({"report_compare": ["x"]}, ["write label and root"]),
        ({"report_compare": [{"label": "b"}]}, ["needs either root"]),
        ({"report_compare": [{"root": "/b", "file": "/c"}]}, ["has no label", "needs either root"]),
        ({"report_compare": [{"label": "b", "root": "/b", "path": "/x"}]}, ["unknown entry 'path'"]),
        ({"report_compare": [{"label": "b", "file": "/absent.json"}]}, ["no such file on the controller"]),
        ({"report_directory": "", "report_formats": ["x"]}, ["report_formats", "report_directory"]),
    ],
)
def test_problems_are_told_all_at_once(good: dict[str, Any], change: dict[str, Any], words: list[str]) -> None:
    told = reports.run_report_problems({**good, **change})
    assert len(told) == len(words)
    for sentence, word in zip(told, words, strict=True):
        assert word in sentence


def test_from_records_to_files() -> None:
    made = reports.run_report(SOURCES, "T", ["1x1"], 8, yaml.safe_dump(BASELINE), "oci")
    assert reports.run_report_markdown(made).startswith("# T\n")
    assert reports.run_report_csv(made).count("\n") == 3
    assert json.loads(reports.run_report_json(made))["summary"]["runs"] == 2
    assert reports.run_report_html(made).startswith("<!DOCTYPE html>")
    assert "2 runs: 2 succeeded" in reports.run_report_lines(made)[-1]
    assert any("11.1 % higher" in sentence for sentence in reports.run_report_regressions(made))
    assert reports.run_report_lines(reports.run_report([]))[0] == "no runs on record"
    assert reports.run_report_regressions(reports.run_report(SOURCES)) == []
    new = yaml.safe_load(reports.run_baseline(made, "oci", yaml.safe_dump(BASELINE), 0.1))
    assert new["clusters"]["oci"]["workloads"]["alma"]["1x8"]["seconds_per_step"] == {"value": 10.0, "tolerance": 0.1}


def test_what_cannot_be_done_is_a_sentence() -> None:
    made = reports.run_report(SOURCES)
    for call in (
        lambda: reports.run_report(SOURCES * 2),
        lambda: reports.run_report(SOURCES, baseline="a: [", cluster="oci"),
        lambda: reports.run_report(SOURCES, baseline="a: 1", cluster="oci"),
        lambda: reports.run_report(SOURCES, baseline=BASELINE, cluster="azure"),
        lambda: reports.run_baseline(made, "oci", "a: ["),
        lambda: reports.run_baseline(reports.run_report([]), "oci"),
        lambda: reports.run_report_markdown("x"),
    ):
        with pytest.raises(AnsibleFilterError, match=r"."):
            call()


def test_values_of_a_template_are_plain_before_they_are_written() -> None:
    variables = {"sources": SOURCES, "cluster": trust_as_template("{{ 'o' ~ 'ci' }}")}
    templar = Templar(loader=DataLoader(), variables=variables)
    made = templar.template(trust_as_template("{{ sources }}"))
    cluster = templar.template(trust_as_template("{{ cluster }}"))
    text = reports.run_baseline(reports.run_report(made), cluster)
    assert text.startswith("---\nschema: 1\n")
    assert "!!" not in text
    assert list(yaml.safe_load(text)["clusters"]) == ["oci"]


def test_every_filter_is_documented() -> None:
    folder = Path(reports.__file__).parent
    for name in reports.FilterModule().filters():
        documentation = yaml.safe_load((folder / f"{name}.yml").read_text())
        assert documentation["DOCUMENTATION"]["name"] == name
