"""Attribution: a trace's events, each assigned to its call and operator, and their sums.

An execution belongs to the call whose operator launched it, however late it runs; if the trace does not say which
that was, to the last call that began before it.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from statistics import median
from typing import Any

from harness.devices.base import Device
from harness.measure import trace
from harness.measure.observations import OperatorRow, Profile, Timeline
from harness.measure.torch_private import COMPILED_FUNCTION, COMPILED_REGION, ENGINE, GUARDS
from harness.measure.trace import Event

PREEMPTED = 3  # times the median Self CPU of a call
# Runtime calls that put work on a device: nrta_execute_schedule, cudaLaunchKernel, cuLaunchKernelEx, cudaMemcpyAsync
SCHEDULE = re.compile("schedule|launch|memcpy|memset", re.IGNORECASE)


class Calls:
    """The calls in a trace, and the events of each.

    `host` are the host's events within them, with their own times in `self_ns` and the call of each in `call`;
    `dispatches` the positions of operators that were entered from outside any other; `schedules` when the runtime put
    work on a device, by the operator's id; `executions` the device's work by call and device, each ordered by start.
    """

    def __init__(self, events: Sequence[Event]):
        self.events = len(events)
        self.windows = trace.calls(list(events))
        starts = [window.start for window in self.windows]
        self.host: list[Event] = []
        self.call: list[int] = []
        device = []
        for event in events:
            if event.kind == trace.DEVICE:
                device.append((event, bisect.bisect_right(starts, event.start) - 1))
            elif event.kind != trace.MEMORY:
                index = bisect.bisect_right(starts, event.start) - 1
                if index >= 0 and event.start < self.windows[index].end:
                    self.host.append(event)
                    self.call.append(index)
        self.self_ns, outermost = nesting(self.host)
        self.dispatches = [
            position for position, flag in enumerate(outermost) if flag and self.host[position].name != GUARDS
        ]
        self.has_runtime = any(event.kind == trace.RUNTIME for event in events)
        self.schedules: dict[int, list[int]] = defaultdict(list)
        for event in self.host:
            if event.kind == trace.RUNTIME and SCHEDULE.search(event.name):
                self.schedules[event.link].append(event.start)
        launchers = {
            event.id: index
            for event, index in zip(self.host, self.call, strict=True)
            if event.kind == trace.OPERATOR and event.id
        }
        self.device_ns = [0] * len(self.windows)  # by call, of the executions that its operators launched
        self.launched: dict[int, list[Event]] = defaultdict(list)  # by the operator's id
        self.executions: dict[tuple[int, Any], list[Event]] = defaultdict(list)
        for event, before in device:
            index = launchers.get(event.link, before)
            if index >= 0:
                self.executions[index, event.lane[0]].append(event)
                if event.link:
                    self.launched[event.link].append(event)
                if event.link in launchers:
                    self.device_ns[index] += event.duration

    @property
    def executed(self) -> int:
        """Executions of all calls on all devices."""
        return sum(map(len, self.executions.values()))


def without(events: Sequence[Event], left_out: Container[int]) -> list[Event]:
    """The events but for those of the calls of these numbers, from 0, and of the device's work that they launched."""
    windows = trace.calls(list(events))
    starts = [window.start for window in windows]
    calls: dict[int, int] = {}  # by the id of an operator
    numbers = [bisect.bisect_right(starts, event.start) - 1 for event in events]
    for event, number in zip(events, numbers, strict=True):
        if event.kind == trace.OPERATOR and event.id:
            calls[event.id] = number
    return [
        event
        for event, number in zip(events, numbers, strict=True)
        if (calls.get(event.link, number) if event.kind == trace.DEVICE else number) not in left_out
    ]


