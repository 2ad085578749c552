# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plots of a report, drawn by Matplotlib as SVG that takes its colours from the page.

This file is private to the collection. A picture inside the page inherits the page's colours: what is drawn in one of
the stand-in colours below refers to the text colour or to a variable of the style sheet instead, so one picture serves
light, dark and print. Text stays text. The same data give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Series that one picture holds; more cannot be told apart.
SERIES_LIMIT = 8
#: Longest name in a legend, in characters.
NAME_LIMIT = 44
#: Step times beyond so many medians are left above the frame, and counted.
TALL = 4.0
_TEXT = "#010203"
_GRID = "#020304"
_SERIES = tuple(f"#0a0b{number:02x}" for number in range(SERIES_LIMIT))
_WIDTH, _HEIGHT = 5.6, 3.3
_MARKERS = "osD^vPX*"


class NoMatplotlib(Exception):
    """Matplotlib is not there; the message is a sentence for the user."""


def check() -> None:
    """Raise NoMatplotlib when the controller's Python lacks it."""
    try:
        # Only whether it is there; what draws imports it again where it is used.
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise NoMatplotlib(
            f"report_plots is true, but the controller's Python has no matplotlib ({error}): install what "
            "requirements.txt names, or set report_plots to false."
        ) from None


def _figure(label_x: str, label_y: str, height: float = _HEIGHT) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0.0)
    axes.set_xlabel(label_x, color=_TEXT)
    axes.set_ylabel(label_y, color=_TEXT)
    axes.tick_params(colors=_TEXT, which="both")
    axes.grid(True, color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GRID)
    return figure, axes


def _legend(axes: Any, count: int) -> None:
    if count < 2:
        return
    legend = axes.figure.legend(
        loc="outside lower center", ncols=1 if count < 3 else 2, frameon=False, fontsize=8.5, handlelength=2.6
    )
    for text in legend.get_texts():
        text.set_color(_TEXT)


def _svg(figure: Any, name: str, label: str) -> str:
    """The picture as an element of a page; `name` makes its ids its own, `label` is read out by screen readers."""
    import matplotlib

    stream = io.StringIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "dgxc.workloads", "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    # What only a file of its own needs.
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", text, count=5)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for colour, variable in ((_TEXT, "currentColor"), (_GRID, "var(--grid)")):
        text = text.replace(colour, variable)
    for number, colour in enumerate(_SERIES):
        text = text.replace(colour, f"var(--series-{number})")
    safe = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{safe}" ', 1).rstrip()


def _short(name: str) -> str:
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"


def _points(row: Mapping[str, Any], column: int) -> tuple[list[float], list[float]]:
    points = [point for point in row.get("series") or [] if point[0] is not None and point[column] is not None]
    return [float(point[0]) for point in points], [float(point[column]) for point in points]


