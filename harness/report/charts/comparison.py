"""The comparison chart: per variant its latency with interval and ratio, and its time stacked by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness.report import formatting
from harness.report.charts import style
from harness.report.charts.style import Fill
from harness.results.column import Row
from harness.results.comparison import Comparison

SLOT, SHORT = 0.98, 0.38  # inches of height that a variant takes, and one that was not timed
TEXT, LATENCY, STACK = 0.14, 0.39, 0.69  # inches from a slot's top to what stands in it
BAR = 0.24  # inches
LEFT, BOTTOM = 1.15, 0.62  # inches for labels to the left of and below the axes
LETTERS = 110  # of a label within a bar, that the axis's width has room for
STARVED = "starved"  # the condition of a variant that lacked cores
ROOM = 1.32  # the axis goes so far beyond the longest bar, for the number after it


def draw(comparison: Comparison, folder: Path) -> Figure:
    """Draws the rows of comparison.csv and operators.csv, with a note in place of missing values."""
    rows = comparison.rows
    operators = comparison.operators
    title = comparison.title
    key = style.timed_by(operators)
    fills = style.operator_fills(operators, key)
    what = f"{rows[0]['device'].upper()} time" if key == "device_time_us" else "Self CPU"
    timed = [row for row in rows if row["latency_us"] is not None]
    legend = _legend(operators, key, fills)
    slots = [SLOT if row in timed else SHORT for row in rows]
    bottom = BOTTOM + style.legend_height(legend) if timed else style.MARGIN
    figure, axes = style.listing(slots, LEFT, bottom)
    unit = _scale(axes, rows, key)
    top = 0.0
    ticks: dict[float, str] = {}
    for row, slot in zip(rows, slots, strict=True):
        _name(axes, top + TEXT, row)
        if row in timed:
            _latency(axes, top + LATENCY, row, unit)
            _stack(axes, top + STACK, row, comparison.operators_of(row["variant"]), key, fills, unit)
            ticks |= {top + LATENCY: "latency", top + STACK: what}
        top += slot
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=9.5)
    if timed:
        profiled = "" if key == "device_time_us" else " (as the profiler saw it, which slows small operators)"
        style.heading(figure, title, f"per call: latency with its interval, and {what} by operator{profiled}")
        axes.grid(axis="x")
        axes.xaxis.set_major_formatter(style.thousands())
        axes.set_xlabel(f"{unit.name} per call", labelpad=3)
        style.legend(figure, legend, LEFT)
    else:
        style.heading(figure, title, "no variant was timed")
        style.blank(axes)
    return figure


def _scale(axes: Axes, rows: Sequence[Row], key: str) -> formatting.Unit:
    """Makes the horizontal axis as long as the longest bar needs; returns its unit.

    The bar of a variant that lacked cores may be a thousand times too long: it ends at the edge, if there are others.
    """
    drawn = [row for row in rows if row["condition"] != STARVED] or rows
    longest = max(row[name] or 0.0 for row in drawn for name in ("latency_us", key)) or 1.0
    unit = formatting.time_unit([longest])
    axes.set_xlim(0, ROOM * longest / unit.size)
    return unit


def _name(axes: Axes, y: float, row: Row) -> None:
    """The variant's name, and its verdicts or what is wrong with it."""
    texts = []
    if row["verdict"] == "baseline":
        texts.append("baseline")
    elif row["speedup"] is not None:
        lacked = ": lacked cores" if row["condition"] == STARVED else ""
        texts.append(f"{formatting.speedup(row)} {row['verdict'] or ''}{lacked}".rstrip())
    if row["device_speedup"] is not None and row["device_verdict"] != "baseline":
        ratio = formatting.speedup(row, formatting.DEVICE)
        texts.append(f"{row['device'].upper()}: {ratio} {row['device_verdict'] or ''}".rstrip())
    if row["status"] != "ok":
        texts.append(f"{row['status']}: {row['reason']}")
    style.label(axes, y, row["variant"], " · ".join(texts), ok=row["status"] == "ok")


