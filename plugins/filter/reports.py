# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that make reports and baselines from the records of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils._files import pretty_json
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _baseline, _report_html, _report_text
from ansible_collections.dgxc.workloads.plugins.plugin_utils._report_model import ReportError, build_report, parse_cell
from ansible_collections.dgxc.workloads.plugins.plugin_utils._report_plots import NoMatplotlib, check
from ansible_collections.dgxc.workloads.plugins.plugin_utils._table import table

FORMATS = ("markdown", "csv", "json", "html")
_COMPARE_FIELDS = ("label", "root", "workload", "names", "file")


def _plain(value: Any) -> Any:
    """The value in Python's own types: Ansible's carry tags that YAML and JSON writers do not know."""
    if isinstance(value, Mapping):
        return {_plain(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


def _wanted(report: Any) -> dict[str, Any]:
    if not isinstance(report, Mapping) or "runs" not in report or "summary" not in report:
        raise AnsibleFilterError("a report is wanted, as run_report makes it.")
    plain: dict[str, Any] = _plain(report)
    return plain


def run_report_problems(variables: Any) -> list[str]:
    found: list[str] = []
    values: Mapping[str, Any] = _plain(variables)
    for name in values.get("report_formats") or []:
        if name not in FORMATS:
            found.append(f"report_formats has {name!r}; it may have {', '.join(FORMATS)}.")
    for cell in values.get("report_expected") or []:
        try:
            parse_cell(cell)
        except ReportError as error:
            found.append(f"report_expected: {error}")
    for number, entry in enumerate(values.get("report_compare") or []):
        found += _compare_problems(f"report_compare[{number}]", entry)
    folder = str(values.get("report_directory") or "")
    if not os.path.isabs(folder):
        found.append(f"report_directory is {folder!r}; give an absolute path on the controller.")
    tolerance = values.get("report_baseline_tolerance")
    if not isinstance(tolerance, (int, float)) or isinstance(tolerance, bool) or not 0 <= tolerance < 10:
        found.append(f"report_baseline_tolerance is {tolerance!r}; give a fraction such as 0.05.")
    baseline = str(values.get("report_baseline") or "")
    if baseline and not os.path.isfile(baseline):
        found.append(f"report_baseline is {baseline!r}, but there is no such file on the controller: correct the path.")
    written = str(values.get("report_write_baseline") or "")
    if written and not os.path.isdir(os.path.dirname(os.path.abspath(written))):
        found.append(
            f"report_write_baseline is {written!r}, but there is no such folder on the controller: make it, or give"
            " another file."
        )
    if values.get("report_fail_on_regression") and not baseline:
        found.append("report_fail_on_regression is true, but report_baseline names no file to compare with.")
    if values.get("report_plots") and "html" in (values.get("report_formats") or []):
        try:
            check()
        except NoMatplotlib as error:
            found.append(str(error))
    return found


def _compare_problems(where: str, entry: Any) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"{where} is {entry!r}; write label and root, or label and file."]
    found = [
        f"{where} has the unknown entry {name!r}; it may have {', '.join(_COMPARE_FIELDS)}."
        for name in entry
        if name not in _COMPARE_FIELDS
    ]
    if not entry.get("label"):
        found.append(f"{where} has no label; give it a short name.")
    if bool(entry.get("root")) == bool(entry.get("file")):
        found.append(
            f"{where} needs either root (a folder of runs on the cluster) or file (the JSON of another report on the "
            "controller)."
        )
    elif entry.get("file") and not os.path.isfile(str(entry["file"])):
        found.append(f"{where}.file is {entry['file']!r}, but there is no such file on the controller: correct it.")
    return found


def run_report(
    sources: Any,
    title: str = "",
    expected: Any = (),
    full_node: int = 0,
    baseline: Any = None,
    cluster: str = "",
) -> dict[str, Any]:
    try:
        known = (
            _plain(baseline) if isinstance(baseline, Mapping) else yaml.safe_load(str(baseline)) if baseline else None
        )
        return build_report(
            _plain(sources), str(title), _plain(expected), int(full_node or 0) or None, known, _plain(cluster)
        )
    except (ReportError, _baseline.BaselineError) as error:
        raise AnsibleFilterError(str(error)) from None
    except yaml.YAMLError as error:
        raise AnsibleFilterError(f"the baseline is no YAML: {error}") from None


def run_report_markdown(report: Any) -> str:
    return _report_text.markdown(_wanted(report))


def run_report_csv(report: Any) -> str:
    return _report_text.csv_text(_wanted(report))


def run_report_json(report: Any) -> str:
    return pretty_json(_wanted(report))


def run_report_html(report: Any, plots: bool = True) -> str:
    try:
        return _report_html.page(_wanted(report), bool(plots))
    except NoMatplotlib as error:
        raise AnsibleFilterError(str(error)) from None


def run_report_lines(report: Any) -> list[str]:
    plain = _wanted(report)
    headings, rows = _report_text.run_table(plain)
    lines = table(headings, rows) if rows else ["no runs on record"]
    for row in plain["runs"]:
        if row["verdict"] != "succeeded":
            lines.append(f"{row['name']}: {_report_text.why(row)}")
    if plain["baseline"]:
        lines += ["", *table(_report_text.BASELINE_HEADINGS, [
            _report_text.baseline_cells(entry) for entry in plain["baseline"]["checks"]
        ])] if plain["baseline"]["checks"] else ["the baseline has nothing to compare with these runs"]  # fmt: skip
    return [*lines, "", _report_text.summary_line(plain)]


def run_report_regressions(report: Any) -> list[str]:
    found = _wanted(report)["baseline"]
    return _baseline.regressions(found["checks"]) if found else []


def run_baseline(report: Any, cluster: str, old: Any = None, tolerance: float = _baseline.DEFAULT_TOLERANCE) -> str:
    plain = _wanted(report)
    main = plain["sources"][0]["label"] if plain["sources"] else ""
    try:
        known = yaml.safe_load(str(old)) if old else None
        new = _baseline.updated(
            known,
            _plain(cluster),
            [row for row in plain["runs"] if row["source"] == main],
            float(tolerance),
        )
    except yaml.YAMLError as error:
        raise AnsibleFilterError(f"the baseline is no YAML: {error}") from None
    except _baseline.BaselineError as error:
        raise AnsibleFilterError(str(error)) from None
    text: str = yaml.safe_dump(new, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    return "---\n" + text


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "run_report": run_report,
            "run_report_problems": run_report_problems,
            "run_report_markdown": run_report_markdown,
            "run_report_csv": run_report_csv,
            "run_report_json": run_report_json,
            "run_report_html": run_report_html,
            "run_report_lines": run_report_lines,
            "run_report_regressions": run_report_regressions,
            "run_baseline": run_baseline,
        }
