# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report as one HTML page that needs nothing else: no script, no file, no network.

This file is private to the collection. Whatever comes out of a record or a log is escaped; pictures are made by
`_report_plots`, which escapes too. The page follows the reader's choice of light or dark, folds into one column on a
phone, and prints in black on white with all details open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _report_plots as plots
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _report_text as text
from ansible_collections.dgxc.workloads.plugins.plugin_utils._report_model import METRICS, metric

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; lighter ones on dark.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#3b8fc4", "#7a3b00", "#555555")
_DARK = ("#56b4e9", "#ff9d5c", "#2fd0a4", "#e8a5cb", "#f0e442", "#9ad0f0", "#e69f00", "#bbbbbb")

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --page: #ffffff; --card: #f6f8fa; --grid: #d0d7de;
  --good: #116329; --good-card: #dafbe1; --bad: #a40e26; --bad-card: #ffebe9; --open: #7d4e00; --open-card: #fff8c5;
  {light} }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --page: #0d1117; --card: #161b22;
  --grid: #3d444d; --good: #7ee787; --good-card: #12261e; --bad: #ffa198; --bad-card: #2d1416; --open: #e3b341;
  --open-card: #272115; {dark} } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem clamp(0.8rem, 3vw, 2.5rem) 3rem; max-width: 82rem; color: var(--text);
  background: var(--page); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.4rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; border-bottom: 1px solid var(--grid); padding-bottom: 0.25rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 0.5rem; }
p, ul { margin: 0.4rem 0; } ul { padding-left: 1.2rem; }
.soft { color: var(--soft); font-size: 0.9rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.7rem; margin: 1rem 0; }
.tile { background: var(--card); border: 1px solid var(--grid); border-radius: 0.5rem; padding: 0.6rem 0.8rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 0.85rem; }
.wide { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.35rem 0.6rem; border-bottom: 1px solid var(--grid); vertical-align: top; }
th { color: var(--soft); font-weight: 600; text-wrap: balance; }
td.number { text-align: right; white-space: nowrap; } th.number { text-align: right; }
td.reason { min-width: 16rem; } td:first-child { overflow-wrap: anywhere; min-width: 8.5rem; }
.badge { display: inline-block; border-radius: 1rem; padding: 0 0.6rem; font-size: 0.85rem; font-weight: 600;
  white-space: nowrap; border: 1px solid currentColor; }
.good { color: var(--good); background: var(--good-card); } .bad { color: var(--bad); background: var(--bad-card); }
.open { color: var(--open); background: var(--open-card); }
.alert { border: 1px solid var(--grid); border-left: 0.3rem solid var(--bad); border-radius: 0.4rem; margin: 0.7rem 0;
  padding: 0.5rem 0.8rem; background: var(--card); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1rem;
  margin-top: 1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--grid); border-radius: 0.5rem;
  padding: 0.6rem 0.6rem 0.3rem; break-inside: avoid; }
