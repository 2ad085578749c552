# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report says: runs, scaling, comparison and baseline, from records alone and without a look at any clock.

This file is private to the collection. The rules:

* Only a run that succeeded has numbers. Every other one stays in the report with the reason.
* A cell is a number of nodes times a number of GPUs in each. Of the good runs in a cell the newest one counts; all of
  them are in the table.
* Speed-up is the quotient of the samples per second of two cells, so that it holds whether the global batch size grows
  with the GPUs or not. Without them it is that of the steps per second, and the report says so. Efficiency is speed-up
  divided by the quotient of the numbers of GPUs.
* Cells are compared within one family: runs of one workload whose names differ only in the size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _baseline

SCHEMA = 1
GOOD = "succeeded"
#: What a name may say of its size: `n2`, `n2g8`, `n1g8b4` (where the batch size stays).
_SIZE = re.compile(r"(?:^|(?<=[-_.]))n\d+(?:g\d+)?(?=b\d+(?:$|[-_.])|$|[-_.])")
_CELL = re.compile(r"(\d+) ?[xX×] ?(\d+)")

#: Metrics in the order of the tables: field, heading, unit, whether more is better.
METRICS: tuple[tuple[str, str, str, bool], ...] = (
    ("seconds_per_step", "seconds per step", "s", False),
    ("samples_per_second", "samples per second", "1/s", True),
    ("tokens_per_second", "tokens per second", "1/s", True),
    ("training_loss", "training loss", "", False),
    ("evaluation_loss", "evaluation loss", "", False),
)


class ReportError(Exception):
    """A report cannot be made; the message is a sentence for the user."""


def parse_cell(text: Any) -> tuple[int, int]:
    """`2x8` as (nodes, GPUs per node). Raises ReportError with the remedy."""
    if isinstance(text, Mapping) and set(text) == {"nodes", "gpus_per_node"}:
        text = "{nodes}x{gpus_per_node}".format(**text)
    match = _CELL.fullmatch(str(text).strip())
    if match is None or 0 in (int(match[1]), int(match[2])):
        raise ReportError(f"{text!r} is no size: write nodes x GPUs per node, such as 2x8.")
    return int(match[1]), int(match[2])


def family_of(name: str) -> str:
    """A run's name without its size: runs of one family differ in nothing else, as far as names tell."""
    bare = _SIZE.sub("", name)
    return re.sub(r"([-_.])[-_.]+", r"\1", bare).strip("-_.") or name


def cell_name(row: Mapping[str, Any]) -> str:
    """`2x8`, or `?` parts where the run does not say."""
    return "{}x{}".format(row.get("node_count") or "?", row.get("gpus_per_node") or "?")


