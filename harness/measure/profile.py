"""The profile of a variant: torch.profiler's events, counted per call and attributed to operators."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function

from harness.configuration.settings import NeuronSettings, ProfileSettings
from harness.devices.base import Device
from harness.measure import trace
from harness.measure.observations import OperatorRow, Profile
from harness.measure.trace import GUARDS, Event

DISTURBED = 3  # times the median Self CPU of a call
ENGINE = "autograd::engine::evaluate_function"  # no operator: autograd's wrapper of a node


@dataclass(frozen=True)
class Probe:
    """What one call does, seen in a short profile of its own."""

    events: int
    peak_bytes: int | None


def probe(call: Callable[[], Any], device: Device) -> Probe:
    """Counts one call's events and, on the CPU, its peak of allocated memory."""
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=not device.accelerator) as profile:
        with record_function(trace.CALL):
            outputs = call()
        device.synchronize()
    del outputs
    events = trace.from_kineto(profile)
    spans = [event for event in events if event.kind != trace.MEMORY]
    if device.accelerator:
        return Probe(len(spans), None)
    (window,) = trace.calls(events)
    held = peak = 0
    for event in events:
        if event.kind == trace.MEMORY and window.start <= event.start <= window.end:
            held += event.bytes
            peak = max(peak, held)
    return Probe(len(spans), peak)


def record(
    call: Callable[[], Any],
    device: Device,
    settings: ProfileSettings,
    neuron: NeuronSettings,
    folder: Path,
    events_per_call: int,
    grad: bool,
) -> Profile:
    """Profiles `call` over the schedule that the settings give and writes its trace into `folder`."""
    active = max(1, min(settings.active, settings.max_events // max(events_per_call, 1)))
    notes = []
    if active < settings.active:
        notes.append(
            f"recorded {active} calls in place of profile.active={settings.active}: one call makes "
            f"{events_per_call} events; raise profile.max_events={settings.max_events} to record more"
        )
    arguments, dropped = device.profiler_arguments(folder, neuron)
    events: list[Event] = []

    def ready(profile: torch.profiler.profile) -> None:
        events.extend(trace.from_kineto(profile))
        device.export(profile, folder)

    profiler: AbstractContextManager[torch.profiler.profile] = torch.profiler.profile(
        activities=device.activities(),
        schedule=torch.profiler.schedule(wait=settings.wait, warmup=settings.warmup, active=active, repeat=1),
        on_trace_ready=ready,
        record_shapes=settings.record_shapes,
        with_stack=settings.with_stack,
        **arguments,
    )
    with torch.set_grad_enabled(grad), profiler as profile:
        for _ in range(settings.wait + settings.warmup + active):
            with record_function(trace.CALL):
                call()
            device.synchronize()  # else the step ends before its device work does
            profile.step()
    return summarize(events, active, device, notes + dropped)


def summarize(events: list[Event], active: int, device: Device, notes: list[str]) -> Profile:
    """Attributes events to the calls and operators they belong to.

    Host times are means over the recorded calls, but for those that were disturbed.
    """
    windows = trace.calls(events)
    starts = [window.start for window in windows]

    def window_of(event: Event) -> int:
        """The call that an event follows the start of."""
        return bisect.bisect_right(starts, event.start) - 1

    inside = [
        event
        for event in events
        if event.kind in (trace.OPERATOR, trace.ANNOTATION, trace.RUNTIME)
        and (index := window_of(event)) >= 0
        and event.start < windows[index].end
    ]
    self_ns, outermost = nesting(inside)
    launched: dict[int, list[Event]] = defaultdict(list)
    executions = [event for event in events if event.kind == trace.DEVICE and window_of(event) >= 0]
    for event in executions:
        if event.link:
            launched[event.link].append(event)
    count: Counter[str] = Counter()
    cpu: dict[str, list[int]] = defaultdict(lambda: [0] * len(windows))  # by call
    device_ns: Counter[str] = Counter()
    per_window = [0] * len(windows)
    for position, event in enumerate(inside):
        if event.kind != trace.OPERATOR:
            continue
        work = launched.get(event.id, ())
        count[event.name] += 1
        cpu[event.name][window_of(event)] += self_ns[position]
        device_ns[event.name] += sum(execution.duration for execution in work)
        counts = bool(work) if device.accelerator else bool(outermost[position]) and event.name != GUARDS
        per_window[window_of(event)] += counts
    kept = undisturbed([sum(times) for times in zip(*cpu.values(), strict=True)]) or [0]
    timed = sum(device_ns.values()) > 0
    notes = list(notes)
    whole = len(windows) == active and all(number % max(active, 1) == 0 for number in count.values())
    whole = whole and len(set(per_window)) <= 1
    if not whole:
        notes.append(
            f"the profile is rejected: its {len(windows)} calls do not agree on their operators; "
            "the variant does not do the same work each time"
        )
    if device.accelerator and not timed and (count or executions):
        notes.append(f"device time not available: {device.missing_time()}")
    rows = [
        OperatorRow(
            name,
            number // active,
            sum(cpu[name][window] for window in kept) / len(kept) / 1e3,
            device_ns[name] / active / 1e3 if timed else None,
        )
        for name, number in count.items()
    ]
    rows.sort(key=lambda row: (row.device_time_us or 0.0, row.self_cpu_us), reverse=True)
    known = per_window[0] if whole and per_window and (timed or not device.accelerator) else None
    even = len(executions) % active == 0
    return Profile(
        operators=tuple(rows) if whole else (),
        active=len(windows),
        events=len(events),
        self_cpu_us=sum(row.self_cpu_us for row in rows) if whole else 0.0,
        operator_calls=known,
        device_time_us=sum(device_ns.values()) / active / 1e3 if timed and whole else None,
        device_executions=len(executions) // active if device.accelerator and executions and even else None,
        host_us=sum(windows[window].duration for window in kept) / len(kept) / 1e3 if windows else 0.0,
        notes=notes,
    )


def undisturbed(totals: list[int]) -> list[int]:
    """The calls whose operators took no more than a few times the median: a preempted one would outweigh all else."""
    return [window for window, total in enumerate(totals) if total <= DISTURBED * median(totals)]


def nesting(events: list[Event]) -> tuple[list[int], bytearray]:
    """Each event's own time in ns, without what runs inside it on its thread; and a flag for outermost operators.

    `events` are ordered by start, an outer one first. Autograd's wrapper of a node is looked through.
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
        stack.append((position, below or operator))
    return own, outermost
