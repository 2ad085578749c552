# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of the role `reconcile`; each is described in the YAML file of its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.module_utils._files import pretty_json
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _reconcile_report as report
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_tasks import plain


def reconcile_record(planned: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    specs = {spec["name"]: spec for spec in wanted["specs"]}
    entries = []
    for name, outcome in planned.items():
        spec = specs[name]
        jobs = outcome["jobs"] or []
        runs = [{"name": job["name"], "run_dir": job["run_dir"]} for job in jobs]
        entries.append(
            {
                "name": name,
                "digest": spec["digest"],
                "site": spec["site"],
                "spec": {key: spec[key] for key in ("name", "workload", "variables")},
                "commit": wanted["commit"],
                "version": wanted["version"],
                "runs": runs,
                "error": outcome["error"] or ("" if runs else "its role led to no run"),
            }
        )
    return entries


def reconcile_report(
    wanted: Mapping[str, Any],
    look: Mapping[str, Any],
    planned: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Any] | None,
    cluster: str,
    check_mode: bool,
) -> dict[str, Any]:
    return report.reconcile_report(plain(wanted), plain(look), plain(planned), plain(after), str(cluster), check_mode)


def reconcile_lines(value: Mapping[str, Any]) -> list[str]:
    return report.report_lines(value)


def reconcile_markdown(value: Mapping[str, Any]) -> str:
    return report.report_markdown(value)


def reconcile_json(value: Mapping[str, Any]) -> str:
    return pretty_json(plain(value))


def reconcile_trouble(value: Mapping[str, Any]) -> list[str]:
    return report.trouble(value)


def reconcile_status(value: Mapping[str, Any]) -> dict[str, Any]:
    return report.status_of(plain(value))


def reconcile_status_markdown(value: Mapping[str, Any], link_base: str = "") -> str:
    return report.status_markdown(value, link_base)


def reconcile_quiet(value: Mapping[str, Any]) -> bool:
    return not set(value["counts"]) - {"left alone"} and not value["problems"]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        functions: Sequence[Callable[..., Any]] = (
            reconcile_record,
            reconcile_report,
            reconcile_lines,
            reconcile_markdown,
            reconcile_json,
            reconcile_trouble,
            reconcile_status,
            reconcile_status_markdown,
            reconcile_quiet,
        )
        return {function.__name__: function for function in functions}