def moment(seconds: float | None) -> str:
    """A time of a record for people, in UTC; `-` when there is none."""
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def metric(row: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """A metric of a good run that has a mean; None otherwise."""
    if row.get("verdict") != GOOD:
        return None
    found = (row.get("metrics") or {}).get(name)
    return found if isinstance(found, Mapping) and found.get("mean") is not None else None


def reason(row: Mapping[str, Any]) -> str:
    """Why a run has no numbers, or why it is not good: the cause in its log if there is one, else its message."""
    if row.get("verdict") == GOOD:
        missing = ((row.get("metrics") or {}).get("seconds_per_step") or {}).get("reason")
        return "" if metric(row, "seconds_per_step") else str(missing or "no step time is on record")
    cause = row.get("cause") or {}
    words = "{}: {}".format(row.get("verdict"), cause["cause"]) if cause.get("cause") else ""
    return words or "{}: {}".format(row.get("verdict"), row.get("message") or "no reason is on record")


def _newest(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    def when(row: Mapping[str, Any]) -> tuple[float, str]:
        return float(row.get("ended") or row.get("submitted") or row.get("requested") or 0.0), str(row.get("run_dir"))

    return max(rows, key=when, default=None)


def build_report(
    sources: Sequence[Mapping[str, Any]],
    title: str = "",
    expected: Sequence[Any] = (),
    full_node: int | None = None,
    baseline: Mapping[str, Any] | None = None,
    cluster: str = "",
) -> dict[str, Any]:
    """The report on some sources of records: `label`, `root` and `runs` (rows of `run_records_info`) each.

    A source may also be a result of a loop, which has its label in `item`, or a pair of such an entry and the text of
    another report's JSON.

    `expected` are cells (`2x8`) that a sweep should have, and that are shown as missing otherwise. `full_node` is the
    number of GPUs of a full node; the largest one seen if it is None. Raises ReportError for a cell or a baseline that
    cannot be read.
    """
    cells = sorted({parse_cell(cell) for cell in expected}, key=lambda cell: (cell[0] * cell[1], cell))
    rows = []
    labels: list[str] = []
    sources = [_source(source) for source in sources]
    for number, source in enumerate(sources):
        label = str(source.get("label") or f"source {number + 1}")
        if label in labels:
            raise ReportError(f"two sources of the report are called {label!r}: give them different labels.")
        labels.append(label)
        rows += sorted((_row(row, label) for row in source.get("runs") or []), key=_order)
    groups = _groups(rows, cells, full_node)
    checks = _checks(baseline, cluster, rows, labels) if baseline is not None else []
    return {
        "schema": SCHEMA,
        "title": title or "Training runs",
        "as_of": moment(max((time for row in rows for time in _times(row)), default=None)),
        "sources": [
            {"label": label, "root": str(source.get("root") or ""), "runs": len(source.get("runs") or [])}
            for label, source in zip(labels, sources, strict=True)
        ],
        "summary": _summary(rows),
        "runs": rows,
        "scaling": groups,
        "comparison": _comparison(rows, labels, cells) if len(labels) > 1 else [],
        "baseline": {"cluster": cluster, "checks": checks} if baseline is not None else None,
    }


def _checks(
    baseline: Mapping[str, Any], cluster: str, rows: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The first source is held against the cluster that was asked for, another one against that of its own label."""
    checks: list[dict[str, Any]] = []
    for number, label in enumerate(labels):
        wanted = cluster if number == 0 else label
        if number == 0 or wanted in (baseline.get("clusters") or {}):
            checks += _baseline.compare(baseline, wanted, [row for row in rows if row["source"] == label])
    return checks


def _source(source: Any) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source if source.get("label") else dict(source, label=(source.get("item") or {}).get("label"))
    entry, text = source
    try:
        found = json.loads(text)
        first = found["sources"][0]["label"]
        runs = [dict(row) for row in found["runs"] if row["source"] == first]
    except (ValueError, KeyError, IndexError, TypeError):
        raise ReportError(f"{entry.get('file')} is no report in JSON; name a file that this role wrote.") from None
    return {"label": entry.get("label"), "root": entry.get("file"), "runs": runs}


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Runs of one family together, by size and time."""
    size = (int(row.get("gpus") or 0), int(row.get("node_count") or 0))
    return str(row["workload"]), str(row["family"]), size, max(_times(row), default=0.0), str(row["run_dir"])


def _times(row: Mapping[str, Any]) -> list[float]:
    return [float(row[name]) for name in ("ended", "started", "submitted", "requested") if row.get(name) is not None]


def _row(row: Mapping[str, Any], label: str) -> dict[str, Any]:
    new = dict(row, source=label, cell=cell_name(row), family=family_of(str(row.get("name"))), reason=reason(row))
    new["waited"] = None
    if row.get("started") is not None and row.get("submitted") is not None:
        new["waited"] = max(0.0, float(row["started"]) - float(row["submitted"]))
    return new


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    verdicts = [str(row.get("verdict")) for row in rows]
    hours = [float(row["gpu_hours"]) for row in rows if row.get("gpu_hours") is not None]
    bad = [float(row["gpu_hours"]) for row in rows if row.get("gpu_hours") is not None and row.get("verdict") != GOOD]
    return {
        "runs": len(rows),
        "succeeded": verdicts.count(GOOD),
        "failed": verdicts.count("failed"),
        "other": len(rows) - verdicts.count(GOOD) - verdicts.count("failed"),
        "gpu_hours": round(sum(hours), 6) if hours else None,
        "gpu_hours_not_good": round(sum(bad), 6) if hours else None,
    }


# Scaling.


def _groups(
    rows: Sequence[Mapping[str, Any]], expected: Sequence[tuple[int, int]], full_node: int | None
) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("node_count") and row.get("gpus_per_node"):
            found.setdefault((row["source"], str(row["workload"]), row["family"]), []).append(row)
    groups = []
    for (label, workload, family), members in found.items():
        cells = {(int(row["node_count"]), int(row["gpus_per_node"])) for row in members}
        # A run outside the sweep is no reason to call the sweep incomplete.
        if len(cells) > 1 or cells & set(expected):
            wanted = sorted(cells | set(expected), key=lambda cell: (cell[0] * cell[1], cell))
            groups.append(_group(label, workload, family, members, wanted, full_node))
    return groups


def _group(
    label: str,
    workload: str,
    family: str,
    rows: Sequence[Mapping[str, Any]],
    cells: Sequence[tuple[int, int]],
    full_node: int | None,
) -> dict[str, Any]:
    chosen = {cell: _choose(rows, cell) for cell in cells}
    measured = [row for row in chosen.values() if row is not None and metric(row, "seconds_per_step")]
    by_samples = bool(measured) and all(metric(row, "samples_per_second") for row in measured)
    node = full_node or max(gpus for _nodes, gpus in cells)
    references = {"one_gpu": (1, 1), "full_node": (1, node)}
    rates = {
        cell: _rate(row, by_samples) if row is not None and metric(row, "seconds_per_step") else None
        for cell, row in chosen.items()
    }
    told = []
    for cell in cells:
        row = chosen[cell]
        entry: dict[str, Any] = {
            "cell": "{}x{}".format(*cell),
            "nodes": cell[0],
            "gpus_per_node": cell[1],
            "gpus": cell[0] * cell[1],
            "run": row["name"] if row is not None else None,
            "run_dir": row["run_dir"] if row is not None else None,
            "verdict": row["verdict"] if row is not None else "missing",
            "reason": row["reason"] if row is not None else "no run of this size is on record",
            "seconds_per_step": _mean(row, "seconds_per_step"),
            "standard_deviation": _mean(row, "seconds_per_step", "standard_deviation"),
            "rate": rates[cell],
        }
        for name, reference in references.items():
            entry["speedup_" + name], entry["efficiency_" + name] = _speedup(cell, reference, rates)
        told.append(entry)
    return {
        "source": label,
        "workload": workload,
        "family": family,
        "rate": "samples per second" if by_samples else "steps per second",
        "full_node": f"1x{node}",
        "cells": told,
        "notes": _notes(measured, references, rates, by_samples),
    }


def _choose(rows: Sequence[Mapping[str, Any]], cell: tuple[int, int]) -> Mapping[str, Any] | None:
    """The run that stands for a cell: the newest good one with a step time, else the newest."""
    here = [row for row in rows if (row.get("node_count"), row.get("gpus_per_node")) == cell]
    return _newest(row for row in here if metric(row, "seconds_per_step")) or _newest(here)


def _mean(row: Mapping[str, Any] | None, name: str, part: str = "mean") -> float | None:
    found = metric(row, name) if row is not None else None
    value = found.get(part) if found is not None else None
    return None if value is None else float(value)


def _rate(row: Mapping[str, Any], by_samples: bool) -> float | None:
    if by_samples:
        return _mean(row, "samples_per_second")
    seconds = _mean(row, "seconds_per_step")
    return 1.0 / seconds if seconds else None


def _speedup(
    cell: tuple[int, int], reference: tuple[int, int], rates: Mapping[tuple[int, int], float | None]
) -> tuple[float | None, float | None]:
    base, rate = rates.get(reference), rates.get(cell)
    if not base or not rate:
        return None, None
    speedup = rate / base
    return speedup, speedup * (reference[0] * reference[1]) / (cell[0] * cell[1])


def _notes(
    rows: Sequence[Mapping[str, Any]],
    references: Mapping[str, tuple[int, int]],
    rates: Mapping[tuple[int, int], float | None],
    by_samples: bool,
) -> list[str]:
    notes = []
    for cell in sorted(set(references.values())):
        if not rates.get(cell):
            notes.append("There is no good run of size {}x{}, so nothing is compared with it.".format(*cell))
    if rows and not by_samples:
        notes.append(
            "The runs tell no samples per second; their steps are compared, which is fair only for one batch size."
        )
    origins = {str((metric(row, "seconds_per_step") or {}).get("source")).partition(",")[0] for row in rows}
    if len(origins) > 1:
        notes.append("The step times are not of one kind: {}.".format("; ".join(sorted(origins))))
    for name, words in (("identity", "commits, image or data"), ("sequence_length", "sequence length")):
        values = {str(row["identity"] if name == "identity" else (row.get("expect") or {}).get(name)) for row in rows}
        if len(values) > 1:
            notes.append(f"The runs differ in {words}, not only in size; see their records.")
    return notes


# Comparison of sources.


def _comparison(
    rows: Sequence[Mapping[str, Any]], labels: Sequence[str], expected: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """One entry per workload, family and cell, with the value of each source and its ratio to the first one's."""
    keys: dict[tuple[str, str, tuple[int, int]], None] = {}
    families: dict[tuple[str, str], set[str]] = {}
    sized = [row for row in rows if row.get("node_count") and row.get("gpus_per_node")]
    for row in sized:
        families.setdefault((row["source"], str(row["workload"])), set()).add(row["family"])
    # Where each source has one family of a workload, these are compared whatever they are called.
    single = {
        workload
        for _label, workload in families
        if all(len(found) == 1 for (_source, name), found in families.items() if name == workload)
    }

    def family(row: Mapping[str, Any]) -> str:
        return "" if row["workload"] in single else str(row["family"])

    for row in sized:
        size = (int(row["node_count"]), int(row["gpus_per_node"]))
        for cell in [size, *expected]:
            keys[(str(row["workload"]), family(row), cell)] = None
    entries = []
    for workload, name, cell in sorted(keys, key=lambda key: (key[0], key[1], key[2][0] * key[2][1], key[2])):
        values: list[dict[str, Any]] = []
        for label in labels:
            mine = [row for row in sized if (row["source"], row["workload"], family(row)) == (label, workload, name)]
            chosen = _choose(mine, cell)
            values.append(
                {
                    "source": label,
                    "run": chosen["name"] if chosen is not None else None,
                    "verdict": chosen["verdict"] if chosen is not None else "missing",
                    "reason": chosen["reason"] if chosen is not None else "no run of this size is on record",
                    "seconds_per_step": _mean(chosen, "seconds_per_step"),
                    "standard_deviation": _mean(chosen, "seconds_per_step", "standard_deviation"),
                    "samples_per_second": _mean(chosen, "samples_per_second"),
                    "ratio": None,
                }
            )
        first = values[0]["seconds_per_step"]
        for value in values[1:]:
            if first and value["seconds_per_step"]:
                value["ratio"] = value["seconds_per_step"] / first
        entries.append({"workload": workload, "family": name, "cell": "{}x{}".format(*cell), "values": values})
    return entries