def curves(rows: Sequence[Mapping[str, Any]], column: int, name: str, label: str) -> tuple[str, str] | None:
    """Step time (column 1) or loss (column 2) over the steps of some runs, and a note; None without any point.

    A run that is not good is dashed and says so.
    """
    drawn = [row for row in rows if _points(row, column)[0]]
    if not drawn:
        return None
    figure, axes = _figure("step", "seconds per step" if column == 1 else "training loss")
    values: list[float] = []
    for number, row in enumerate(drawn[:SERIES_LIMIT]):
        steps, heights = _points(row, column)
        good = row["verdict"] == "succeeded"
        title = _short(str(row["label"])) + ("" if good else f" ({row['verdict']})")
        few = len(steps) < 30
        # Losses of one training lie on one another whatever its size: the first lines are the widest.
        width = 1.4 if column == 1 else 1.2 + 0.5 * (min(len(drawn), SERIES_LIMIT) - 1 - number)
        axes.plot(
            steps, heights, label=title, color=_SERIES[number], linewidth=width, linestyle="-" if good else "--",
            marker=_MARKERS[number] if few else None, markersize=3.5,
        )  # fmt: skip
        values += heights
    notes = []
    if column == 1:
        middle = sorted(values)[len(values) // 2]
        tall = sum(1 for value in values if value > TALL * middle)
        axes.set_ylim(0.0, min(max(values), TALL * middle) * 1.08 or 1.0)
        if tall:
            notes.append(f"{tall} points above {TALL:g} times the median are beyond the frame.")
    if len(drawn) > SERIES_LIMIT:
        notes.append(f"{len(drawn) - SERIES_LIMIT} more runs are not drawn.")
    _legend(axes, min(len(drawn), SERIES_LIMIT))
    return _svg(figure, name, label), " ".join(notes)


def _gpu_axis(axes: Any, gpus: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(set(gpus)), labels=[str(count) for count in sorted(set(gpus))])
    axes.minorticks_off()
    axes.set_xlim(min(gpus) * 0.8, max(gpus) * 1.25)


def speedup(group: Mapping[str, Any], reference: str, cell: str, name: str, label: str) -> str | None:
    """Speed-up over one reference with the ideal line; cells without a number are crosses. None without the reference.

    Both axes are logarithmic, so that equal distances are equal factors.
    """
    entries = group["cells"]
    good = [entry for entry in entries if entry[f"speedup_{reference}"] is not None]
    if not good:
        return None
    base = next(entry["gpus"] for entry in entries if entry["cell"] == cell)
    figure, axes = _figure("GPUs", f"speed-up over {cell}")
    gpus = [int(entry["gpus"]) for entry in entries]
    line = sorted({*gpus})
    axes.plot(line, [count / base for count in line], color=_TEXT, linestyle=":", linewidth=1.2, label="ideal")
    axes.plot(
        [entry["gpus"] for entry in good], [entry[f"speedup_{reference}"] for entry in good], color=_SERIES[0],
        marker="o", markersize=5, linewidth=1.6, label="measured",
    )  # fmt: skip
    for entry in good:
        axes.annotate(
            f"{entry[f'speedup_{reference}']:.3g}", (entry["gpus"], entry[f"speedup_{reference}"]),
            textcoords="offset points", xytext=(0, -13), ha="center", color=_TEXT, fontsize=8.5,
        )  # fmt: skip
    axes.set_yscale("log", base=2)
    lowest = min([*(entry[f"speedup_{reference}"] for entry in good), *(count / base for count in line)])
    highest = max([*(entry[f"speedup_{reference}"] for entry in good), *(count / base for count in line)])
    axes.set_ylim(lowest / 1.7, highest * 1.4)
    ticks = [2.0**power for power in range(-10, 21) if lowest / 1.5 <= 2.0**power <= highest * 1.4]
    axes.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    missing = _crosses(axes, entries, f"speedup_{reference}", lowest / 1.55)
    _gpu_axis(axes, gpus)
    _legend(axes, 2 + missing)
    return _svg(figure, name, label)


def _crosses(axes: Any, entries: Sequence[Mapping[str, Any]], field: str, height: float) -> int:
    """Mark the cells without a number at the foot of the picture; return how many entries the legend gets."""
    missing = [entry for entry in entries if entry[field] is None]
    if not missing:
        return 0
    axes.plot(
        [entry["gpus"] for entry in missing], [height] * len(missing), color=_SERIES[1], marker="x", markersize=8,
        markeredgewidth=2, linestyle="none", label="no good run",
    )  # fmt: skip
    return 1


def efficiency(group: Mapping[str, Any], name: str, label: str) -> str | None:
    """Efficiency in percent against every reference that there is; None without one."""
    references = {"one_gpu": "1x1", "full_node": group["full_node"]}
    if references["one_gpu"] == references["full_node"]:
        del references["full_node"]
    entries = group["cells"]
    figure, axes = _figure("GPUs", "efficiency in %")
    gpus = [int(entry["gpus"]) for entry in entries]
    highest, count = 100.0, 1
    axes.axhline(100.0, color=_TEXT, linestyle=":", linewidth=1.2, label="ideal")
    for number, (reference, cell) in enumerate(references.items()):
        field = f"efficiency_{reference}"
        good = [entry for entry in entries if entry[field] is not None]
        if not good:
            continue
        shares = [entry[field] * 100.0 for entry in good]
        highest = max(highest, *shares)
        axes.plot(
            [entry["gpus"] for entry in good], shares, color=_SERIES[0 if number == 0 else 2],
            marker=_MARKERS[number], markersize=5, linewidth=1.6, label=f"against {cell}",
        )  # fmt: skip
        count += 1
    if count == 1:
        return None
    axes.set_ylim(0.0, highest * 1.1)
    field = "efficiency_one_gpu" if any(entry["efficiency_one_gpu"] for entry in entries) else "efficiency_full_node"
    count += _crosses(axes, entries, field, highest * 0.04)
    _gpu_axis(axes, gpus)
    _legend(axes, count)
    return _svg(figure, name, label)


def comparison(entries: Sequence[Mapping[str, Any]], labels: Sequence[str], name: str, label: str) -> str | None:
    """Seconds per step of each source as bars with their spread, a group for each size; None without a number."""
    shown = [entry for entry in entries if any(value["seconds_per_step"] is not None for value in entry["values"])]
    if not shown:
        return None
    figure, axes = _figure("nodes x GPUs", "seconds per step")
    width = 0.8 / len(labels)
    for number, source in enumerate(labels[:SERIES_LIMIT]):
        for place, entry in enumerate(shown):
            value = entry["values"][number]
            at = place + (number - (len(labels) - 1) / 2.0) * width
            title = _short(source) if place == 0 else None
            if value["seconds_per_step"] is None:
                axes.plot([at], [0.0], marker="x", color=_SERIES[number], markersize=8, clip_on=False)
                axes.bar([at], [0.0], width, color=_SERIES[number], label=title)
                continue
            axes.bar(
                [at], [value["seconds_per_step"]], width * 0.92, color=_SERIES[number], label=title,
                hatch=("", "///", "...", "xx")[number % 4], edgecolor=_GRID, linewidth=0.5,
                yerr=value["standard_deviation"], error_kw={"ecolor": _TEXT, "capsize": 3, "elinewidth": 1},
            )  # fmt: skip
    axes.set_xticks(range(len(shown)), labels=[str(entry["cell"]) for entry in shown])
    axes.grid(False, axis="x")
    axes.set_ylim(bottom=0.0)
    _legend(axes, len(labels))
    return _svg(figure, name, label)
