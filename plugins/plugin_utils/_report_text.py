# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report as text: Markdown for people, CSV for spreadsheets; and the words that the HTML page uses as well.

This file is private to the collection.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils._report_model import METRICS, metric, moment

#: The columns of the table of runs; the second one is left out where there is one source.
RUN_HEADINGS = (
    "run", "source", "nodes x GPUs", "verdict", "steps", "seconds per step", "samples/s", "tokens/s", "loss", "ran for",
    "GPU hours", "job",
)  # fmt: skip
BASELINE_HEADINGS = ("size", "metric", "expected", "measured", "change", "tolerance", "status")
HOW = (
    "Only runs that passed every gate have numbers. Seconds per step: mean and sample standard deviation over the "
    "steps that the details name; the first steps of a process (ten, or a tenth of all if that is less) are left out "
    "as warm-up."
)


def number(value: Any) -> str:
    """A number for people: four significant digits, thousands with commas; `-` when there is none."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return "-"
    if isinstance(value, int) or abs(value) >= 1000.0:
        return f"{value:,.0f}"
    # Without the exponent that a small number would get.
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}".rstrip("0").rstrip(".") if value else "0"


def with_spread(found: Mapping[str, Any] | None) -> str:
    """`13.4 ± 0.12`, `13.4` for a single value, `-` without one.

    The spread has two significant digits, and the mean no more places than the spread has.
    """
    if found is None or found.get("mean") is None:
        return "-"
    mean, deviation = float(found["mean"]), found.get("standard_deviation")
    if not deviation:
        return number(mean) + (" ± 0" if deviation is not None else "")
    places = 1 - math.floor(math.log10(float(deviation)))
    return " ± ".join(f"{round(value, places):,.{max(0, places)}f}" for value in (mean, float(deviation)))


def duration(seconds: Any) -> str:
    """`1:02:03`, `2 d 03:00:00`; `-` when there is none."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        return "-"
    whole = round(float(seconds))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days} d {clock}" if days else clock


def percent(share: Any) -> str:
    """A fraction in percent; `-` when there is none."""
    return "-" if share is None else f"{float(share) * 100.0:.0f} %"


def averaged(found: Mapping[str, Any]) -> str:
    """`n 1,990, steps 11 to 2,000; log: ...`: what a number was made from."""
    parts = [f"n {found.get('count'):,}"] if found.get("count") else []
    if found.get("first_step") is not None and found.get("last_step") != found.get("first_step"):
        parts.append(f"steps {found['first_step']:,} to {found['last_step']:,}")
    elif found.get("last_step") is not None:
        parts.append(f"step {found['last_step']:,}")
    words = ", ".join(parts)
    return "; ".join(part for part in (words, str(found.get("source") or "")) if part)


