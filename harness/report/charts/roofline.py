"""The roofline: what the machine can do at the operation's intensity, and how near to it each variant comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report import formatting
from harness.report.charts import style
from harness.results import roofline
from harness.results.column import Row
from harness.results.comparison import Comparison

HEIGHT = 5.0  # inches
LEFT, RIGHT, BOTTOM = 0.95, 2.6, 0.7
AROUND = 30.0  # the axes reach so many times beyond what they show
LINE = 0.055  # of the axis's height, that a label takes


def draw(comparison: Comparison, folder: Path) -> Figure | None:
    """Draws the rows that were timed under the machine's roofline; None if its peaks or the work are not known.

    All variants stand at one intensity, that of the work which the operation must do: what a variant moves beyond
    it shows as distance from the roof (Williams, Waterman and Patterson, Roofline, 2009).
    """
    work = comparison.document["work"]
    peaks = comparison.document["device"].get("peaks")
    if not peaks or not work or not work["flops"] or not work["bytes"]:
        return None
    flops, bandwidth = float(peaks["flops_per_s"]), float(peaks["bytes_per_s"])
    intensity = work["flops"] / work["bytes"]
    ridge = flops / bandwidth
    at = roofline.bound(work, peaks)
    bound = work["flops"] / at.seconds
    figure = Figure(figsize=(style.WIDTH, HEIGHT))
    what = f"{formatting.digits(intensity, 3)} FLOP a byte, bound by {at.kind} at {formatting.rate(bound, 'FLOP/s')}"
    style.heading(figure, comparison.title, f"roofline: {what}; peaks: {peaks['source']}")
    axes = style.panel(figure, LEFT, style.HEAD + 0.1, RIGHT, BOTTOM)
    x = np.array([min(intensity, ridge) / AROUND, ridge, max(intensity, ridge) * AROUND])
    axes.loglog(x, np.minimum(flops, x * bandwidth), color=style.INK, linewidth=2)
    axes.text(x[-1], flops, f"{formatting.rate(flops, 'FLOP/s')} ", ha="right", va="bottom", fontsize=9.5)
    timed = [row for row in comparison.rows if row["flops_per_s"]]
    lowest = min([row["flops_per_s"] for row in timed] + [bound])
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(min(lowest / 3, x[0] * bandwidth), max(flops, *(row["flops_per_s"] for row in timed), bound) * 4)
    _along_the_slope(axes, x[0], bandwidth)
    axes.axvline(intensity, color=style.FAINT, linewidth=0.8, linestyle=":")
    axes.plot([intensity] * len(timed), [row["flops_per_s"] for row in timed], color=style.FAINT, linewidth=1)
    _points(axes, timed, intensity)
    axes.grid(which="major")
    axes.xaxis.set_major_formatter(style.thousands())
    axes.yaxis.set_major_formatter(style.prefixed())
    axes.set_xlabel("FLOP a byte that the operation must move")
    axes.set_ylabel("FLOP/s")
    return figure


def _along_the_slope(axes: Axes, left: float, bandwidth: float) -> None:
    """The bandwidth, written above the part of the roof that rises with it."""
    box = axes.get_window_extent()
    across, up = (np.log(high / low) for low, high in (axes.get_xlim(), axes.get_ylim()))
    angle = np.degrees(np.arctan2(box.height / up, box.width / across))
    axes.text(
        left, left * bandwidth, f"  {formatting.rate(bandwidth, 'B/s')}", rotation=angle, rotation_mode="anchor",
        ha="left", va="bottom", fontsize=9.5,
    )  # fmt: skip


def _points(axes: Axes, rows: Sequence[Row], intensity: float) -> None:
    """The variants, with labels at the right of the axes that do not overlap."""
    low, high = np.log(axes.get_ylim())
    below = -np.inf
    for number, row in sorted(enumerate(rows), key=lambda pair: pair[1]["flops_per_s"]):
        at = (np.log(row["flops_per_s"]) - low) / (high - low)
        below = max(at, below + LINE)
        axes.plot(intensity, row["flops_per_s"], zorder=3, markersize=8, **style.point(number))
        status = "" if row["status"] == "ok" else f" ({row['status']})"
        share = formatting.digits(100 * row["bound_share"], 2)
        axes.annotate(
            f"{style.shorten(row['variant'], 18)}{status}: {share}% of the bound", (intensity, row["flops_per_s"]),
            xytext=(1.03, below), textcoords="axes fraction", va="center", fontsize=9.5, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": style.GRID, "linewidth": 0.8},
        )  # fmt: skip
