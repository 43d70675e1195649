"""The chart of a model's step: a bar for the step as it is, cut by groups, and one for each replacement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness.report import formatting
from harness.report.charts import style
from harness.report.charts.style import Fill
from harness.report.drawing import Bar, Bars

SLOT = 0.72  # inches of height that a bar takes
TEXT, STACK = 0.14, 0.42  # inches from a slot's top to what stands in it
BAR = 0.28
LEFT, BOTTOM = 0.3, 0.62
ROOM = 1.16  # the axis goes so far beyond the longest bar, for the number after it
LETTERS = 120  # of a label within a bar, that the axis's width has room for


def draw(content: Bars, folder: Path) -> Figure:
    """Draws the bars one below the other, on one axis of time."""
    first = content.bars[0]
    named = [name for name, us in sorted(first.parts, key=lambda part: -part[1]) if us > 0]
    fills = {
        name: Fill(colour, hatch) for name, colour, hatch in zip(named, style.COLOURS, style.HATCHES, strict=False)
    }
    legend = style.legend_of(fills)
    if len(named) > len(fills):
        legend.append(Patch(facecolor=style.OTHER, label=f"{len(named) - len(fills)} others"))
    figure, axes = style.listing([SLOT] * len(content.bars), LEFT, BOTTOM + style.legend_height(legend))
    unit = formatting.time_unit([max(bar.us for bar in content.bars)])
    axes.set_xlim(0, ROOM * max(bar.us for bar in content.bars) / unit.size)
    axes.set_yticks([])
    for number, bar in enumerate(content.bars):
        top = number * SLOT
        style.label(axes, top + TEXT, bar.name, bar.text, bar.ok)
        _stack(axes, top + STACK, bar, fills, unit)
    style.heading(figure, content.title, content.subtitle)
    axes.grid(axis="x")
    axes.xaxis.set_major_formatter(style.thousands())
    axes.set_xlabel(f"{unit.name} a step", labelpad=3)
    style.legend(figure, legend, LEFT)
    return figure


def _stack(axes: Axes, y: float, bar: Bar, fills: Mapping[str, Fill], unit: formatting.Unit) -> None:
    """Parts that have a fill of their own in the order of the fills, so that bars can be compared; then the others."""
    widths = {name: us / unit.size for name, us in bar.parts}
    reached = 0.0
    for name, fill in fills.items():
        width = widths.get(name, 0.0)
        _segment(axes, y, reached, width, fill)
        if len(name) + 2 < LETTERS * width / axes.get_xlim()[1]:
            style.inside(axes, reached + width / 2, y, name, fill)
        reached += width
    total = bar.us / unit.size
    _segment(axes, y, reached, total - reached, Fill(style.OTHER))
    axes.text(total, y, f"  {unit.text(bar.us)}", va="center", fontsize=10)


def _segment(axes: Axes, y: float, left: float, width: float, fill: Fill) -> None:
    wide = width > style.SEPARATE * axes.get_xlim()[1]
    axes.barh(y, width, BAR, left, color=fill.colour, hatch=fill.hatch, **style.edge(fill, wide))