def run_table(report: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of the table of runs. Columns that say nothing here are left out."""
    rows = [_run_cells(row) for row in report["runs"]]
    empty = {place for place in range(len(RUN_HEADINGS)) if rows and all(cells[place] == "-" for cells in rows)}
    if len(report["sources"]) < 2:
        empty.add(1)
    kept = [place for place in range(len(RUN_HEADINGS)) if place not in empty]
    return [RUN_HEADINGS[place] for place in kept], [[cells[place] for place in kept] for cells in rows]


def _run_cells(row: Mapping[str, Any]) -> list[str]:
    steps = "-" if row.get("steps_done") is None else f"{row['steps_done']:,}"
    if row.get("steps") is not None:
        steps += f" of {row['steps']:,}"
    return [
        str(row["name"]),
        str(row["source"]),
        str(row["cell"]),
        str(row["verdict"]),
        steps,
        with_spread(metric(row, "seconds_per_step")),
        *(number((metric(row, name) or {}).get("mean")) for name in ("samples_per_second", "tokens_per_second")),
        number((metric(row, "training_loss") or {}).get("mean")),
        duration(row.get("elapsed")),
        number(row.get("gpu_hours")),
        ", ".join(str(job) for job in row.get("job_ids") or []) or "-",
    ]


def scaling_table(group: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of a table of scaling; a reference without a good run has no columns."""
    references = {"one_gpu": "1x1", "full_node": str(group["full_node"])}
    if references["one_gpu"] == references["full_node"]:
        del references["full_node"]
    shown = {
        name: cell
        for name, cell in references.items()
        if any(entry["speedup_" + name] is not None for entry in group["cells"])
    }
    headings = ["nodes x GPUs", "GPUs", "run", "seconds per step", str(group["rate"])]
    headings += [f"speed-up over {cell} (efficiency)" for cell in shown.values()]
    return headings, [_scaling_cells(entry, list(shown)) for entry in group["cells"]]


def _scaling_cells(entry: Mapping[str, Any], references: Sequence[str]) -> list[str]:
    seconds = {"mean": entry["seconds_per_step"], "standard_deviation": entry["standard_deviation"]}
    name = str(entry["run"] or "-")
    if entry["seconds_per_step"] is None:
        name = f"{name} ({entry['reason']})" if entry["run"] else str(entry["reason"])
    cells = [str(entry["cell"]), str(entry["gpus"]), name, with_spread(seconds), number(entry["rate"])]
    for reference in references:
        speedup, efficiency = entry["speedup_" + reference], entry["efficiency_" + reference]
        cells.append("-" if speedup is None else f"{speedup:.3g} ({percent(efficiency)})")
    return cells


def baseline_cells(check: Mapping[str, Any]) -> list[str]:
    """One line of the table of a baseline, under BASELINE_HEADINGS."""
    change = check["change"]
    unit = f" {check['unit']}" if check["unit"] else ""
    status = str(check["status"]) + (" (reference only)" if check["reference_only"] else "")
    return [
        "{} {}".format(check["workload"], check["cell"]),
        str(check["metric"]).replace("_", " "),
        number(check["expected"]) + unit,
        number(check["measured"]) + (unit if check["measured"] is not None else ""),
        "-" if change is None else f"{round(change * 100.0, 1) + 0.0:+.1f} %",
        f"{check['tolerance'] * 100.0:g} %",
        status,
    ]


def comparison_headings(report: Mapping[str, Any]) -> list[str]:
    """The headings of the comparison: one column a source."""
    labels = [str(source["label"]) for source in report["sources"]]
    return ["workload", "nodes x GPUs", *labels, *(f"{label} / {labels[0]}" for label in labels[1:])]


def comparison_cells(entry: Mapping[str, Any]) -> list[str]:
    """One line of the comparison: seconds per step of each source, or the reason, and the quotients."""
    name = str(entry["workload"]) + (f" {entry['family']}" if entry["family"] else "")
    cells = []
    for value in entry["values"]:
        seconds = {"mean": value["seconds_per_step"], "standard_deviation": value["standard_deviation"]}
        cells.append(str(value["reason"]) if value["seconds_per_step"] is None else with_spread(seconds) + " s")
    ratios = ["-" if value["ratio"] is None else f"{value['ratio']:.3f}" for value in entry["values"][1:]]
    return [name, str(entry["cell"]), *cells, *ratios]


def provenance(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What ran, when, where, by whom, with what: pairs of a name and a text, those without an answer left out."""
    environment = row.get("environment") or {}
    versions = [f"{name} {value}" for name, value in sorted((row.get("versions") or {}).items())]
    nodes = row.get("nodes") or []
    waited = f", after {duration(row['waited'])} in the queue" if row.get("waited") is not None else ""
    pairs = [
        ("run folder", row.get("run_dir")),
        ("key", row.get("key")),
        ("job", ", ".join(str(job) for job in row.get("job_ids") or [])),
        ("user", " on ".join(str(part) for part in (row.get("user"), row.get("host")) if part)),
        ("submitted", moment(row["submitted"]) if row.get("submitted") else None),
        ("ran", f"{moment(row['started'])} to {moment(row.get('ended'))}{waited}" if row.get("started") else None),
        ("attempts", str(len(row.get("attempts") or [])) if len(row.get("attempts") or []) > 1 else None),
        ("nodes", ", ".join(str(node) for node in nodes)),
        ("image", row.get("image")),
        ("image digest", row.get("image_digest")),
        *((name.replace("_", " "), value) for name, value in sorted((row.get("commits") or {}).items())),
        *_identity(row),
        ("script", row.get("script")),
        ("script SHA-256", row.get("script_sha256")),
        ("on the cluster", ", ".join(versions)),
        ("in the container", _flat(environment)),
        *((f"log ({stream})", path) for stream, path in sorted((row.get("logs") or {}).items())),
    ]
    return [(name, str(value)) for name, value in pairs if value]


def _identity(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    told = {"image", "image_reference", "container_image", *(row.get("commits") or {})}
    return [
        (str(name).replace("_", " "), _flat(value))
        for name, value in sorted((row.get("identity") or {}).items())
        if name not in told and str(value) != str(row.get("image_digest"))
    ]


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} {_flat(item)}" for name, item in sorted(value.items()) if item not in (None, "", [], {})
        )
    if isinstance(value, (list, tuple)):
        return ", ".join(_flat(item) for item in value)
    return str(value)


# Markdown.


def _cell(text: str) -> str:
    """A text as the cell of a table: one line, without a bar that would end the cell, and without HTML."""
    flat = " ".join(text.split())
    for sign, safe in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), (">", "&gt;")):
        flat = flat.replace(sign, safe)
    return flat


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(_cell(heading) for heading in headings) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return [*lines, ""]


def summary_line(report: Mapping[str, Any]) -> str:
    """`12 runs: 10 succeeded, 1 failed, 1 other; 3.4 GPU hours, 0.2 of them in runs that are not good.`"""
    summary = report["summary"]
    words = f"{summary['runs']} runs: {summary['succeeded']} succeeded, {summary['failed']} failed"
    if summary["other"]:
        words += f", {summary['other']} open or unknown"
    if summary["gpu_hours"] is not None:
        words += f"; {number(summary['gpu_hours'])} GPU hours"
        if summary["gpu_hours_not_good"]:
            words += f", {number(summary['gpu_hours_not_good'])} of them in runs that are not good"
    return words + "."


def markdown(report: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# {_cell(str(report['title']))}", "", f"{summary_line(report)} Newest record: {report['as_of']}.", ""]
    lines += [f"* {_cell(source['label'])}: `{source['root']}`, {source['runs']} runs" for source in report["sources"]]
    lines += ["", "## Runs", "", HOW, ""]
    lines += _table(*run_table(report))
    bad = [row for row in report["runs"] if row["verdict"] != "succeeded"]
    if bad:
        lines += ["## Not good", ""]
        for row in bad:
            lines += [f"* **{_cell(str(row['name']))}** ({row['cell']}, {_cell(row['source'])}): {_cell(why(row))}"]
        lines.append("")
    if report["scaling"]:
        lines += ["## Scaling", ""]
    for group in report["scaling"]:
        lines += [f"### {_cell(group['family'])} ({_cell(group['source'])})", ""]
        lines += _table(*scaling_table(group))
        lines += [*(f"* {_cell(note)}" for note in group["notes"]), ""]
    if report["comparison"]:
        lines += ["## Comparison", "", "Seconds per step; a quotient below 1 is faster than the first source.", ""]
        lines += _table(comparison_headings(report), (comparison_cells(entry) for entry in report["comparison"]))
    if report["baseline"]:
        lines += [f"## Baseline {_cell(report['baseline']['cluster'])}", ""]
        lines += _table(BASELINE_HEADINGS, (baseline_cells(check) for check in report["baseline"]["checks"]))
    lines += ["## Details", ""]
    for row in report["runs"]:
        lines += [f"### {_cell(str(row['name']))} ({row['cell']}, {_cell(row['source'])})", ""]
        lines += [f"* {name}: {_cell(value)}" for name, value in provenance(row)]
        for name, heading, unit, _better in METRICS:
            found = metric(row, name)
            if found is not None:
                lines.append(
                    f"* {heading}: {with_spread(found)}{' ' + unit if unit else ''} ({_cell(averaged(found))})"
                )
        for gate in row["gates"]:
            lines.append(f"* gate {gate['name']}: {gate_word(gate)}. {_cell(str(gate.get('message') or ''))}")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def gate_word(gate: Mapping[str, Any]) -> str:
    """`passed`, `not passed` or `not known`."""
    passed = gate.get("passed")
    return "not known" if passed is None else "passed" if passed else "not passed"


def why(row: Mapping[str, Any]) -> str:
    """Everything that explains a run that is not good: cause with remedy and line of the log, or the message."""
    cause = row.get("cause") or {}
    if cause.get("cause"):
        return '{}. What to do: {}. In the log: "{}"'.format(row["reason"], cause["remedy"], cause["evidence"])
    return str(row["reason"])


# CSV.


_FIELDS: tuple[str, ...] = (
    "source", "workload", "family", "name", "cell", "node_count", "gpus_per_node", "gpus", "verdict", "failure_class",
    "steps", "steps_done",
)  # fmt: skip
_FIELDS_AFTER: tuple[str, ...] = (
    "elapsed_seconds", "waited_seconds", "gpu_hours", "submitted", "started", "ended", "job_ids", "nodes", "user",
    "host", "image", "image_digest", "commits", "slurm_version", "key", "script_sha256", "run_dir", "reason",
)  # fmt: skip
_METRIC_PARTS = ("mean", "standard_deviation", "count", "first_step", "last_step", "source")


def csv_text(report: Mapping[str, Any]) -> str:
    """One line a run, with full numbers; times in seconds since the epoch, other units in the names or as in METRICS.

    A text that a spreadsheet would take for a formula is given an apostrophe.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = [f"{name}_{part}" for name, _heading, _unit, _better in METRICS for part in _METRIC_PARTS]
    writer.writerow([*_FIELDS, *columns, *_FIELDS_AFTER])
    for row in report["runs"]:
        values: list[Any] = [row.get(name) for name in _FIELDS]
        for name, _heading, _unit, _better in METRICS:
            found = metric(row, name) or {}
            values += [found.get(part) for part in _METRIC_PARTS]
        after = {
            **row,
            "elapsed_seconds": row.get("elapsed"),
            "waited_seconds": row.get("waited"),
            "job_ids": " ".join(str(job) for job in row.get("job_ids") or []),
            "nodes": " ".join(str(node) for node in row.get("nodes") or []),
            "commits": " ".join(f"{name}={value}" for name, value in sorted((row.get("commits") or {}).items())),
            "slurm_version": (row.get("versions") or {}).get("slurm"),
        }
        writer.writerow([_plain(value) for value in [*values, *(after.get(name) for name in _FIELDS_AFTER)]])
    return stream.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        text = " ".join(value.split())
        return "'" + text if text[:1] in ("=", "+", "-", "@") else text
    return "" if value is None else value
