"""The timeline: one call of each variant on a common axis - dispatch, runtime, device, and the gaps between."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from harness.measure import trace
from harness.measure.trace import Event
from harness.report import formatting
from harness.report.charts import style
from harness.report.charts.style import Fill
from harness.results.comparison import Comparison

NAME, BAR, BETWEEN, AFTER = 0.30, 0.17, 0.15, 0.16  # inches: a variant's line, a bar, between lanes, after a variant
LEFT, BOTTOM = 1.0, 0.62
LETTERS = 135  # of a label in a bar, that the axis's width has room for
ROOM = 1.02
PLAIN = Fill("#cccccc")  # operators that cost too little for a colour of their own
RUNTIME = Fill("#888888")
NARROWEST = 0.0015  # no bar is narrower, as a share of the axis: a thing that happened is seen

Span = tuple[float, float]  # start and length, ns from the call's start


@dataclass
class Call:
    """One call's events: operators with their depth, the runtime's schedules, and executions by lane."""

    start: int
    end: int
    operators: list[tuple[Event, int]] = field(default_factory=list)
    runtime: list[Event] = field(default_factory=list)
    device: dict[Any, list[Event]] = field(default_factory=lambda: defaultdict(list))

    @property
    def length(self) -> int:
        return max([self.end, *(event.end for lane in self.device.values() for event in lane)]) - self.start

    @property
    def executions(self) -> list[Event]:
        return sorted((event for lane in self.device.values() for event in lane), key=lambda event: event.start)


def typical(events: Sequence[Event]) -> Call | None:
    """The call of median length among those that were traced, with all that belongs to it."""
    windows = trace.calls(list(events))
    starts = [window.start for window in windows]
    calls = [Call(window.start, window.end) for window in windows]
    open_: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        index = bisect.bisect_right(starts, event.start) - 1
        if index < 0:
            continue
        call = calls[index]
        if event.kind == trace.DEVICE:
            call.device[event.lane].append(event)
        elif event.start < call.end and event.kind == trace.RUNTIME:
            call.runtime.append(event)
        elif event.start < call.end and event.kind == trace.OPERATOR:
            stack = open_[event.lane]
            while stack and stack[-1].end <= event.start:
                stack.pop()
            call.operators.append((event, len(stack)))
            stack.append(event)
    calls.sort(key=lambda call: call.length)
    return calls[len(calls) // 2] if calls else None


def gaps(spans: Sequence[Event], start: int, end: int) -> list[Span]:
    """Where between `start` and `end` none of the spans, ordered by start, runs."""
    spaces = []
    reached = start
    for event in spans:
        if event.start > reached:
            spaces.append((float(reached), float(min(event.start, end) - reached)))
        reached = max(reached, event.end)
    if reached < end:
        spaces.append((float(reached), float(end - reached)))
    return spaces


def draw(comparison: Comparison, folder: Path) -> Figure:
    """Draws one call of each variant, from the traces in the run's folder."""
    return of_traces(comparison, _traces(comparison, folder))


def _traces(comparison: Comparison, folder: Path) -> dict[str, list[Event]]:
    """The events of those variants whose trace is there and can be read."""
    traces = {}
    for name in comparison.entries:
        try:
            traces[name] = trace.from_file(folder / "traces" / trace.folder_name(name) / "trace.json")
        except (OSError, ValueError, KeyError):
            continue  # the chart has a note in its place
    return traces


def of_traces(comparison: Comparison, traces: Mapping[str, Sequence[Event]]) -> Figure:
    """Draws one call of each variant; `traces` holds the events of those that were traced."""
    rows = comparison.rows
    operators = comparison.operators
    title = comparison.title
    fills = style.operator_fills(operators, style.timed_by(operators))
    calls = {name: call for name, events in traces.items() if (call := typical(events)) is not None}
    lanes = {name: _Lanes(call) for name, call in calls.items()}
    heights = [NAME + (lanes[row["variant"]].height + AFTER if row["variant"] in lanes else 0) for row in rows]
    legend = style.legend_of(fills) if calls else []
    bottom = BOTTOM + style.legend_height(legend) if calls else style.MARGIN
    figure, axes = style.listing(heights, LEFT, bottom)
    longest = max((call.length for call in calls.values()), default=1)
    unit = formatting.time_unit([longest / 1e3])
    axes.set_xlim(0, ROOM * longest / 1e3 / unit.size)
    top = 0.0
    ticks: dict[float, str] = {}
    for row, height in zip(rows, heights, strict=True):
        name = row["variant"]
        if name in calls:
            text = _Drawing(axes, lanes[name], fills, unit, top + NAME, ticks).draw()
        else:
            text = f"{row['status']}, no trace" if row["status"] != "ok" else "no trace"
        style.label(axes, top + NAME / 2, name, text, ok=name in calls)
        top += height
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=9)
    if not calls:
        style.heading(figure, title, "no variant was traced")
        style.blank(axes)
        return figure
    accelerator = any(call.device for call in calls.values())
    what = "gaps between executions" if accelerator else "time in which no operator runs"
    style.heading(figure, title, f"one call of each variant, as the profiler saw it; shaded: {what}")
    axes.grid(axis="x")
    axes.xaxis.set_major_formatter(style.thousands())
    axes.set_xlabel(f"{unit.name} from the call's start", labelpad=3)
    style.legend(figure, legend, LEFT)
    return figure


class _Lanes:
    """If the lanes of a call stand, in inches below the variant's name."""

    def __init__(self, call: Call) -> None:
        self.call = call
        threads = list(dict.fromkeys(event.lane for event, _ in call.operators))
        self.dispatch: dict[Any, float] = {}
        reached = 0.0
        for thread in threads:
            self.dispatch[thread] = reached
            reached += BAR * (1 + max(depth for event, depth in call.operators if event.lane == thread)) + BETWEEN
        self.runtime = reached
        if call.runtime:
            reached += BAR + BETWEEN
        self.device: dict[Any, float] = {}
        for lane in sorted(call.device):
            self.device[lane] = reached
            reached += BAR * 1.5 + BETWEEN
        self.height = max(reached - BETWEEN, BAR)


