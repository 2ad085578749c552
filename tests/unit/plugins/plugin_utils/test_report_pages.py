# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a report as text and as a page."""

from __future__ import annotations

import builtins
import csv
import io
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _report_html as html
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _report_plots as plots
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _report_text as text
from ansible_collections.dgxc.workloads.plugins.plugin_utils._report_model import build_report

from ..report_rows import row

CAUSE = {
    "name": "cuda_out_of_memory",
    "cause": "a GPU ran out of memory",
    "remedy": "lower the micro batch size",
    "evidence": "RuntimeError: CUDA <b>out</b> of memory | 2.00 GiB",
}
BAD = row(
    "alma-n4", 4, 8, None, cause=CAUSE, message="job 7 ended as FAILED", series=[[1.0, 12.0, 2.0], [17.0, 13.0, None]]
)
SWEEP = [row("alma-n1", 1, 8, 12.72), row("alma-n2", 2, 8, 12.9), BAD]


def report(*others: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    sources = [
        {"label": f"s{number}", "root": "/lustre/runs", "runs": runs} for number, runs in enumerate([SWEEP, *others])
    ]
    return build_report(sources, "Runs <of> today", expected=["1x1"], **options)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (True, "-"), ("x", "-"), (0, "0"), (0.0, "0"), (7, "7"), (123456, "123,456"), (1234.5, "1,234"),
        (12.72, "12.72"), (0.00196474, "0.001965"), (1.0, "1"), (0.5, "0.5"), (100.0, "100"), (999.96, "1000"),
        (-2.5, "-2.5"),
    ],
)  # fmt: skip
def test_numbers(value: Any, shown: str) -> None:
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("mean", "deviation", "shown"),
    [
        (13.4, 0.1234, "13.40 ± 0.12"),
        (260594.7, 42000.0, "261,000 ± 42,000"),
        (0.00196474, 0.000321, "0.00196 ± 0.00032"),
        (13.4, None, "13.4"),
        (13.4, 0.0, "13.4 ± 0"),
        (None, 1.0, "-"),
    ],
)
def test_a_number_with_its_spread(mean: float | None, deviation: float | None, shown: str) -> None:
    assert text.with_spread({"mean": mean, "standard_deviation": deviation}) == shown


def test_durations() -> None:
    shown = [text.duration(value) for value in (None, True, 0, 59.6, 3723, 90061)]
    assert shown == ["-", "-", "0:00:00", "0:01:00", "1:02:03", "1 d 1:01:01"]


