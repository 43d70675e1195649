"""Style: what all charts share - colours, sizes, names made printable, and how a picture becomes files."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar, cast

import matplotlib
from matplotlib import font_manager, ft2font
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from harness.measure import torch_private
from harness.report import formatting
from harness.report.drawing import FORMATS
from harness.results import storage
from harness.results.column import Row

T = TypeVar("T")

OPTIONS: dict[str, dict[str, Any]] = {
    "png": {"pil_kwargs": {"compress_level": 1}},  # half the time to encode, for a twentieth more bytes
    "svg": {"metadata": {"Date": None}},  # so that equal results make equal files
}
WIDTH = 10.0  # inches, of every chart
MARGIN = 0.15  # inches around it
HEAD = 0.7  # inches that its title and the line below it take
LEGEND_COLUMNS = 3
LINE = 0.22  # inches that a line of text takes

INK, FAINT, GRID, SHADE = "#222222", "#666666", "#dddddd", "#fbf3e0"
LATENCY = "#555555"
OTHER = "#bbbbbb"
PROBLEM = "#a03000"

# Okabe and Ito's colours, which people of every colour vision can distinguish, ordered so that neighbours differ in
# lightness as well; hatched ones look alike in grey to one that is not
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#56B4E9", "#D55E00")
HATCHES = ("", "", "", "", "////", "....", "\\\\\\\\")
SEPARATE = 0.004  # of the axis: the width from which on a bar has a white edge
DARK = ("#0072B2", "#D55E00", "#009E73")  # colours that text upon them must be white on
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Literal["-", "--", "-.", ":"], ...] = ("-", "--", "-.", ":")

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib, so that a chart looks the same everywhere
    "font.size": 10.5,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a variant's name is a $
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid.axis": "both",
    "grid.color": GRID,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.color": "white",
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "harness",  # equal results make equal files
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class Fill:
    """How an area is filled, and the colour of text upon it."""

    colour: str
    hatch: str = ""

    @property
    def ink(self) -> str:
        return "white" if self.colour in DARK else INK


@contextlib.contextmanager
def applied() -> Iterator[None]:
    """The style of the harness, whatever a matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = FORMATS) -> None:
    """Writes a figure as NAME.png and NAME.svg, in the style of the harness."""
    with applied():
        for suffix in formats:
            with storage.atomic(folder / f"{name}.{suffix}") as file:
                figure.savefig(cast(TextIO, file).buffer, format=suffix, **OPTIONS[suffix])


def operator_fills(operators: Sequence[Row], key: str) -> dict[str, Fill]:
    """A fill for each of the operators that cost most of `key` over all variants; the same in every chart of a run."""
    cost: Counter[str] = Counter()
    for row in operators:
        cost[row["operator"]] += row[key] or 0
    names = [name for name, total in cost.most_common(len(COLOURS)) if total]
    return {name: Fill(colour, hatch) for name, colour, hatch in zip(names, COLOURS, HATCHES, strict=False)}


def timed_by(operators: Sequence[Row]) -> str:
    """The column that says what an operator costs: device time, or Self CPU if no device was timed."""
    return "device_time_us" if any(row["device_time_us"] is not None for row in operators) else "self_cpu_us"


def heading(figure: Figure, title: str, below: str) -> None:
    """A chart's title, and in a line below it how to read the chart."""
    height = figure.get_figheight()
    left = MARGIN / figure.get_figwidth()
    for text, line, size, fits, colour, weight in (
        (title, 0.0, 12.5, 80, INK, "bold"),
        (below, 0.27, 9.5, 125, FAINT, "normal"),
    ):
        text = shorten(text, round(1.5 * fits))
        size *= min(1, fits / len(text))  # a long one in small letters, in the same line
        figure.text(left, 1 - (MARGIN + line) / height, text, va="top", fontsize=size, color=colour, fontweight=weight)


