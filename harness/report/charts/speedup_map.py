"""The speedup chart: maps of the fastest variant and its speedup over two swept keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import Affine2D

from harness.report import formatting, swept_keys
from harness.report.charts import style
from harness.report.swept_keys import SweptKey, SweptRows
from harness.results.column import Row

PANELS = 3  # below each other
ABOVE, BELOW = 0.36, 0.58  # inches that are written above and below a panel
LEFT = 1.3
LABELS = 16  # a map with more columns than this has no words in its cells
CELL = 0.62  # inches of height of a map's cell
UNCLEAR = "#e4e4e4"

Colour = tuple[float, float, float]


def draw(sweep: SweptRows, folder: Path) -> Figure | None:
    """The fastest variant of each case and its speedup, over the first two keys; a panel a value of the others."""
    if len(sweep.keys) < 2:
        return None
    across, down, others = _two(sweep.keys)
    rows = sweep.rows
    variants = sweep.variants
    parts = swept_keys.groups(rows, others)
    shown = style.few(list(parts), PANELS)
    tall = max(len(down.values) * min(CELL, 6.0 / len(down.values)), 1.0)
    legend = [Patch(facecolor=_tint(number), label=style.shorten(name, 34)) for number, name in enumerate(variants)]
    legend += [
        Patch(facecolor=UNCLEAR, label="unclear, or all the same"),
        Patch(facecolor="white", label="× no result", edgecolor=style.GRID),
    ]
    clocks = {formatting.HOST: ""}
    if any(row["device_verdict"] for row in rows):
        clocks = {formatting.HOST: "wall time", formatting.DEVICE: "device time"}
    step = ABOVE + tall + BELOW
    panels = [(part, clock) for part in shown for clock in clocks]
    height = style.HEAD + len(panels) * step + style.legend_height(legend)
    figure = Figure(figsize=(style.WIDTH, height))
    style.heading(
        figure, sweep.title, "the fastest variant of each case and how many times as fast as the baseline it is"
    )
    for number, (part, clock) in enumerate(panels):
        top = style.HEAD + number * step + ABOVE
        panel = style.panel(figure, LEFT, top, 0.25, height - top - tall)
        _map(panel, parts[part], across, down, variants, clock)
        where = " · ".join(filter(None, [swept_keys.named(others, part), clocks[clock]]))
        if number == len(panels) - 1 and len(parts) > len(shown):
            where += f" ({len(parts) - len(shown)} more not drawn)"
        panel.set_title(style.shorten(where, 110), loc="left", fontsize=9.5)
    style.legend(figure, legend, LEFT)
    return figure


def _two(keys: Sequence[SweptKey]) -> tuple[SweptKey, SweptKey, list[SweptKey]]:
    """The key across, which has the most values of the first two, the one down, and the rest."""
    first, second, *others = keys
    return (first, second, others) if len(first.values) >= len(second.values) else (second, first, others)


def _map(
    panel: Axes, rows: Sequence[Row], across: SweptKey, down: SweptKey, variants: Sequence[str], clock: str
) -> None:
    column = {value: index for index, value in enumerate(across.values)}
    line = {value: index for index, value in enumerate(down.values)}
    colours = np.ones((len(down.values), len(across.values), 3))
    room = 88 // len(across.values)
    for (x, y), part in swept_keys.groups(rows, [across, down]).items():
        texts, colours[line[y], column[x]] = winner(part, variants, clock)
        if len(across.values) <= LABELS:
            lines = "\n".join(style.shorten(text, room) for text in texts)
            size = 8.5 if len(across.values) <= 9 else 7
            panel.text(column[x], line[y], lines, ha="center", va="center", fontsize=size)
    middle = Affine2D().translate(-0.5, -0.5) + panel.transData
    dense = len(across.values) > LABELS  # then a picture within the SVG, in place of thousands of shapes
    panel.pcolormesh(colours, edgecolor="white", linewidth=0.5, transform=middle, rasterized=dense)
    panel.set_xlim(-0.5, len(across.values) - 0.5)
    panel.set_ylim(len(down.values) - 0.5, -0.5)
    for swept, ticks in ((across, panel.set_xticks), (down, panel.set_yticks)):
        every = max(1, len(swept.values) // 12)
        positions = range(0, len(swept.values), every)
        ticks(list(positions), [style.shorten(str(swept.values[position]), 12) for position in positions], fontsize=8.5)
    panel.set_xlabel(across.label, labelpad=3)
    panel.set_ylabel(down.label)
    panel.tick_params(length=0)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)


def winner(rows: Sequence[Row], variants: Sequence[str], clock: str = formatting.HOST) -> tuple[list[str], Colour]:
    """The lines of text in a case's cell, and its colour."""
    speedup, verdict = f"{clock}speedup", f"{clock}verdict"
    ranked = [row for row in rows if row[verdict]]
    if not ranked:
        return ["×"], (1.0, 1.0, 1.0)
    faster = sorted((row for row in ranked if row[verdict] == "faster"), key=lambda row: -row[speedup])
    lost = [f"{row['variant']} {row['status']}" for row in rows if row["status"] not in ("ok", "skipped")]
    if faster:
        best = faster[0]
        equal = [row["variant"] for row in faster if row[f"{speedup}_hi"] >= best[f"{speedup}_lo"]]
        return [" or ".join(equal), formatting.times_factor(best[speedup]), *lost], _tint(
            variants.index(best["variant"]), best[speedup]
        )
    if all(row[verdict] in ("baseline", "slower") for row in ranked):
        best = next(row for row in ranked if row[verdict] == "baseline")
        return [best["variant"], "1×", *lost], _tint(variants.index(best["variant"]), 1.0)
    return ["unclear" if any(row[verdict] == "unclear" for row in ranked) else "the same", *lost], to_rgb(UNCLEAR)


def _tint(number: int, ratio: float = 4.0) -> Colour:
    """A variant's colour, the stronger the larger its speedup, and so light that words stand out on it."""
    strength = min(0.2 + 0.15 * float(np.log2(ratio)), 0.65)
    red, green, blue = to_rgb(style.COLOURS[number % len(style.COLOURS)])
    return 1 - strength * (1 - red), 1 - strength * (1 - green), 1 - strength * (1 - blue)
