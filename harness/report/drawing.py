"""Drawing: which charts there are, and how they become files. A new chart is its file in charts/ and a line here."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.configuration.errors import unknown

if TYPE_CHECKING:
    from harness.report.charts.style import Figure

FORMATS = ("png", "svg")  # the page takes the last that was drawn
TIMEOUT_S = 60.0  # for the charts that are drawn in other processes
NOTHING = 3  # the exit status of a process whose chart has nothing to show

log = logging.getLogger("harness")


@dataclass(frozen=True)
class Chart:
    """A chart, drawn by the function `draw(source, folder) -> Figure | None` of a module in harness/report/charts/.

    Of a run the source is its Comparison, of a sweep its SweptRows, of a model its Bars. None means that there is
    nothing to show.
    """

    name: str  # of its files
    alternative: str  # text for readers who do not see it
    module: str = ""  # in charts/; by default the one of the chart's name
    section: str = ""  # heading of the page that it stands under; by default its name
    each_case: bool = False  # drawn for each case of a sweep too: to draw all costs a fifth of measuring a case

    @property
    def heading(self) -> str:
        """The section's heading."""
        return self.section or self.name.replace("_", " ").capitalize()

    def figure(self, source: Any, folder: Path) -> Figure | None:
        """Draws it, in the style of the harness."""
        from harness.report.charts import style

        with style.applied():
            return importlib.import_module(f"harness.report.charts.{self.module or self.name}").draw(source, folder)

    def save(self, source: Any, folder: Path, formats: Sequence[str]) -> bool:
        """Writes its files; False if there is nothing to show."""
        from harness.report.charts import style

        figure = self.figure(source, folder)
        if figure is not None:
            style.save(figure, folder, self.name, formats)
        return figure is not None


@dataclass(frozen=True)
class Bar:
    """A bar of parts that follow one another, in microseconds."""

    name: str
    text: str  # beside the name
    ok: bool
    parts: Sequence[tuple[str, float]]

    @property
    def us(self) -> float:
        """Its length."""
        return sum(us for _, us in self.parts)


@dataclass(frozen=True)
class Bars:
    """What a chart of stacked bars shows: its bars, the first of which gives the parts their colours."""

    title: str
    subtitle: str
    bars: Sequence[Bar]


RUN = (
    Chart("comparison", "Latency and time by operator of each variant, as in the tables of this page", each_case=True),
    Chart("timeline", "One call of each variant: dispatch, runtime and device on a common time axis"),
    Chart("roofline", "The variants' FLOP/s below the machine's roofline"),
    Chart("samples", "All latency samples of each variant in the order they were taken"),
)
SWEEP = (
    Chart("sweep", "Latency and time of each variant against the swept keys", module="sweep_lines"),
    Chart("speedup", "The fastest variant and its speedup in each case", module="speedup_map"),
)

MODEL = (Chart("step", "The time of a step, cut by groups, as it is and with each replacement"),)


def check(names: Any) -> None:
    """Raises UsageError if `report.charts` names an unknown chart."""
    known = [chart.name for chart in (*RUN, *SWEEP, *MODEL)]
    for name in names or ():
        if name not in known:
            raise unknown("report.charts", name, known)


def chosen(charts: Sequence[Chart], names: Sequence[str] | None) -> list[Chart]:
    """The charts of these names; None: all."""
    return [chart for chart in charts if names is None or chart.name in names]


def draw(
    folder: Path, charts: Sequence[Chart], wanted: Sequence[Chart], source: Any, formats: Sequence[str] = FORMATS
) -> list[Chart]:
    """Draws `wanted` into a folder, and removes files of other `charts` that an earlier report drew.

    The first is drawn here, and the others in forks if forking is safe: each takes a second. One that takes too
    long is ended, with a warning. Returns those that were drawn.
    """
    forks = _forks([lambda chart=chart: chart.save(source, folder, formats) for chart in wanted[1:]])  # type: ignore[misc]
    for fork in forks:
        fork.start()
    drawn = [chart for chart in wanted[:1] if chart.save(source, folder, formats)]
    deadline = time.monotonic() + TIMEOUT_S
    for chart, fork in zip(wanted[1:], forks or [None] * len(wanted), strict=False):
        if fork is not None:
            fork.join(max(deadline - time.monotonic(), 0.0))
        if fork is not None and fork.exitcode is None:
            fork.kill()
            fork.join()
            log.warning(
                f"{chart.name}: the chart was not drawn within {TIMEOUT_S:g} s; "
                f"try python -m harness.report {folder}, or leave it out by report.charts"
            )
        elif fork is not None and fork.exitcode in (0, NOTHING):
            drawn += [chart] * (fork.exitcode == 0)
        elif chart.save(source, folder, formats):  # drawn again here, so that an error is raised
            drawn.append(chart)
    for chart in charts:
        for suffix in FORMATS:
            if chart not in drawn or suffix not in formats:
                (folder / f"{chart.name}.{suffix}").unlink(missing_ok=True)
    return drawn


def _forks(tasks: Sequence[Callable[[], bool]]) -> list[Any]:
    """A process for each task, which exits with NOTHING if the task returns False; none if forking is unsafe."""
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return []
    context = multiprocessing.get_context("fork")
    return [context.Process(target=_run, args=(task,), daemon=True) for task in tasks]


def _run(task: Callable[[], bool]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if not task():
        sys.exit(NOTHING)
