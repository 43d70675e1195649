"""The profile of a variant, recorded by torch.profiler and read from its exported trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function

from harness.configuration.settings import ProfileSettings
from harness.devices.base import Device
from harness.measure import torch_private, trace
from harness.measure.attribution import Calls, device_seconds, eager_operators, summarize, timeline, without
from harness.measure.observations import Profile, Timeline

PROFILE_S = 1.0  # of one variant's calls under the profiler, if one call takes no longer
PROFILES_ITSELF = (
    "it opens a profiler of its own, which ends the one around it: its operators, device time and memory are not "
    "known; profile it without its own to see them"
)
PROFILES_ON = (
    "it starts a profiler and does not stop it, which takes the place of the one around it: its operators, device time "
    "and memory are not known; let it stop what it starts"
)


class OwnProfilerError(Exception):
    """A call opened a profiler of its own, which ended or replaced the one around it: its profile is unknown."""


@dataclass(frozen=True)
class Probe:
    """The events and memory of one call, from a short profile of its own."""

    events: int
    peak_bytes: int | None  # the most memory that it holds beyond what it began with; None on an accelerator


@dataclass(frozen=True)
class Recorded:
    """A profile, and what else its trace holds."""

    profile: Profile
    timeline: Timeline | None
    device_seconds: list[float]  # of each call; none if the trace does not hold device time
    eager_operators: list[str]  # those that launched work in compiled graphs which launched none


def probe(call: Callable[[], Any], device: Device) -> Probe:
    """Counts one call's events and, on the CPU, its peak of allocated memory.

    Raises OwnProfilerError if the call opens a profiler itself.
    """
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=not device.accelerator) as profile:
        with record_function(trace.CALL):
            outputs = call()
        device.synchronize()
        recording = torch_private.profiling()
    del outputs
    if not recording:
        raise OwnProfilerError(PROFILES_ITSELF)
    events = trace.of_profile(profile)
    if not trace.calls(events):
        raise OwnProfilerError(PROFILES_ON)
    spans = sum(event.kind != trace.MEMORY for event in events)
    return Probe(spans, None if device.accelerator else peak_bytes(events))


def peak_bytes(events: list[trace.Event]) -> int:
    """The most bytes that the allocations and releases within the first call add up to; `events` by start."""
    window, *_ = trace.calls(events)
    held = peak = 0
    for event in events:
        if event.kind == trace.MEMORY and window.start <= event.start <= window.end:
            held += event.bytes
            peak = max(peak, held)
    return peak


def peak_memory(call: Callable[[], Any], device: Device) -> int | None:
    """The most bytes that a call holds on an accelerator beyond what was allocated before; None if it does not say."""
    device.synchronize()
    device.reset_peak_memory()
    before = device.allocated_memory()
    outputs = call()
    device.synchronize()
    peak = device.peak_memory()
    del outputs
    return None if peak is None else max(peak - before, 0)


def record(
    call: Callable[[], Any],
    device: Device,
    settings: ProfileSettings,
    folder: Path,
    events_per_call: int,
    grad: bool,
    seen: Callable[[], object],
    threads: bool = False,
) -> Recorded:
    """Profiles `call` over the schedule that the settings give and writes its trace into `folder`, which exists.

    `events_per_call`, as `probe` counts them, bounds how many calls are recorded; `grad` is the grad mode of the calls.
    `seen()` is what has been built and executed so far: a call in which it changes is left out of all figures, since
    the first execution of a graph or kernel takes longer than all others. `threads`: of all threads, whoever calls.
    Raises OwnProfilerError if a call opens a profiler itself.
    """
    active = max(1, min(settings.active, settings.max_events // max(events_per_call, 1)))
    notes = []
    if active < settings.active:
        notes.append(
            f"recorded {active} calls in place of profile.active={settings.active}: one call makes "
            f"{events_per_call} events; raise profile.max_events={settings.max_events} to record more"
        )
    arguments, dropped = device.profiler_arguments(folder)
    if threads:
        arguments.setdefault("experimental_config", torch_private.all_threads())
    recording = True

    def ready(profile: torch.profiler.profile) -> None:
        if recording:
            device.export(profile, folder)

    profiler: AbstractContextManager[torch.profiler.profile] = torch.profiler.profile(
        activities=device.activities(),
        schedule=torch.profiler.schedule(wait=settings.wait, warmup=settings.warmup, active=active, repeat=1),
        on_trace_ready=ready,
        record_shapes=settings.record_shapes,
        with_stack=settings.with_stack,
        **arguments,
    )
    unrecorded = settings.wait + settings.warmup
    first = set()  # numbers of the recorded calls in which something was built or executed for the first time
    before = seen()
    with torch.set_grad_enabled(grad), profiler as profile:
        for number in range(unrecorded + active):
            with record_function(trace.CALL):
                call()
            device.synchronize()  # else the step ends before its device work does
            recording = threads or number < unrecorded or torch_private.profiling()  # which tells of its own thread
            if not recording:
                break
            after = seen()
            if number >= unrecorded and after != before:
                first.add(number - unrecorded)
            before = after
            profile.step()
    if not recording:
        raise OwnProfilerError(PROFILES_ITSELF)
    events = trace.of_export(folder / trace.TRACE)
    if not trace.calls(events):
        raise OwnProfilerError(PROFILES_ON)
    calls = Calls(without(events, first) if 0 < len(first) < active else events)
    summary = summarize(calls, active, device, notes + dropped, len(first))
    return Recorded(summary, timeline(calls), device_seconds(calls, summary), eager_operators(calls))


def shortened(settings: ProfileSettings, call_s: float) -> tuple[ProfileSettings, str | None]:
    """The profiler's schedule for calls of so many seconds, and a note if it is shorter than the one set."""
    calls = max(1, int(PROFILE_S / call_s)) if call_s > 0 else settings.wait + settings.warmup + settings.active
    if calls >= settings.wait + settings.warmup + settings.active:
        return settings, None
    active = min(settings.active, calls)
    shorter = replace(settings, wait=0, warmup=0, active=active)
    if active == settings.active:
        return shorter, None
    recorded = f"recorded {active} call{'s' if active > 1 else ''}"
    return shorter, f"{recorded} in place of profile.active={settings.active}: one call takes {call_s:.2g} s"
