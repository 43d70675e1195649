"""The life of a call: dispatches on the host, schedules in the runtime, executions on the device, and the gaps."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from harness.measure import trace
from harness.measure.trace import Event


@dataclass(frozen=True)
class Timeline:
    """Counts and times in microseconds, per call; None where the trace has no device."""

    host_dispatches: float  # operators that the host entered, nested ones included
    runtime_calls: float  # what the device's runtime was asked for
    device_executions: float
    device_busy_us: float | None  # time in which at least one execution runs
    device_span_us: float | None  # from the first execution's start to the last one's end
    device_gap_us: float | None  # of the span, the time in which nothing runs
    host_us: float  # from entering the call to leaving it


def analyse(events: list[Event]) -> Timeline:
    """The timeline of the calls in a profile; work that the device does after a call belongs to that call."""
    windows = trace.calls(events)
    starts = [window.start for window in windows]
    count = max(len(windows), 1)
    executions: list[list[Event]] = [[] for _ in windows]
    dispatches = runtime = 0
    for event in events:
        index = bisect.bisect_right(starts, event.start) - 1
        if index < 0:
            continue
        if event.kind == trace.DEVICE:
            executions[index].append(event)
        elif event.kind == trace.RUNTIME and event.start < windows[index].end:
            runtime += 1
        elif event.kind == trace.OPERATOR and event.start < windows[index].end:
            dispatches += 1
    busy = [busy_ns(call) for call in executions if call]
    span = [max(event.end for event in call) - call[0].start for call in executions if call]
    seen = bool(busy)
    return Timeline(
        host_dispatches=dispatches / count,
        runtime_calls=runtime / count,
        device_executions=sum(map(len, executions)) / count,
        device_busy_us=sum(busy) / count / 1e3 if seen else None,
        device_span_us=sum(span) / count / 1e3 if seen else None,
        device_gap_us=(sum(span) - sum(busy)) / count / 1e3 if seen else None,
        host_us=sum(window.duration for window in windows) / count / 1e3,
    )


def busy_ns(events: list[Event]) -> int:
    """The length of the union of spans, which are ordered by start."""
    total, reached = 0, 0
    for event in events:
        total += max(0, event.end - max(event.start, reached))
        reached = max(reached, event.end)
    return total