def panel(figure: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Axes with such distances, in inches, from the edges of their figure."""
    width, height = figure.get_size_inches()
    return figure.add_axes((left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height))


def listing(heights: Sequence[float], left: float, bottom: float) -> tuple[Figure, Axes]:
    """A figure of rows below one another, their heights and its margins in inches; y is inches from the top."""
    figure = Figure(figsize=(WIDTH, HEAD + sum(heights) + bottom))
    axes = panel(figure, left, HEAD, 0.25, bottom)
    axes.set_ylim(sum(heights), 0)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def label(axes: Axes, y: float, name: str, text: str, ok: bool) -> None:
    """A variant's name in bold at the left of the axes, and after it a text about it."""
    bold = axes.text(0, y, shorten(name, 40), va="center", fontweight="bold", fontsize=11)
    axes.annotate(
        shorten(text, 124 - min(len(name), 40)), (1, 0.5), xycoords=bold, xytext=(10, 0), textcoords="offset points",
        va="center", color=INK if ok else PROBLEM, fontsize=10.5 if len(text) < 60 else 9.5, annotation_clip=False,
    )  # fmt: skip


def above(axes: Axes, name: str, text: str, ok: bool = True) -> None:
    """The same above the axes."""
    at = axes.annotate(
        shorten(name, 40), (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points",
        va="bottom", fontweight="bold", fontsize=11,
    )  # fmt: skip
    axes.annotate(
        shorten(text, 124 - min(len(name), 40)), (1, 0), xycoords=at, xytext=(10, 0), textcoords="offset points",
        va="bottom", color=INK if ok else PROBLEM, fontsize=9.5,
    )  # fmt: skip


def inside(axes: Axes, x: float, y: float, text: str, fill: Fill) -> None:
    """A label in the middle of a bar."""
    axes.text(
        x, y, printable(text), ha="center", va="center", color=fill.ink, fontsize=8.5, clip_on=True,
        bbox={"facecolor": fill.colour, "edgecolor": "none", "pad": 0.8} if fill.hatch else None,
    )  # fmt: skip


def point(number: int) -> dict[str, Any]:
    """The colour and marker of the variant at such a place in the configuration; they go round past the last."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def edge(fill: Fill, wide: bool) -> dict[str, Any]:
    """A bar's edge: white, to part it from its neighbours, unless it is so narrow that nothing else would be seen."""
    return {"edgecolor": "white", "linewidth": 0.7} if wide else {"edgecolor": fill.colour, "linewidth": 0.4}


def shade(axes: Axes, spans: Sequence[tuple[float, float]], band: tuple[float, float]) -> None:
    """Marks spans of the horizontal axis in which nothing runs."""
    with matplotlib.rc_context({"hatch.color": "#777777"}):
        axes.broken_barh(spans, band, facecolor=SHADE, hatch="/////", edgecolor="none", linewidth=0)


def legend_of(fills: Mapping[str, Fill]) -> list[Patch]:
    """The legend's entries for the fills of operators."""
    return [
        Patch(facecolor=fill.colour, hatch=fill.hatch, edgecolor="white", label=shorten(operator(name), 34))
        for name, fill in fills.items()
    ]


def legend_height(handles: Sequence[Artist]) -> float:
    """The inches that a legend takes."""
    return MARGIN + LINE * -(-len(handles) // LEGEND_COLUMNS)


def legend(figure: Figure, handles: Sequence[Artist], left: float) -> None:
    """A legend at a figure's lower edge, so many inches from the left."""
    at = (left - 0.1) / WIDTH, MARGIN / 2 / figure.get_figheight()
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=at, ncols=LEGEND_COLUMNS, fontsize=9.5, handlelength=1.6
    )


def blank(axes: Axes) -> None:
    """Axes that hold text only."""
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)


def thousands() -> FuncFormatter:
    """Writes an axis's numbers as the tables do."""
    return FuncFormatter(lambda value, _: f"{value:,.10g}")


def prefixed() -> FuncFormatter:
    """Writes an axis's numbers with SI prefixes: `10 G`."""
    family = formatting.per_second("")

    def write(value: float, _: Any) -> str:
        unit = formatting.Unit.of(family, [value])
        return f"{value / unit.size:g} {unit.name}".rstrip()

    return FuncFormatter(write)


def few(parts: Sequence[T], most: int) -> list[T]:
    """The first, the last and some between."""
    if len(parts) <= most:
        return list(parts)
    return [parts[round(index * (len(parts) - 1) / (most - 1))] for index in range(most)]


def printable(text: str) -> str:
    """Text as the font can show it: in one line, and other characters as their code points."""
    known = _glyphs()
    return "".join(
        c if ord(c) in known else c.encode("ascii", "backslashreplace").decode() for c in " ".join(text.split())
    )


def operator(name: str) -> str:
    """An operator's name, with a compiled graph's hash cut short."""
    return torch_private.COMPILED_GRAPH.sub(r"\1", name)


def shorten(text: str, width: int) -> str:
    """Text of at most `width` characters, its middle left out."""
    text = printable(text)
    if len(text) <= width:
        return text
    return f"{text[: (width - 1) * 2 // 3].rstrip()}…{text[len(text) - (width - 1) // 3 :].lstrip()}"


@cache
def _glyphs() -> set[int]:
    font = ft2font.FT2Font(font_manager.findfont("DejaVu Sans"))
    return set(font.get_charmap())
