"""The sweep chart: lines of latency and device time against each swept key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from harness.report import formatting, swept_keys
from harness.report.charts import style
from harness.report.swept_keys import SweptKey, SweptRows
from harness.results.column import Row

PANELS = 3  # side by side
PANEL, ABOVE, BELOW = 2.3, 0.36, 0.58  # inches: the height of a panel, and what is written above and below it
LEFT, BETWEEN = 0.95, 0.3
FOOT = 0.16  # of a panel's height: where crosses stand for what has no result
GOOD = ("ok", "degraded")
STARVED = "starved"  # the condition of a variant that lacked cores
ROOM = 1.5  # an interval may raise its axis to so many times the largest value
WIDE = 8.0  # an axis whose largest value is so many times its smallest is logarithmic
TICKS = 9  # with fewer values than this each has its tick


def draw(sweep: SweptRows, folder: Path) -> Figure | None:
    """Latency, and device time if there is any, against each numeric key, a line for each variant.

    If other keys are swept too, panels show a few of their values; every value stands in sweep.csv.
    """
    rows = sweep.rows
    keys = sweep.keys
    variants = sweep.variants
    if not keys:
        return None
    timed = any(row["device_time_us"] is not None for row in rows)
    columns = [("latency_us", "latency"), *([("device_time_us", "device time")] if timed else [])]
    along = [swept for swept in keys if swept.numeric] or keys[:1]
    strips = [(swept, column, name) for swept in along for column, name in columns]
    legend = _legend(rows, variants)
    height = style.HEAD + len(strips) * (ABOVE + PANEL + BELOW) + style.legend_height(legend)
    figure = Figure(figsize=(style.WIDTH, height))
    left_out = cut = False
    for number, (swept, column, name) in enumerate(strips):
        others = [other for other in keys if other is not swept]
        parts = swept_keys.groups(rows, others)
        shown = style.few(list(parts), PANELS)
        left_out |= len(parts) > len(shown)
        width = (style.WIDTH - LEFT - 0.25 - BETWEEN * (len(shown) - 1)) / max(len(shown), 1)
        top = style.HEAD + number * (ABOVE + PANEL + BELOW) + ABOVE
        scale = _Scale.of([row for part in shown for row in parts[part]], column)
        for index, part in enumerate(shown):
            left = LEFT + index * (width + BETWEEN)
            panel = style.panel(figure, left, top, style.WIDTH - left - width, height - top - PANEL)
            cut |= _lines(panel, parts[part], swept, column, variants, scale)
            _horizontal(panel, swept)
            panel.tick_params(axis="y", labelleft=index == 0)
            if index == 0:
                panel.set_ylabel(f"{name}, {scale.unit.name}")
            panel.set_title(style.shorten(swept_keys.named(others, part), int(width * 13)), loc="left", fontsize=9.5)
    further = "; triangles: the interval goes on" if cut else ""
    further += _in_words(rows, columns)
    further += "; panels for some values only, sweep.csv has all" if left_out else ""
    style.heading(
        figure, sweep.title, f"per call, with intervals; grey foot: failed, wrong, skipped or missing{further}"
    )
    style.legend(figure, legend, LEFT)
    return figure


@dataclass(frozen=True)
class _Scale:
    """The vertical axis that panels share, in its unit."""

    low: float
    high: float
    log: bool
    unit: formatting.Unit
    empty: bool

    @classmethod
    def of(cls, rows: Sequence[Row], column: str) -> _Scale:
        """Holds all values, and their intervals as far as these leave the values readable."""
        good = [row for row in rows if row[column] and row["status"] in GOOD and row["condition"] != STARVED]
        low = min((row[column] for row in good), default=1.0)
        high = max((row[column] for row in good), default=1.0)
        _, upper = _bounds(column)
        drawn = max((row[upper] or 0.0 for row in good if not _wide(row, column)), default=0.0)
        high = max(high, min(drawn, ROOM * high))
        unit = formatting.time_unit([high])
        low, high = low / unit.size, high / unit.size
        log = bool(low and high > WIDE * low)
        low, high = (low / 1.3, high * 1.5) if log else (0.0, high * 1.15)
        if any(row["status"] not in GOOD for row in rows):  # the foot lies below all values
            low = (low / high**FOOT) ** (1 / (1 - FOOT)) if log else -high * FOOT / (1 - FOOT)
        return cls(low, high, log, unit, empty=not good)


def _lines(
    panel: Axes, rows: Sequence[Row], swept: SweptKey, column: str, variants: Sequence[str], vertical: _Scale
) -> bool:
    """Draws a line for each variant; whether an interval had to be cut."""
    scale = vertical.unit.size
    cut = False
    if any(row["status"] not in GOOD for row in rows):
        panel.add_patch(Rectangle((0, 0), 1, FOOT, transform=panel.transAxes, facecolor="#eeeeee", zorder=0))
    for number, name in enumerate(variants):
        own = sorted((row for row in rows if row["variant"] == name and swept.has(row)), key=swept.at)
        good = [row for row in own if row[column] and row["status"] in GOOD]
        starved = [swept.at(row) for row in good if row["condition"] == STARVED]
        good = [row for row in good if row["condition"] != STARVED]
        x = [swept.at(row) for row in good]
        look = style.point(number)
        panel.plot(
            x,
            [row[column] / scale for row in good],
            linestyle=style.DASHES[number % len(style.DASHES)],
            markersize=5 if len(x) < 20 else 2.5,
            **look,
        )
        degraded = [row for row in good if row["status"] == "degraded"]
        panel.plot(
            [swept.at(row) for row in degraded], [row[column] / scale for row in degraded], linestyle="", marker="o",
            markersize=11, markerfacecolor="none", color=look["color"],
        )  # fmt: skip
        bounds = _bounds(column)
        wide = [row for row in good if _wide(row, column)]
        panel.plot(
            [swept.at(row) for row in wide], [row[column] / scale for row in wide], linestyle="",
            **look | {"markerfacecolor": "white"}, markersize=5 if len(x) < 20 else 2.5,
        )  # fmt: skip
        good = [row for row in good if None not in (row[bounds[0]], row[bounds[1]])]
        panel.plot(
            starved, [1] * len(starved), "^", transform=panel.get_xaxis_transform(), markersize=8,
            color=look["color"], markerfacecolor="white", clip_on=False,
        )  # fmt: skip
        if good:
            x = [swept.at(row) for row in good]
            lower, upper = ([row[bound] / scale for row in good] for bound in bounds)
            drawn = [row not in wide for row in good]
            beyond = [at for at, end, shown in zip(x, upper, drawn, strict=True) if shown and end > vertical.high]
            below = [at for at, end, shown in zip(x, lower, drawn, strict=True) if shown and end < vertical.low]
            cut |= bool(beyond or below)
            lower = [max(value, vertical.low) for value in lower]  # nothing is below a logarithmic axis
            panel.fill_between(x, lower, upper, where=drawn, color=look["color"], alpha=0.2, linewidth=0)
            for positions, height, marker in ((beyond, 1, "^"), (below, 0, "v")):
                panel.plot(
                    positions, [height] * len(positions), marker, transform=panel.get_xaxis_transform(), markersize=6,
                    color=look["color"], clip_on=False,
                )  # fmt: skip
        lost = [swept.at(row) for row in own if row["status"] not in GOOD]
        foot = [FOOT * (number + 0.5) / len(variants)] * len(lost)
        panel.plot(
            lost, foot, "x", transform=panel.get_xaxis_transform(), markersize=6, markeredgewidth=2,
            color=look["color"], clip_on=False,
        )  # fmt: skip
    if vertical.log:
        panel.set_yscale("log")
        near = vertical.high < 100 * vertical.low  # then there may be but one power of ten
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if near else (1,)))
        panel.yaxis.set_minor_locator(NullLocator())
    else:
        ticks = MaxNLocator(5).tick_values(0, vertical.high)
        panel.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if 0 <= tick <= vertical.high]))
    panel.set_ylim(vertical.low, vertical.high)
    panel.yaxis.set_major_formatter(style.thousands())
    panel.grid(axis="y")
    if vertical.empty:
        panel.set_yticks([])
    return cut


def _bounds(column: str) -> tuple[str, str]:
    """The columns of the bounds of a time's interval."""
    name = column.removesuffix("_us")
    return f"{name}_lo_us", f"{name}_hi_us"