figure svg { width: 100%; height: auto; display: block; color: var(--text); }
figcaption { font-size: 0.85rem; color: var(--soft); padding: 0.2rem 0.2rem 0.3rem; }
details { border: 1px solid var(--grid); border-radius: 0.5rem; margin: 0.6rem 0; padding: 0.4rem 0.8rem; }
summary { cursor: pointer; font-weight: 600; } summary .badge { margin-left: 0.4rem; }
dl { display: grid; grid-template-columns: minmax(8rem, 12rem) 1fr; gap: 0.15rem 0.8rem; font-size: 0.88rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font-size: 0.86em; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { font-size: 15px; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 0.35rem; }
  table.stack thead { display: none; }
  table.stack tr { display: block; border: 1px solid var(--grid); border-radius: 0.5rem; margin-bottom: 0.7rem;
    padding: 0.3rem 0.2rem; }
  table.stack td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: 0.12rem 0.6rem;
    text-align: right; white-space: normal; min-width: 0; overflow-wrap: anywhere; }
  table.stack td::before { content: attr(data-name); color: var(--soft); text-align: left; flex: none; }
  table.stack td:first-child { font-weight: 600; } table.stack td.none { display: none; }
}
@media print {
  :root { --text: #000; --soft: #444; --page: #fff; --card: #fff; --grid: #bbb; --good: #064f1c; --good-card: #fff;
    --bad: #8a0a1f; --bad-card: #fff; --open: #5c3a00; --open-card: #fff; {light} }
  body { font-size: 10pt; max-width: none; padding: 0; } .wide { overflow: visible; } table { font-size: 7.6pt; }
  th, td { padding: 0.15rem 0.3rem; } tr, .alert, .tile { break-inside: avoid; }
  td.reason, td:first-child { min-width: 0; } h2, h3 { break-after: avoid; } .plots { grid-template-columns: 1fr 1fr; }
  details { border: 0; padding: 0; } details::details-content { content-visibility: visible; block-size: auto; }
  details:not([open]) > *:not(summary) { display: block; } details:not([open]) > dl { display: grid; }
}
"""
_NUMBERS = frozenset(
    ("GPUs", "steps", "seconds per step", "samples/s", "tokens/s", "loss", "ran for", "GPU hours", "expected",
     "measured", "change", "tolerance", "samples per second", "steps per second")
)  # fmt: skip


def _style() -> str:
    series = {
        name: " ".join(f"--series-{number}: {colour};" for number, colour in enumerate(colours))
        for name, colours in (("light", _LIGHT), ("dark", _DARK))
    }
    return _STYLE.replace("{light}", series["light"]).replace("{dark}", series["dark"])


def _badge(verdict: str) -> str:
    kind = {"succeeded": "good", "ok": "good", "better": "good", "passed": "good", "failed": "bad", "worse": "bad",
            "not passed": "bad"}.get(verdict.split(" (")[0], "open")  # fmt: skip
    return f'<span class="badge {kind}">{escape(verdict)}</span>'


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], badge: str = "") -> list[str]:
    """A table that becomes cards on a phone; the column called `badge` shows verdicts."""

    def is_number(heading: str) -> bool:
        return heading in _NUMBERS or heading.startswith("speed-up")

    head = "".join(
        f'<th scope="col"{" class=number" if is_number(heading) else ""}>{escape(heading)}</th>' for heading in headings
    )
    lines = [f'<div class="wide"><table class="stack"><thead><tr>{head}</tr></thead><tbody>']
    for row in rows:
        cells = []
        for heading, cell in zip(headings, row, strict=True):
            content = _badge(cell) if heading == badge else escape(cell)
            # A sentence stands where a number could not.
            long = len(cell) > 60 or (heading == "run" and len(cell) > 24)
            kind = "number" if is_number(heading) else "reason" if long else ""
            kind += " none" if cell == "-" else ""
            css = f' class="{kind.strip()}"' if kind else ""
            cells.append(f'<td{css} data-name="{escape(heading)}">{content}</td>')
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return [*lines, "</tbody></table></div>"]


def _figure(picture: str | None, caption: str, note: str = "") -> list[str]:
    if picture is None:
        return []
    words = escape(caption) + (f" {escape(note)}" if note else "")
    return [f"<figure>{picture}<figcaption>{words}</figcaption></figure>"]


def page(report: Mapping[str, Any], with_plots: bool = True) -> str:
    """The whole page. Raises NoMatplotlib when plots are wanted and cannot be drawn."""
    if with_plots:
        plots.check()
    lines = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
        f"<title>{escape(str(report['title']))}</title>", f"<style>{_style()}</style>", "</head>", "<body>",
        f"<h1>{escape(str(report['title']))}</h1>",
        f'<p class="soft">{escape(text.summary_line(report))} Newest record: {escape(report["as_of"])}.</p>',
        *_tiles(report),
        *_alerts(report),
        "<h2>Runs</h2>", f'<p class="soft">{escape(text.HOW)}</p>',
        *_table(*text.run_table(report), "verdict"),
    ]  # fmt: skip
    if report["baseline"]:
        lines += [
            f"<h2>Baseline: {escape(str(report['baseline']['cluster']))}</h2>",
            *_table(
                text.BASELINE_HEADINGS, (text.baseline_cells(check) for check in report["baseline"]["checks"]), "status"
            ),
        ]
    lines += _scaling(report, with_plots) + _comparison(report, with_plots)
    if with_plots:
        lines += _curves(report)
    lines += ["<h2>Details</h2>", *(line for row in report["runs"] for line in _details(row))]
    lines += ["</body>", "</html>"]
    return "\n".join(lines) + "\n"


def _tiles(report: Mapping[str, Any]) -> list[str]:
    summary = report["summary"]
    tiles = [
        (str(summary["succeeded"]), f"of {summary['runs']} runs succeeded"),
        (str(summary["failed"]), "failed"),
        (str(summary["other"]), "open or unknown"),
        (text.number(summary["gpu_hours"]), "GPU hours"),
    ]
    if summary["gpu_hours_not_good"]:
        tiles.append((text.number(summary["gpu_hours_not_good"]), "of them in runs that are not good"))
    lines = ['<div class="tiles">']
    lines += [f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>' for value, words in tiles]
    lines += ["</div>", '<ul class="soft">']
    lines += [
        f"<li>{escape(source['label'])}: <code>{escape(source['root'])}</code>, {source['runs']} runs</li>"
        for source in report["sources"]
    ]
    return [*lines, "</ul>"]


def _alerts(report: Mapping[str, Any]) -> list[str]:
    """What a reader has to know first: regressions, and runs that are not good with cause and remedy."""
    lines = []
    for check in (report["baseline"] or {}).get("checks") or []:
        if check["status"] in ("worse", "not measured") and not check["reference_only"]:
            lines.append(f'<div class="alert"><b>Baseline:</b> {escape(check["sentence"])}</div>')
    for row in report["runs"]:
        if row["verdict"] == "succeeded":
            continue
        cause = row.get("cause") or {}
        place = f"{row['cell']}, {row['source']}" if len(report["sources"]) > 1 else str(row["cell"])
        lines.append(f'<div class="alert"><b>{escape(str(row["name"]))}</b> ({escape(place)}) {_badge(row["verdict"])}')
        if cause.get("cause"):
            lines.append(
                f"<p>{escape(_sentence(cause['cause']))} <b>What to do:</b> {escape(_sentence(cause['remedy']))}</p>"
            )
            lines.append(f"<p><code>{escape(str(cause['evidence']))}</code></p>")
        else:
            lines.append(f"<p>{escape(str(row.get('message') or row['reason']))}</p>")
        lines.append("</div>")
    return ["<h2>Needs attention</h2>", *lines] if lines else []


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _scaling(report: Mapping[str, Any], with_plots: bool) -> list[str]:
    lines = ["<h2>Scaling</h2>"] if report["scaling"] else []
    for number, group in enumerate(report["scaling"]):
        title = f"{group['workload']}: {group['family']}"
        if len(report["sources"]) > 1:
            title += f" ({group['source']})"
        lines.append(f"<h3>{escape(title)}</h3>")
        lines += [f'<p class="soft">{escape(note)}</p>' for note in group["notes"]]
        lines += _table(*text.scaling_table(group))
        if not with_plots:
            continue
        lines.append('<div class="plots">')
        references = {"one_gpu": "1x1", "full_node": str(group["full_node"])}
        if references["one_gpu"] == references["full_node"]:
            del references["full_node"]
        for reference, cell in references.items():
            label = f"{title}: speed-up over {cell} by GPUs"
            picture = plots.speedup(group, reference, cell, f"s{number}-{reference}", label)
            lines += _figure(picture, f"Speed-up over {cell}, in {group['rate']}, and the ideal line.")
        picture = plots.efficiency(group, f"e{number}", f"{title}: efficiency by GPUs")
        lines += _figure(picture, "Efficiency: speed-up divided by the factor of GPUs; 100 % is ideal.")
        lines.append("</div>")
    return lines


def _comparison(report: Mapping[str, Any], with_plots: bool) -> list[str]:
    entries = report["comparison"]
    if not entries:
        return []
    labels = [str(source["label"]) for source in report["sources"]]
    lines = [
        "<h2>Comparison</h2>",
        '<p class="soft">Seconds per step; a quotient below 1 is faster than the first source.</p>',
        *_table(text.comparison_headings(report), (text.comparison_cells(entry) for entry in entries)),
    ]
    if with_plots:
        lines.append('<div class="plots">')
        names = list(dict.fromkeys((entry["workload"], entry["family"]) for entry in entries))
        for number, (workload, family) in enumerate(names):
            mine = [entry for entry in entries if (entry["workload"], entry["family"]) == (workload, family)]
            title = f"{workload} {family}".strip()
            picture = plots.comparison(mine, labels, f"c{number}", f"{title}: seconds per step by source")
            lines += _figure(
                picture, f"{title}: seconds per step; bars are one standard deviation, a cross is no good run."
            )
        lines.append("</div>")
    return lines


def _curves(report: Mapping[str, Any]) -> list[str]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    several = len(report["sources"]) > 1
    for row in report["runs"]:
        label = f"{row['name']} {row['cell']}" if row["cell"].replace("x", "g") not in row["name"] else str(row["name"])
        if several:
            label += f" ({row['source']})"
        groups.setdefault((str(row["workload"]), str(row["family"])), []).append({**row, "label": label})
    lines = []
    for number, ((workload, family), rows) in enumerate(groups.items()):
        pictures = []
        for column, what in ((1, "seconds per step"), (2, "training loss")):
            drawn = plots.curves(rows, column, f"k{number}-{column}", f"{workload} {family}: {what} over the steps")
            if drawn is not None:
                pictures += _figure(drawn[0], f"{_sentence(what)} Every step that the log shows, thinned.", drawn[1])
        if pictures:
            lines += [f"<h3>{escape(workload)}: {escape(family)}</h3>", '<div class="plots">', *pictures, "</div>"]
    return ["<h2>Step time and loss</h2>", *lines] if lines else []


def _details(row: Mapping[str, Any]) -> list[str]:
    lines = [
        f"<details><summary>{escape(str(row['name']))} ({escape(row['cell'])}, {escape(row['source'])})"
        f"{_badge(str(row['verdict']))}</summary>"
    ]
    found = [(name, heading, unit) for name, heading, unit, _better in METRICS if metric(row, name) is not None]
    pairs = []
    for name, heading, unit in found:
        value = metric(row, name) or {}
        pairs.append((heading, f"{text.with_spread(value)}{' ' + unit if unit else ''} ({text.averaged(value)})"))
    if not found:
        pairs.append(("numbers", f"none: {row['reason']}"))
    for gate in row["gates"]:
        words = " ".join(str(part) for part in (gate.get("message"), gate.get("evidence")) if part)
        pairs.append((f"gate {gate['name']}", f"{text.gate_word(gate)}. {words}"))
    pairs += text.provenance(row)
    lines.append(
        "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in pairs) + "</dl>"
    )
    return [*lines, "</details>"]
