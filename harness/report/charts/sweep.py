"""The sweep's charts: lines of latency and device time against what was swept, and maps of who is fastest where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Affine2D

from harness.report import swept_keys as swept
from harness.report import tables as cells
from harness.report.charts import style
from harness.report.swept_keys import Axis
from harness.results.comparison import Row

PANELS = 3  # beside each other
PANEL, ABOVE, BELOW = 2.3, 0.36, 0.58  # inches: the height of a panel, and what is written above and below it
LEFT, BETWEEN = 0.95, 0.3
FOOT = 0.16  # of a panel's height: where crosses stand for what has no result
GOOD = ("ok", "degraded")
ROOM = 1.5  # an interval may raise its axis to so many times the largest value
WIDE = 8.0  # an axis whose largest value is so many times its smallest is logarithmic
TICKS = 9  # with fewer values than this each has its tick
LABELS = 16  # a map with more columns than this has no words in its cells
CELL = 0.62  # inches of height of a map's cell
UNCLEAR = "#e4e4e4"

Colour = tuple[float, float, float]


def draw_lines(rows: Sequence[Row], axes: Sequence[Axis], title: str) -> Figure:
    """Latency, and device time where there is any, against each numeric axis, a line for each variant.

    Where other axes are swept too, panels show a few of their values; every value stands in sweep.csv.
    """
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    timed = any(row["device_time_us"] is not None for row in rows)
    keys = [("latency_us", "latency"), *([("device_time_us", "device time")] if timed else [])]
    along = [axis for axis in axes if axis.numeric] or list(axes[:1])
    strips = [(axis, key, name) for axis in along for key, name in keys]
    legend = _legend(rows, variants)
    height = style.HEAD + len(strips) * (ABOVE + PANEL + BELOW) + style.legend_height(legend)
    figure = Figure(figsize=(style.WIDTH, height))
    left_out = cut = False
    for number, (axis, key, name) in enumerate(strips):
        others = [other for other in axes if other is not axis]
        parts = swept.groups(rows, others)
        shown = _few(list(parts), PANELS)
        left_out |= len(parts) > len(shown)
        width = (style.WIDTH - LEFT - 0.25 - BETWEEN * (len(shown) - 1)) / max(len(shown), 1)
        top = style.HEAD + number * (ABOVE + PANEL + BELOW) + ABOVE
        scale = _Scale.of([row for part in shown for row in parts[part]], key)
        for place, part in enumerate(shown):
            left = LEFT + place * (width + BETWEEN)
            panel = style.panel(figure, left, top, style.WIDTH - left - width, height - top - PANEL)
            cut |= _lines(panel, parts[part], axis, key, variants, scale)
            _horizontal(panel, axis)
            panel.tick_params(axis="y", labelleft=place == 0)
            if place == 0:
                panel.set_ylabel(f"{name}, {scale.unit.name}")
            panel.set_title(style.shorten(swept.named(others, part), int(width * 13)), loc="left", fontsize=9.5)
    further = "; triangles: the interval goes on" if cut else ""
    further += "; panels for some values only, sweep.csv has all" if left_out else ""
    style.heading(figure, title, f"per call, with intervals; grey foot: failed, wrong, skipped or missing{further}")
    style.legend(figure, legend, LEFT)
    return figure


def draw_map(rows: Sequence[Row], axes: Sequence[Axis], title: str) -> Figure:
    """The fastest variant of each case and its speedup, over the first two axes; a panel a value of the others."""
    across, down, others = _two(axes)
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    parts = swept.groups(rows, others)
    shown = _few(list(parts), PANELS)
    tall = max(len(down.values) * min(CELL, 6.0 / len(down.values)), 1.0)
    legend = [Patch(facecolor=_tint(number), label=style.shorten(name, 34)) for number, name in enumerate(variants)]
    legend += [
        Patch(facecolor=UNCLEAR, label="unclear, or all the same"),
        Patch(facecolor="white", label="× no result", edgecolor=style.GRID),
    ]
    step = ABOVE + tall + BELOW
    height = style.HEAD + len(shown) * step + style.legend_height(legend)
    figure = Figure(figsize=(style.WIDTH, height))
    style.heading(figure, title, "the fastest variant of each case and how many times as fast as the baseline it is")
    for number, part in enumerate(shown):
        top = style.HEAD + number * step + ABOVE
        panel = style.panel(figure, LEFT + 0.35, top, 0.25, height - top - tall)
        _map(panel, parts[part], across, down, variants)
        where = swept.named(others, part)
        if number == len(shown) - 1 and len(parts) > len(shown):
            where += f" ({len(parts) - len(shown)} more not drawn)"
        panel.set_title(style.shorten(where, 110), loc="left", fontsize=9.5)
    style.legend(figure, legend, LEFT + 0.35)
    return figure


def _few(parts: list[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
    """The first, the last and some between."""
    if len(parts) <= most:
        return parts
    return [parts[round(place)] for place in np.linspace(0, len(parts) - 1, most)]


@dataclass(frozen=True)
class _Scale:
    """The vertical axis that panels share, in its unit."""

    low: float
    high: float
    log: bool
    unit: cells.Unit
    empty: bool

    @classmethod
    def of(cls, rows: Sequence[Row], key: str) -> _Scale:
        """Holds all values, and their intervals as far as these leave the values readable."""
        good = [row for row in rows if row[key] and row["status"] in GOOD]
        low, high = (edge([row[key] for row in good], default=1.0) for edge in (min, max))
        if key == "latency_us":
            high = max(high, min(max((row["latency_hi_us"] for row in good), default=0.0), ROOM * high))
        unit = cells.Unit.of([high])
        low, high = low / unit.microseconds, high / unit.microseconds
        log = bool(low and high > WIDE * low)
        low, high = (low / 1.3, high * 1.5) if log else (0.0, high * 1.15)
        if any(row["status"] not in GOOD for row in rows):  # the foot lies below all values
            low = (low / high**FOOT) ** (1 / (1 - FOOT)) if log else -high * FOOT / (1 - FOOT)
        return cls(low, high, log, unit, empty=not good)


def _lines(panel: Axes, rows: Sequence[Row], axis: Axis, key: str, variants: Sequence[str], vertical: _Scale) -> bool:
    """Draws a line for each variant; whether an interval had to be cut."""
    scale, cut = vertical.unit.microseconds, False
    if any(row["status"] not in GOOD for row in rows):
        panel.add_patch(Rectangle((0, 0), 1, FOOT, transform=panel.transAxes, facecolor="#eeeeee", zorder=0))
    for number, name in enumerate(variants):
        mine = sorted((row for row in rows if row["variant"] == name and axis.has(row)), key=axis.at)
        good = [row for row in mine if row[key] and row["status"] in GOOD]
        x = [axis.at(row) for row in good]
        look = style.point(number)
        panel.plot(
            x,
            [row[key] / scale for row in good],
            linestyle=style.DASHES[number % len(style.DASHES)],
            markersize=5 if len(x) < 20 else 2.5,
            **look,
        )
        degraded = [row for row in good if row["status"] == "degraded"]
        panel.plot(
            [axis.at(row) for row in degraded], [row[key] / scale for row in degraded], linestyle="", marker="o",
            markersize=11, markerfacecolor="none", color=look["color"],
        )  # fmt: skip
        if key == "latency_us":
            lower, upper = ([row[f"latency_{end}_us"] / scale for row in good] for end in ("lo", "hi"))
            beyond = [place for place, end in zip(x, upper, strict=True) if end > vertical.high]
            below = [place for place, end in zip(x, lower, strict=True) if end < vertical.low]
            cut |= bool(beyond or below)
            lower = [max(value, vertical.low) for value in lower]  # nothing is below a logarithmic axis
            panel.fill_between(x, lower, upper, color=look["color"], alpha=0.2, linewidth=0)
            for places, height, marker in ((beyond, 1, "^"), (below, 0, "v")):
                panel.plot(
                    places, [height] * len(places), marker, transform=panel.get_xaxis_transform(), markersize=6,
                    color=look["color"], clip_on=False,
                )  # fmt: skip
        lost = [axis.at(row) for row in mine if row["status"] not in GOOD]
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


def _horizontal(panel: Axes, axis: Axis) -> None:
    """Numbers where they belong, in order; names side by side."""
    panel.set_xlabel(axis.label, labelpad=3)
    if not axis.numeric:
        panel.set_xlim(-0.4, len(axis.values) - 0.6)
        panel.set_xticks(range(len(axis.values)), [style.shorten(str(value), 14) for value in axis.values], fontsize=9)
        return
    low, high = axis.values[0], axis.values[-1]
    if low > 0 and high >= WIDE * low:
        panel.set_xscale("log", base=2)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlim(low / 1.15, high * 1.15)
    else:
        room = 0.06 * (high - low)
        panel.set_xlim(low - room, high + room)
    if len(axis.values) <= TICKS:
        panel.xaxis.set_major_locator(FixedLocator(axis.values))
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


def _two(axes: Sequence[Axis]) -> tuple[Axis, Axis, list[Axis]]:
    """The axis across, which has the most values of the first two, the one down, and the rest."""
    first, second, *others = axes
    return (first, second, others) if len(first.values) >= len(second.values) else (second, first, others)


def _map(panel: Axes, rows: Sequence[Row], across: Axis, down: Axis, variants: Sequence[str]) -> None:
    column, line = ({value: place for place, value in enumerate(axis.values)} for axis in (across, down))
    colours = np.ones((len(down.values), len(across.values), 3))
    room = 88 // len(across.values)
    for (x, y), part in swept.groups(rows, [across, down]).items():
        words, colours[line[y], column[x]] = winner(part, variants)
        if len(across.values) <= LABELS:
            lines = "\n".join(style.shorten(word, room) for word in words)
            size = 8.5 if len(across.values) <= 9 else 7
            panel.text(column[x], line[y], lines, ha="center", va="center", fontsize=size)
    middle = Affine2D().translate(-0.5, -0.5) + panel.transData
    dense = len(across.values) > LABELS  # then a picture within the SVG, in place of thousands of shapes
    panel.pcolormesh(colours, edgecolor="white", linewidth=0.5, transform=middle, rasterized=dense)
    panel.set_xlim(-0.5, len(across.values) - 0.5)
    panel.set_ylim(len(down.values) - 0.5, -0.5)
    for axis, ticks in ((across, panel.set_xticks), (down, panel.set_yticks)):
        every = max(1, len(axis.values) // 12)
        places = range(0, len(axis.values), every)
        ticks(list(places), [style.shorten(str(axis.values[place]), 12) for place in places], fontsize=8.5)
    panel.set_xlabel(across.label, labelpad=3)
    panel.set_ylabel(down.label)
    panel.tick_params(length=0)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)


def winner(rows: Sequence[Row], variants: Sequence[str]) -> tuple[list[str], Colour]:
    """What a case's cell says, and its colour."""
    ranked = [row for row in rows if row["verdict"]]
    if not ranked:
        return ["×"], (1.0, 1.0, 1.0)
    faster = sorted((row for row in ranked if row["verdict"] == "faster"), key=lambda row: -row["speedup"])
    lost = [f"{row['variant']} {row['status']}" for row in rows if row["status"] not in ("ok", "skipped")]
    if faster:
        best = faster[0]
        equal = [row["variant"] for row in faster if row["speedup_hi"] >= best["speedup_lo"]]
        return [" or ".join(equal), cells.times_factor(best["speedup"]), *lost], _tint(
            variants.index(best["variant"]), best["speedup"]
        )
    if all(row["verdict"] in ("baseline", "slower") for row in ranked):
        best = next(row for row in ranked if row["verdict"] == "baseline")
        return [best["variant"], "1×", *lost], _tint(variants.index(best["variant"]), 1.0)
    return ["unclear" if any(row["verdict"] == "unclear" for row in ranked) else "the same", *lost], to_rgb(UNCLEAR)


def _tint(number: int, ratio: float = 4.0) -> Colour:
    """A variant's colour, the stronger the larger its speedup, and so light that words stand out on it."""
    strength = min(0.2 + 0.15 * float(np.log2(ratio)), 0.65)
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(style.COLOURS[number % len(style.COLOURS)]))
    return red, green, blue
