"""The life of a call: dispatches on the host, schedules in the runtime, executions on the device, and the gaps."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict

from harness.measure import trace
from harness.measure.observations import Timeline
from harness.measure.profile import GUARDS, nesting
from harness.measure.trace import Event

# Runtime calls that put work on a device: nrta_execute_schedule, cudaLaunchKernel, cuLaunchKernelEx, cudaMemcpyAsync
SCHEDULE = re.compile("schedule|launch|memcpy|memset", re.IGNORECASE)


def analyse(events: list[Event]) -> Timeline | None:
    """The timeline of the calls in a trace, or None where it has no call; `events` are ordered by start.

    An execution belongs to the call whose operator launched it, however late it runs; where the trace does not say
    which that was, to the last call that began before it.
    """
    windows = trace.calls(events)
    if not windows:
        return None
    starts = [window.start for window in windows]

    def call_of(event: Event) -> int:
        return bisect.bisect_right(starts, event.start) - 1

    def inside(event: Event) -> bool:
        index = call_of(event)
        return index >= 0 and event.start < windows[index].end

    host = [event for event in events if event.kind in (trace.OPERATOR, trace.ANNOTATION) and inside(event)]
    _, outermost = nesting(host)
    launchers = {event.id: call_of(event) for event in host if event.kind == trace.OPERATOR and event.id}
    runtime = [event for event in events if event.kind == trace.RUNTIME]
    executions: dict[tuple[int, object], list[Event]] = defaultdict(list)  # by call and device
    for event in events:
        if event.kind == trace.DEVICE:
            index = launchers.get(event.link, call_of(event))
            if index >= 0:
                executions[index, event.lane[0]].append(event)
    busy = sum(busy_ns(ran) for ran in executions.values())
    span = sum(max(event.end for event in ran) - ran[0].start for ran in executions.values())
    scheduled = sum(inside(event) and bool(SCHEDULE.search(event.name)) for event in runtime)
    calls, seen = len(windows), bool(executions)
    return Timeline(
        host_dispatches=sum(flag and event.name != GUARDS for event, flag in zip(host, outermost, strict=True)) / calls,
        runtime_schedules=scheduled / calls if runtime else None,
        device_executions=sum(map(len, executions.values())) / calls if seen else None,
        device_busy_us=busy / calls / 1e3 if seen else None,
        device_span_us=span / calls / 1e3 if seen else None,
        device_gap_us=(span - busy) / calls / 1e3 if seen else None,
        host_us=sum(window.duration for window in windows) / calls / 1e3,
    )


def busy_ns(events: list[Event]) -> int:
    """The length of the union of spans, which are ordered by start."""
    total, reached = 0, 0
    for event in events:
        total += max(0, event.end - max(event.start, reached))
        reached = max(reached, event.end)
    return total