class _Drawing:
    """Draws one call into the axes, `top` inches from their upper edge; adds the names of its lanes to `ticks`."""

    def __init__(
        self,
        axes: Axes,
        lanes: _Lanes,
        fills: Mapping[str, Fill],
        unit: formatting.Unit,
        top: float,
        ticks: dict[float, str],
    ) -> None:
        self.axes = axes
        self.call = lanes.call
        self.lanes = lanes
        self.fills = fills
        self.unit = unit
        self.top = top
        self.ticks = ticks
        self.names = {event.id: event.name for event, _ in self.call.operators if event.id}

    def draw(self) -> str:
        """Draws all lanes; returns a text on the call."""
        call = self.call
        lanes = self.lanes
        for thread, offset in lanes.dispatch.items():
            own = [(event, depth) for event, depth in call.operators if event.lane == thread]
            for depth in range(1 + max(depth for _, depth in own)):
                row = [event for event, at in own if at == depth]
                self._bars(self.top + offset + depth * BAR, BAR, [(event, self._fill(event.name)) for event in row])
            self.ticks[self.top + offset + BAR / 2] = "dispatch"
        if call.runtime:
            self._bars(self.top + lanes.runtime, BAR, [(event, RUNTIME) for event in call.runtime], named=False)
            self.ticks[self.top + lanes.runtime + BAR / 2] = "runtime"
        for lane, offset in lanes.device.items():
            events = [(event, self._fill(self._operator(event))) for event in call.device[lane]]
            self._bars(self.top + offset, BAR * 1.5, events)
            self.ticks[self.top + offset + BAR * 0.75] = "device"
        self._join()
        return self._gaps()

    def _fill(self, operator: str) -> Fill:
        return self.fills.get(operator, PLAIN)

    def _operator(self, execution: Event) -> str:
        """The operator that launched an execution; the execution's own name if that is not known."""
        return self.names.get(execution.link, execution.name)

    def _x(self, ns: float) -> float:
        return ns / 1e3 / self.unit.size

    def _span(self, event: Event) -> Span:
        return self._x(event.start - self.call.start), self._x(event.duration)

    def _bars(self, y: float, height: float, events: Sequence[tuple[Event, Fill]], named: bool = True) -> None:
        """Bars of one row; a collection for each fill, since there may be thousands."""
        room = self.axes.get_xlim()[1]
        groups: dict[tuple[Fill, bool], list[Span]] = defaultdict(list)
        for event, fill in events:
            start, width = self._span(event)
            width = max(width, NARROWEST * room)
            groups[fill, width > style.SEPARATE * room].append((start, width))
            name = style.operator(self._operator(event)).removeprefix("aten::")
            if named and len(name) + 2 < LETTERS * width / room:
                style.inside(self.axes, start + width / 2, y + height / 2, name, fill)
        for (fill, separate), spans in groups.items():
            self.axes.broken_barh(
                spans, (y, height * 0.92), facecolor=fill.colour, hatch=fill.hatch if separate else None,
                **style.edge(fill, separate),
            )  # fmt: skip

    def _join(self) -> None:
        """A line from each dispatch by way of the runtime to the execution that it led to."""
        dispatches = {event.id: (event, depth) for event, depth in self.call.operators if event.id}
        schedules = {event.link: event for event in self.call.runtime}  # the last: what starts the execution
        paths = []
        for lane, offset in self.lanes.device.items():
            for execution in self.call.device[lane]:
                if execution.link not in dispatches:
                    continue
                operator, depth = dispatches[execution.link]
                start = self._x(operator.start - self.call.start)
                path = [(start, self.top + self.lanes.dispatch[operator.lane] + (depth + 1) * BAR)]
                runtime = schedules.get(execution.link)
                if runtime is not None:
                    middle = self._x(runtime.start - self.call.start)
                    path += [(middle, self.top + self.lanes.runtime), (middle, self.top + self.lanes.runtime + BAR)]
                path.append((self._x(execution.start - self.call.start), self.top + offset))
                paths.append(path)
        self.axes.add_collection(LineCollection(paths, colors=style.FAINT, linewidths=0.7, zorder=0.9), autolim=False)

    def _gaps(self) -> str:
        """Shades the gaps and says how long they are in all."""
        call = self.call
        executions = call.executions
        if executions:
            ends = max(event.end for event in executions)
            spaces = gaps(executions, executions[0].start, ends)
            rows = [self.top + offset for offset in self.lanes.device.values()]
            height = BAR * 1.5
            text = f"{len(executions)} executions in {{all}}, {{gap}} of it gaps between them"
            if len(executions) == 1:
                text = "1 execution of {all}"
            length = ends - executions[0].start
        else:
            outermost = sorted((event for event, depth in call.operators if depth == 0), key=lambda event: event.start)
            spaces = gaps(outermost, call.start, call.end)
            rows = [self.top + offset for offset in self.lanes.dispatch.values()][:1]
            height = BAR
            text = f"{len(call.operators)} operators dispatched, no operator in {{gap}} of {{all}}"
            length = call.end - call.start
        spans = [(self._x(start - call.start), self._x(width)) for start, width in spaces]
        for y in rows:
            style.shade(self.axes, spans, (y, height * 0.92))
        total = sum(width for _, width in spaces) / 1e3
        unit = formatting.time_unit([length / 1e3])
        return text.format(gap=unit.text(total), all=unit.text(length / 1e3))