def summarize(calls: Calls, active: int, device: Device, notes: Sequence[str], first_calls: int = 0) -> Profile:
    """The profile of `active` recorded calls, with further notes.

    `first_calls` of them built or executed something for the first time: these are not among `calls`, unless they are
    all that there are, and then device time is not known. Host times are means without the calls that were preempted.
    """
    known = first_calls < active
    active -= first_calls if known else 0
    count: Counter[str] = Counter()
    cpu: dict[str, list[int]] = defaultdict(lambda: [0] * len(calls.windows))  # by call
    device_ns: Counter[str] = Counter()
    launching = [0] * len(calls.windows)
    for event, index, own_ns in zip(calls.host, calls.call, calls.self_ns, strict=True):
        if event.kind == trace.OPERATOR:
            work = calls.launched.get(event.id, ()) if calls.launched else ()
            count[event.name] += 1
            cpu[event.name][index] += own_ns
            device_ns[event.name] += sum(execution.duration for execution in work)
            launching[index] += bool(work)
    entered = Counter(calls.call[position] for position in calls.dispatches)
    per_call = launching if device.accelerator else [entered[index] for index in range(len(calls.windows))]
    whole = len(calls.windows) == active and len(set(per_call)) <= 1
    whole = whole and all(number % active == 0 for number in count.values())
    timed = known and sum(device_ns.values()) > 0
    notes = list(notes)
    if first_calls:
        calls_left = (
            f"{first_calls} of {active + first_calls} recorded calls are left out" if known else "no device time"
        )
        notes.append(
            f"{calls_left}: something was built or executed there for the first time, which takes longer; "
            "raise profile.warmup if it happens once, or let the variant build nothing when it is called again"
        )
    if not whole:
        notes.append(
            f"the profile is rejected: its {len(calls.windows)} calls do not agree on their operators; "
            "the variant does not do the same work each time"
        )
    if device.accelerator and known and not timed and (count or calls.executions):
        notes.append(f"device time not available: {device.missing_time()}")
    steady = quiet_calls([sum(times) for times in zip(*cpu.values(), strict=True)]) or [0]
    rows = _rows(count, cpu, device_ns, active, steady, timed) if whole else []
    even = calls.executed % active == 0
    return Profile(
        operators=tuple(rows),
        active=len(calls.windows),
        events=calls.events,
        self_cpu_us=sum(row.self_cpu_us for row in rows),
        operator_calls=per_call[0] if whole and per_call and (timed or not device.accelerator) else None,
        device_time_us=sum(device_ns.values()) / active / 1e3 if timed and whole else None,
        device_executions=calls.executed // active if device.accelerator and calls.executions and even else None,
        host_us=_mean_us([calls.windows[index] for index in steady]) if calls.windows else 0.0,
        notes=notes,
        first_calls=first_calls,
    )


def device_seconds(calls: Calls, profile: Profile) -> list[float]:
    """Each call's device time, of its operators' executions together; none if the profile has no device time."""
    return [] if profile.device_time_us is None else [ns / 1e9 for ns in calls.device_ns if ns]


def _rows(
    count: Mapping[str, int],
    cpu: Mapping[str, Sequence[int]],
    device_ns: Mapping[str, int],
    active: int,
    steady: Sequence[int],
    timed: bool,
) -> list[OperatorRow]:
    """A row for each operator, the costliest first."""
    rows = [
        OperatorRow(
            name,
            number // active,
            sum(cpu[name][index] for index in steady) / len(steady) / 1e3,
            device_ns[name] / active / 1e3 if timed else None,
        )
        for name, number in count.items()
    ]
    return sorted(rows, key=lambda row: (row.device_time_us or 0.0, row.self_cpu_us), reverse=True)