def test_markdown_tells_all() -> None:
    told = text.markdown(report())
    assert told.startswith("# Runs &lt;of&gt; today\n")
    assert "3 runs: 2 succeeded, 1 failed; 21.78 GPU hours, 12.44 of them in runs that are not good." in told
    assert "| alma-n1 | 1x8 | succeeded | 128 of 128 | 12.72 ± 0.25 |" in told
    assert "| alma-n4 | 4x8 | failed | 17 of 128 | - |" in told
    assert "a GPU ran out of memory. What to do: lower the micro batch size." in told
    assert "CUDA &lt;b&gt;out&lt;/b&gt; of memory \\| 2.00 GiB" in told
    assert "| 1x1 | 1 | no run of this size is on record | - |" in told
    for words in ("83ee22f8" * 5, "ab" * 32, "slurm 22.05.8", "driver 535.129.03", "gpu001, gpu002", "demo-user on login",
                  "steps 11 to 128", "after 0:00:30 in the queue"):  # fmt: skip
        assert words in told
    # Every line of a table has as many cells as its headings.
    tables = [block for block in told.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for block in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_columns_that_say_nothing_are_left_out() -> None:
    headings, rows = text.run_table(report())
    assert "source" not in headings
    assert "tokens/s" not in headings
    assert {len(cells) for cells in rows} == {len(headings)}
    headings, _rows = text.run_table(report([row("alma-n1")]))
    assert headings[:2] == ["run", "source"]
    headings, _rows = text.scaling_table(report()["scaling"][0])
    assert headings[5:] == ["speed-up over 1x8 (efficiency)"]


def test_csv_has_full_numbers_and_no_formulas() -> None:
    dangerous = {**row("alma-n1", message="=HYPERLINK(1)", verdict="failed"), "nodes": []}
    made = build_report([{"label": "@s", "root": "/r", "runs": [*SWEEP, dangerous]}])
    told = list(csv.DictReader(io.StringIO(text.csv_text(made))))
    assert len(told) == 4
    good = next(line for line in told if line["name"] == "alma-n1" and line["verdict"] == "succeeded")
    assert float(good["seconds_per_step_mean"]) == 12.72
    assert good["seconds_per_step_source"] == "log: clock"
    assert (good["source"], good["gpus"], good["nodes"], good["waited_seconds"]) == ("'@s", "8", "gpu001", "30.0")
    bad = next(line for line in told if line["name"] == "alma-n4")
    assert (bad["seconds_per_step_mean"], bad["reason"]) == ("", "failed: a GPU ran out of memory")
    assert all(value[:1] not in ("=", "@", "+") for line in told for value in line.values())


class Page(HTMLParser):
    """What is in a page, and whether every element that is opened is closed."""

    VOID = frozenset(("meta", "br", "path", "use", "circle", "rect"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.note(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.note(attrs)

    def note(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "xlink:href", "action"):
                self.links.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    others = [row("alma-n1", 1, 8, 10.0), row("alma-n2", 2, 8, 11.0)]
    values = {"seconds_per_step": {"value": 10.0, "tolerance": 0.05}}
    baseline = {"schema": 1, "clusters": {"oci": {"workloads": {"alma": {"1x8": values}}}}}
    made = report(others, baseline=baseline, cluster="oci")
    page = html.page(made)
    found = Page(page)
    assert found.open == []
    assert found.seen.count("svg") == 7
    assert "script" not in found.seen
    assert len(set(found.ids)) == len(found.ids)
    assert {link for link in found.links if not link.startswith("#")} == set()
    assert not re.search(r"https?://", page)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page
    words = " ".join(found.words)
    for told in ("Runs <of> today", "CUDA <b>out</b> of memory | 2.00 GiB", "A GPU ran out of memory.", "27.2 % higher",
                 "Needs attention", "Comparison", "no run of this size is on record"):  # fmt: skip
        assert told in words
    assert html.page(made) == page


def test_pictures_take_the_colours_of_the_page() -> None:
    page = html.page(report())
    for sign in ("#010203", "#020304", "#0a0b0"):
        assert sign not in page
    assert "currentColor" in page
    assert "var(--series-0)" in page
    assert page.count("--series-7:") == 3


def test_a_page_without_plots_and_without_runs() -> None:
    assert "<svg" not in html.page(report(), with_plots=False)
    empty = html.page(build_report([{"label": "a", "root": "/r", "runs": []}]))
    assert Page(empty).open == []
    assert "0 runs" in empty


def test_without_matplotlib_a_sentence_tells_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def none(name: str, *arguments: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", none)
    with pytest.raises(plots.NoMatplotlib, match=r"requirements\.txt"):
        html.page(report())
    assert "<h1>" in html.page(report(), with_plots=False)


def test_what_is_not_drawn_is_told() -> None:
    many = [dict(row(f"r{number}"), label=f"r{number}") for number in range(10)]
    drawn = plots.curves(many, 2, "k", "loss")
    assert drawn is not None
    assert drawn[1] == "2 more runs are not drawn."
    spike = dict(
        row("a"), label="a", series=[[1.0, 500.0, None], *([float(step), 10.0, None] for step in range(2, 60))]
    )
    drawn = plots.curves([spike], 1, "k", "time")
    assert drawn is not None
    assert "1 points above 4 times the median" in drawn[1]
    assert plots.curves([dict(row("a"), label="a", series=None)], 1, "k", "x") is None
    assert plots.curves([dict(row("a"), label="a", series=[[1.0, None, None]])], 1, "k", "x") is None


def test_names_in_pictures_are_escaped() -> None:
    odd = dict(row("a"), label='a<b>&"c')
    other = dict(row("b"), label="x" * 90)
    drawn = plots.curves([odd, other], 1, "k", 'say "<hi>"')
    assert drawn is not None
    assert "a&lt;b&gt;&amp;" in drawn[0]
    assert 'aria-label="say &quot;&lt;hi>&quot;"' in drawn[0]
    assert "x" * 43 + "…" in drawn[0]


def test_a_group_without_any_good_run_has_no_pictures() -> None:
    made = build_report([{"label": "a", "root": "/r", "runs": [BAD, row("alma-n1", 1, 8, None)]}])
    group = made["scaling"][0]
    assert plots.speedup(group, "full_node", "1x8", "s", "x") is None
    assert plots.efficiency(group, "e", "x") is None
    assert plots.comparison([], ["a"], "c", "x") is None
    assert Page(html.page(made)).open == []