def _wide(row: Row, column: str) -> bool:
    """Whether the interval of a time is wider than the time itself."""
    value, low, high = (row[name] for name in (column, *_bounds(column)))
    return None not in (low, high) and formatting.wide(value, low, high)


def _in_words(rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> str:
    """What hollow marks mean, with the widest interval; empty if there are none."""
    wide = [
        (row[_bounds(column)[1]] / row[column], row, column)
        for column, _ in columns
        for row in rows
        if row[column] and row["status"] in GOOD and row["condition"] != STARVED and _wide(row, column)
    ]
    lacked = any(row["condition"] == STARVED for row in rows)
    text = "; at the top: lacked cores" if lacked else ""
    if not wide:
        return text
    _, row, column = max(wide, key=lambda found: found[0])
    low, high = (formatting.time(row[bound], significant=2) for bound in _bounds(column))
    return f"{text}; hollow: interval wider than the figure, up to {low} to {high} ({row['variant']})"


def _horizontal(panel: Axes, swept: SweptKey) -> None:
    """Numbers where they belong, in order; names side by side."""
    panel.set_xlabel(swept.label, labelpad=3)
    if not swept.numeric:
        panel.set_xlim(-0.4, len(swept.values) - 0.6)
        panel.set_xticks(
            range(len(swept.values)), [style.shorten(str(value), 14) for value in swept.values], fontsize=9
        )
        return
    low, high = swept.values[0], swept.values[-1]
    if low > 0 and high >= WIDE * low:
        panel.set_xscale("log", base=2)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlim(low / 1.15, high * 1.15)
    else:
        room = 0.06 * (high - low)
        panel.set_xlim(low - room, high + room)
    if len(swept.values) <= TICKS:
        panel.xaxis.set_major_locator(FixedLocator(swept.values))
    panel.xaxis.set_major_formatter(style.thousands())
    panel.tick_params(axis="x", labelsize=8.5)


def _legend(rows: Sequence[Row], variants: Sequence[str]) -> list[Line2D]:
    lines = [
        Line2D(
            [],
            [],
            linestyle=style.DASHES[number % len(style.DASHES)],
            label=style.shorten(name, 34),
            **style.point(number),
        )
        for number, name in enumerate(variants)
    ]
    if any(row["status"] == "degraded" for row in rows):
        lines.append(
            Line2D(
                [],
                [],
                linestyle="",
                marker="o",
                markersize=10,
                markerfacecolor="none",
                color=style.INK,
                label="degraded",
            )
        )
    return lines