def timeline(calls: Calls) -> Timeline | None:
    """Dispatches on the host, schedules in the runtime, executions on the device, and the gaps; None without a call."""
    number = len(calls.windows)
    if not number:
        return None
    ran = list(calls.executions.values())
    busy = sum(busy_ns(executions) for executions in ran)
    span = sum(max(event.end for event in executions) - executions[0].start for executions in ran)
    scheduled = sum(map(len, calls.schedules.values()))
    known = bool(ran) and calls.has_runtime
    return Timeline(
        host_dispatches=len(calls.dispatches) / number,
        runtime_schedules=scheduled / number if calls.has_runtime else None,
        device_executions=calls.executed / number if ran else None,
        device_busy_us=busy / number / 1e3 if ran else None,
        device_span_us=span / number / 1e3 if ran else None,
        device_gap_us=(span - busy) / number / 1e3 if ran else None,
        host_us=_mean_us(calls.windows),
        device_wait_us=sum(wait_ns(executions, calls.schedules) for executions in ran) / number / 1e3
        if known
        else None,
        devices=len({device for _, device in calls.executions}),
    )


def eager_operators(calls: Calls) -> list[str]:
    """Names of the operators that launched work within a compiled region which launched none itself, in order.

    So it is seen that a compiled graph ran eagerly: on a device whose graphs are one execution, nothing else tells.
    """
    launching: dict[int, list[str]] = defaultdict(list)  # by the position of the region
    open_: dict[Any, list[tuple[Event, int]]] = defaultdict(list)  # regions by thread, with their positions
    for position, event in enumerate(calls.host):
        if event.kind != trace.OPERATOR:
            continue
        regions = open_[event.lane]
        while regions and regions[-1][0].end <= event.start:
            regions.pop()
        if event.name.startswith((COMPILED_REGION, COMPILED_FUNCTION)):
            regions.append((event, position))
        elif regions and calls.launched.get(event.id):
            launching[regions[-1][1]].append(event.name)
    eager = [names for position, names in launching.items() if not calls.launched.get(calls.host[position].id)]
    return list(dict.fromkeys(name for names in eager for name in names))


def wait_ns(executions: Sequence[Event], schedules: Mapping[int, Sequence[int]]) -> int:
    """How long a device stood idle between executions, ordered by start, before it was given the next of them.

    `schedules` are the times at which each operator gave the device work, in order, by the operator's id.
    """
    total = 0
    reached = executions[0].end
    for execution in executions[1:]:
        times = schedules.get(execution.link, ())
        before = bisect.bisect_right(times, execution.start)
        total += max(0, times[before - 1] - reached) if before else 0
        reached = max(reached, execution.end)
    return total


def quiet_calls(totals: Sequence[int]) -> list[int]:
    """The calls whose operators took no more than a few times the median: a preempted one would outweigh all else."""
    return [index for index, total in enumerate(totals) if total <= PREEMPTED * median(totals)]


def nesting(events: Sequence[Event], anew: tuple[str, ...] = ()) -> tuple[list[int], bytearray]:
    """Each event's own time in ns, without what runs inside it on its thread; and a flag for outermost operators.

    `events` are ordered by start, an outer one first. Autograd's wrapper of a node is looked through. Inside an event
    whose name begins with one of `anew` operators are outermost as if it were inside none.
    """
    own = [event.duration for event in events]
    outermost = bytearray(len(events))
    open_: dict[Any, list[tuple[int, bool]]] = defaultdict(list)  # by thread: positions, and whether below an operator
    for position, event in enumerate(events):
        stack = open_[event.lane]
        while stack and events[stack[-1][0]].end <= event.start:
            stack.pop()
        above, below = stack[-1] if stack else (None, False)
        if above is not None:
            own[above] -= min(event.end, events[above].end) - event.start
        operator = event.kind == trace.OPERATOR and not event.name.startswith(ENGINE)
        outermost[position] = operator and not below
        stack.append((position, (below or operator) and not event.name.startswith(anew)))
    return own, outermost


def busy_ns(events: Sequence[Event]) -> int:
    """The length of the union of spans, which are ordered by start."""
    total = 0
    reached = events[0].start if events else 0  # a device's clock may lie before the profile's beginning
    for event in events:
        total += max(0, event.end - max(event.start, reached))
        reached = max(reached, event.end)
    return total


def _mean_us(windows: Sequence[Event]) -> float:
    return sum(window.duration for window in windows) / len(windows) / 1e3
