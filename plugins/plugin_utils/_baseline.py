# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Baselines: expected values with tolerances, by cluster, workload and size, and what a report makes of them.

This file is private to the collection. The file is YAML:

    schema: 1
    clusters:
      oci-h100:
        reference_only: false        # true: shown beside the measurement, never a reason to fail
        about: what it is
        workloads:
          nemo_gpt3:                 # or nemo_gpt3/<family>, for one family of runs
            2x8:                     # nodes x GPUs per node, or any
              seconds_per_step: {value: 13.4, tolerance: 0.05}

A tolerance is a fraction of the value. What is better, less or more, follows from the metric; counts have to be equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

SCHEMA = 1
DEFAULT_TOLERANCE = 0.05
#: What can be compared: whether less or more is better, or both are wrong.
BETTER: dict[str, str] = {
    "seconds_per_step": "lower",
    "samples_per_second": "higher",
    "tokens_per_second": "higher",
    "training_loss": "lower",
    "evaluation_loss": "lower",
    "train_seconds": "lower",
    "elapsed": "lower",
    "steps": "equal",
    "global_batch_size": "equal",
    "num_examples": "equal",
    "trainable_parameters": "equal",
    "last_epoch": "equal",
}
UNITS = {
    "seconds_per_step": "s", "samples_per_second": "1/s", "tokens_per_second": "1/s", "train_seconds": "s",
    "elapsed": "s",
}  # fmt: skip
#: What a new baseline holds.
_WRITTEN = ("seconds_per_step", "samples_per_second", "tokens_per_second", "steps")
_CELL = re.compile(r"\d+x\d+|any")
_ANY = "any"


class BaselineError(Exception):
    """A baseline cannot be used; the message names what is wrong and where."""


def problems(baseline: Any) -> list[str]:
    """What is wrong with a baseline, a sentence each."""
    if not isinstance(baseline, Mapping) or not isinstance(baseline.get("clusters"), Mapping):
        return ["the baseline has no clusters: it is a YAML file with `schema: 1` and `clusters:`."]
    found = []
    if baseline.get("schema") != SCHEMA:
        found.append(f"the baseline's schema is {baseline.get('schema')!r}; this release reads {SCHEMA}.")
    for cluster, content in baseline["clusters"].items():
        workloads = content.get("workloads") if isinstance(content, Mapping) else None
        if not isinstance(workloads, Mapping):
            found.append(f"clusters.{cluster} has no workloads.")
            continue
        for workload, cells in workloads.items():
            for cell, values in cells.items() if isinstance(cells, Mapping) else [("?", None)]:
                where = f"clusters.{cluster}.workloads.{workload}.{cell}"
                if not _CELL.fullmatch(str(cell)) or not isinstance(values, Mapping):
                    found.append(f"{where} is no size such as 2x8 with metrics below it.")
                    continue
                found += _value_problems(where, values)
    return found


def _value_problems(where: str, values: Mapping[str, Any]) -> list[str]:
    found = []
    for metric, entry in values.items():
        if metric not in BETTER:
            found.append(f"{where}.{metric} is no metric; there are {', '.join(BETTER)}.")
        elif not isinstance(entry, Mapping) or not _is_number(entry.get("value")):
            found.append(f"{where}.{metric} has no value: write {{value: 1.0, tolerance: 0.05}}.")
        elif not _is_number(entry.get("tolerance", 0.0)) or entry.get("tolerance", 0.0) < 0.0:
            found.append(f"{where}.{metric}.tolerance is no fraction of at least 0.")
    return found


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


def measured(row: Mapping[str, Any], metric: str) -> float | None:
    """The value of a metric in a good run; None where it has none."""
    if row.get("verdict") != "succeeded":
        return None
    log = row.get("log") or {}
    settings, summary = log.get("settings") or {}, log.get("summary") or {}
    state = (row.get("output") or {}).get("trainer_state") or {}
    if metric == "train_seconds":
        value = state.get("runtime_seconds") or summary.get("train_runtime", log.get("elapsed_seconds"))
    elif metric == "steps":
        value = row.get("steps_done")
    elif metric == "elapsed":
        value = row.get("elapsed")
    elif metric == "last_epoch":
        # The integer part, as the guide compares it.
        value = int(state["last_epoch"]) if _is_number(state.get("last_epoch")) else log.get("epoch")
    elif metric in ("global_batch_size", "num_examples", "trainable_parameters"):
        value = settings.get(metric, (row.get("expect") or {}).get(metric))
    else:
        value = ((row.get("metrics") or {}).get(metric) or {}).get("mean")
    return float(value) if _is_number(value) else None


