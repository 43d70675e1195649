"""The samples chart: every raw latency sample in the order it was taken, so that drift and outliers are seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from harness.report import formatting
from harness.report.charts import style
from harness.results.column import Row
from harness.results.comparison import Comparison

PANEL, BETWEEN, SHORT = 1.15, 0.34, 0.02  # inches: a variant's axes, the line above them, in place of axes
LEFT, BOTTOM = 1.0, 0.55
MANY = 2000  # points past which they stand in the SVG as a picture, lest it takes megabytes
REACH = 4.0  # interquartile ranges from the quartiles, past which a sample stands at the edge
WIDE = 10.0  # if the usual samples differ by such a factor, the axis is logarithmic
MINIMUM = 0.03  # of the median: half the height of a panel at least, so that scatter of nothing looks like nothing


def draw(comparison: Comparison, folder: Path) -> Figure:
    """Draws the rows of samples.csv, a panel for each row of comparison.csv."""
    rows = comparison.rows
    samples = comparison.samples
    rounds = _rounds(samples)
    timed = {row["variant"] for row in samples}
    panels = [PANEL if row["variant"] in timed else SHORT for row in rows]
    total = sum(panels) + BETWEEN * len(rows)
    bottom = BOTTOM if rounds else style.MARGIN
    figure = Figure(figsize=(style.WIDTH, style.HEAD + total + bottom))
    legend = "latency samples in order, each the mean of a block of calls; line and band: latency and its interval; "
    legend += "grey: the machine was not quiet"
    style.heading(figure, comparison.title, legend if rounds else "no variant was timed")
    last = next((row for row in reversed(rows) if row["variant"] in timed), None)
    top = style.HEAD
    for row, height in zip(rows, panels, strict=True):
        top += BETWEEN
        axes = style.panel(figure, LEFT, top, 0.25, style.HEAD + total + bottom - top - height)
        own = [sample for sample in samples if sample["variant"] == row["variant"]]
        if own:
            _panel(axes, row, own, rounds)
        else:
            axes.axis("off")
            style.above(axes, row["variant"], f"{row['status']}: {row['reason']}", ok=False)
        top += height
        axes.tick_params(labelbottom=row is last)
    if rounds:
        figure.supxlabel("round, over all processes", fontsize=10.5)
    return figure


def _rounds(samples: Sequence[Row]) -> dict[tuple[int, int], int]:
    """The place of each round on the common axis, by its process and its number there: the order it was taken in."""
    keys = dict.fromkeys((sample["process"], sample["round"]) for sample in samples)
    return {key: place for place, key in enumerate(keys)}


def _panel(axes: Axes, row: Row, samples: Sequence[Row], rounds: Mapping[tuple[int, int], int]) -> None:
    unit = formatting.time_unit([row["latency_us"]])
    x = np.array([rounds[sample["process"], sample["round"]] for sample in samples])
    y = np.array([sample["latency_us"] for sample in samples]) / unit.size
    quiet = np.array([sample["quiet"] for sample in samples])
    low, high = _limits(y)
    value, lower, upper = (row[name] / unit.size for name in ("latency_us", "latency_lo_us", "latency_hi_us"))
    wide = formatting.wide(value, lower, upper)
    if not wide:
        axes.axhspan(lower, upper, color="#D55E00", alpha=0.18, linewidth=0, zorder=1)
    axes.axhline(value, color="#D55E00", linewidth=1.2, zorder=1)
    inside = (y >= low) & (y <= high)
    for shown, colour in ((inside & ~quiet, style.FAINT), (inside & quiet, "#0072B2")):
        axes.plot(
            x[shown], y[shown], "o", color=colour, markersize=2.6, markeredgewidth=0, alpha=0.75, zorder=2,
            rasterized=len(x) > MANY,
        )  # fmt: skip
    above, below = y > high, y < low
    axes.plot(x[above], np.full(above.sum(), high), "^", color=style.PROBLEM, markersize=5, clip_on=False, zorder=3)
    axes.plot(x[below], np.full(below.sum(), low), "v", color=style.PROBLEM, markersize=5, clip_on=False, zorder=3)
    axes.set_xlim(-0.5, len(rounds) - 0.5)
    if y[inside].max() > WIDE * y[inside].min() > 0:
        axes.set_yscale("log")
        low, high = y[inside].min() / 1.3, high * 1.1
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.locator_params(axis="y", nbins=4)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(style.thousands())
    axes.grid(axis="y")
    axes.set_ylabel(unit.name)
    text = f"{len(y):,} samples, {unit.number(float(y.min()) * unit.size)}"
    text += f" to {unit.text(float(y.max()) * unit.size)}"
    if wide:
        text += f", latency {formatting.latency(row)}"
    if above.any() or below.any():
        text += f", {above.sum() + below.sum():,} of them beyond this panel"
    style.above(axes, row["variant"], text)


def _limits(values: np.ndarray) -> tuple[float, float]:
    """The range of the axis: outliers must not flatten the other samples."""
    lower, median, upper = np.percentile(values, (25, 50, 75))
    reach = max(REACH * (upper - lower), MINIMUM * median)
    low, high = max(values.min(), lower - reach), min(values.max(), upper + reach)
    room = max(0.08 * (high - low), MINIMUM * median / 2)
    return float(max(low - room, 0)), float(high + room)