def _interval(axes: Axes, y: float, bounds: Sequence[float | None], text: str, unit: formatting.Unit) -> None:
    """A text at the end of a bar, and the interval around it; `bounds` are the value and both bounds, in µs.

    Of an interval that is wider than its value the text alone tells.
    """
    value, low, high = (bound / unit.size if bound is not None else None for bound in bounds)
    edge = _edge(axes)  # an interval may be far wider than its chart
    end, room = value or 0.0, "  "
    if end > edge:
        axes.text(edge, y, f" → {text}", va="center", fontsize=10)
        return
    if value is not None and low is not None and high is not None and not formatting.wide(value, low, high):
        axes.errorbar(
            value, y, xerr=[[value - low], [max(min(high, edge) - value, 0)]], color="black", capsize=4,
            elinewidth=1.4, xuplims=False, xlolims=high > edge,
        )  # fmt: skip
        end = min(max(value, high), edge)
        room = "  " if high <= edge else "    "  # an arrow's head is as wide as a space or two
    axes.text(end, y, f"{room}{text}", va="center", fontsize=10)


def _edge(axes: Axes) -> float:
    """Where bars end; the rest of the axis has room for the numbers after them."""
    return float(axes.get_xlim()[1]) / ROOM * 1.02


def _latency(axes: Axes, y: float, row: Row, unit: formatting.Unit) -> None:
    axes.barh(y, min(row["latency_us"] / unit.size, _edge(axes)), BAR, color=style.LATENCY)
    bounds = [row[name] for name in ("latency_us", "latency_lo_us", "latency_hi_us")]
    _interval(axes, y, bounds, formatting.latency(row, unit), unit)


def _stack(
    axes: Axes,
    y: float,
    row: Row,
    operators: Sequence[Row],
    key: str,
    fills: Mapping[str, Fill],
    unit: formatting.Unit,
) -> None:
    """Segments for the operators, the costliest first, those without a fill of their own in one at the end."""
    costs = {row["operator"]: row[key] / unit.size for row in operators if row[key]}
    if not costs:
        axes.text(0, y, " not available", va="center", color=style.FAINT, fontsize=9.5)
        return
    reached = 0.0
    for name, width in sorted(costs.items(), key=lambda cost: -cost[1]):
        if name in fills:
            seen = _segment(axes, y, reached, width, fills[name])
            short = style.operator(name).removeprefix("aten::")
            if len(short) + 2 < LETTERS * seen / axes.get_xlim()[1]:
                style.inside(axes, reached + seen / 2, y, short, fills[name])
            reached += width
    total = sum(costs.values())
    _segment(axes, y, reached, total - reached, Fill(style.OTHER))
    if key == "device_time_us" and row[key] is not None:  # over all processes; the operators are of the first one's
        bounds = [row[name] for name in ("device_time_us", "device_time_lo_us", "device_time_hi_us")]
        _interval(axes, y, bounds, formatting.device_time(row, unit), unit)
    else:
        _interval(axes, y, [total * unit.size, None, None], unit.text(total * unit.size), unit)


def _segment(axes: Axes, y: float, left: float, width: float, fill: Fill) -> float:
    """Draws as much of a segment as lies before the edge; returns how wide that is."""
    width = max(min(left + width, _edge(axes)) - left, 0.0)
    if width:
        wide = width > style.SEPARATE * axes.get_xlim()[1]
        axes.barh(y, width, BAR, left, color=fill.colour, hatch=fill.hatch, **style.edge(fill, wide))
    return width


def _legend(operators: Sequence[Row], key: str, fills: Mapping[str, Fill]) -> list[Patch]:
    others = {row["operator"] for row in operators if row[key]} - set(fills)
    rest = [Patch(facecolor=style.OTHER, label=f"{len(others)} other{'s' * (len(others) > 1)}")] if others else []
    return style.legend_of(fills) + rest