def compare(baseline: Mapping[str, Any], cluster: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every expected value of the cluster that one of the rows can be held against, and how it compares.

    `status` is ok, better (beyond the tolerance), worse, not measured (there are runs, none of them good, or none with
    that number) or missing (no run of that size; not told of values for reference only). Raises BaselineError for a
    cluster that the baseline does not have.
    """
    wrong = problems(baseline)
    if wrong:
        raise BaselineError("\n".join(wrong))
    clusters = baseline["clusters"]
    if cluster not in clusters:
        known = ", ".join(sorted(map(str, clusters))) or "none"
        raise BaselineError(
            f"the baseline has no cluster {cluster!r}; it has {known}. Set report_cluster to one of them, or write its "
            "values with report_write_baseline."
        )
    content = clusters[cluster]
    workloads = content["workloads"]
    seen = {str(row.get("workload")) for row in rows}
    checks = []
    for key, cells in workloads.items():
        workload, _slash, family = str(key).partition("/")
        if workload not in seen:
            continue
        mine = [row for row in rows if str(row.get("workload")) == workload and family in ("", row.get("family"))]
        mine = [row for row in mine if family or f"{workload}/{row.get('family')}" not in workloads]
        for cell, values in cells.items():
            sizes = sorted({str(row["cell"]) for row in mine}) if cell == _ANY else [str(cell)]
            for size in sizes:
                here = [row for row in mine if row["cell"] == size]
                reference_only = bool(content.get("reference_only"))
                if here or not reference_only:
                    checks += [
                        _check(cluster, str(key), size, metric, entry, here, reference_only)
                        for metric, entry in values.items()
                    ]
    return checks


def _check(
    cluster: str,
    workload: str,
    cell: str,
    metric: str,
    entry: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    reference_only: bool,
) -> dict[str, Any]:
    expected, tolerance = float(entry["value"]), float(entry.get("tolerance", 0.0))
    check: dict[str, Any] = {
        "cluster": cluster, "workload": workload, "cell": cell, "metric": metric, "unit": UNITS.get(metric, ""),
        "expected": expected, "tolerance": tolerance, "measured": None, "change": None, "run": None,
        "reference_only": reference_only, "note": str(entry.get("note") or ""),
    }  # fmt: skip
    good = [row for row in rows if measured(row, metric) is not None]
    row = max(good, key=lambda row: float(row.get("ended") or 0.0), default=None)
    what = f"{workload} {cell}: {metric}"
    if row is None:
        check["status"] = "not measured" if rows else "missing"
        why = next(
            (str(row.get("reason")) for row in reversed(rows) if row.get("reason")), "the runs have no such number"
        )
        check["sentence"] = f"{what} was not measured: {why if rows else 'no run of this size is on record'}."
        return check
    value = measured(row, metric)
    if value is None:
        raise AssertionError("a row without the value was chosen")
    change = (value - expected) / abs(expected) if expected else (0.0 if value == expected else float("inf"))
    worse = {"lower": change, "higher": -change, "equal": abs(change)}[BETTER[metric]]
    # A rounding error of the last bit is no difference.
    status = "worse" if worse > tolerance + 1e-12 else "better" if -worse > tolerance + 1e-12 else "ok"
    check.update(measured=value, run=row.get("name"), status=status, change=change if change - change == 0.0 else None)
    unit = f" {check['unit']}" if check["unit"] else ""
    moved = "is" if value == expected else "differs: " if check["change"] is None else f"is {_percent(change)}:"
    check["sentence"] = (
        f"{what} {moved} {value:.6g}{unit}, expected {expected:.6g}{unit} with a tolerance of {tolerance * 100:g} %"
        f" ({'reference only, ' if reference_only else ''}run {row.get('name')})."
    )
    return check


def _percent(change: float) -> str:
    return "{:.1f} % {}".format(abs(change) * 100.0, "higher" if change > 0 else "lower")


def regressions(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """The sentences of all checks that a play may fail on: worse ones, and those whose runs are not good."""
    return [
        str(check["sentence"])
        for check in checks
        if check["status"] in ("worse", "not measured") and not check["reference_only"]
    ]


def updated(
    baseline: Mapping[str, Any] | None, cluster: str, rows: Sequence[Mapping[str, Any]], tolerance: float
) -> dict[str, Any]:
    """The baseline with the numbers of the newest good runs in the place of the cluster's old ones.

    Values of sizes without a good run, and tolerances and metrics that a person put in, stay. Raises BaselineError for
    a baseline that cannot be read, and when no run is good.
    """
    wrong = problems(baseline) if baseline else []
    if wrong:
        raise BaselineError("\n".join(wrong))
    clusters: dict[str, Any] = dict((baseline or {}).get("clusters") or {})
    old = clusters.get(cluster) or {}
    if old.get("reference_only"):
        raise BaselineError(
            f"the values of {cluster!r} are for reference only; write those of your cluster under its name."
        )
    workloads = {
        name: {cell: dict(values) for cell, values in cells.items()}
        for name, cells in (old.get("workloads") or {}).items()
    }
    families: dict[str, set[str]] = {}
    for row in rows:
        families.setdefault(str(row["workload"]), set()).add(str(row["family"]))
    good = [row for row in rows if measured(row, "seconds_per_step") is not None and "?" not in str(row["cell"])]
    if not good:
        raise BaselineError("no run is good and has a step time, so there is nothing to write a baseline from.")
    for row in sorted(good, key=lambda row: float(row.get("ended") or 0.0)):
        key = str(row["workload"])
        if len(families[key]) > 1 or f"{key}/{row['family']}" in workloads:
            key = f"{key}/{row['family']}"
        values = workloads.setdefault(key, {}).setdefault(str(row["cell"]), {})
        for metric in _WRITTEN:
            value = measured(row, metric)
            if value is not None:
                values[metric] = _entry(metric, value, values.get(metric) or {}, tolerance)
    clusters[cluster] = {**old, "reference_only": False, "workloads": _sorted_cells(workloads)}
    return {"schema": SCHEMA, "clusters": dict(sorted(clusters.items()))}


def _entry(metric: str, value: float, old: Mapping[str, Any], tolerance: float) -> dict[str, Any]:
    exact = BETTER[metric] == "equal"
    kept = old.get("tolerance", 0.0 if exact else tolerance)
    return {**old, "value": int(value) if exact and value == int(value) else float(f"{value:.6g}"), "tolerance": kept}


def _sorted_cells(workloads: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    def size(cell: str) -> tuple[int, str]:
        nodes, _x, gpus = cell.partition("x")
        return (int(nodes) * int(gpus), cell) if gpus else (0, cell)

    return {
        name: {cell: dict(cells[cell]) for cell in sorted(cells, key=size)} for name, cells in sorted(workloads.items())
    }
