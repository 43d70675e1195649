"""Profiles: what is in them, whether their sums agree, and what a logical core of two physical ones shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType

from first_checks import Check
from harness.devices import neuron_artefacts
from harness.devices.neuron import Neuron
from harness.measure import trace
from harness.measure.attribution import SCHEDULE
from variants.rmsnorm import fused, naive

ACTIVE = 3
WORK = {name for name, kind in trace.KINDS.items() if kind == trace.DEVICE}
KNOWN = {*trace.KINDS, "python_function", "trace", "overhead", "ac2g", "async_cpu_gpu"}


def profiler(device: Neuron, folder: Path) -> Check:
    """A profile of the naive RMSNorm: what is in it, and whether its sums agree."""
    inputs = _inputs()
    naive(*inputs)
    device.synchronize()
    rows, events, table = profiled(device, folder / "naive", lambda: naive(*inputs))
    kinds = Counter(event.activity_type() for event in events)
    yield "the profiler's kinds of event are known", set(kinds) <= KNOWN, dict(kinds)
    at_operators = sum(row.self_device_time_total for row in rows if row.device_type == DeviceType.CPU)
    of_device = sum(row.self_device_time_total for row in rows if row.device_type == DeviceType.PrivateUse1)
    yield "operators carry device time", at_operators > 0, f"{at_operators / ACTIVE:.2f} µs per call"
    hardware = sum(event.duration_ns() for event in events if trace.KINDS.get(event.activity_type()) == trace.DEVICE)
    sums = (
        f"operators {at_operators:.2f}, rows of the device {of_device:.2f}, executions {hardware / 1e3:.2f} µs in all"
    )
    yield "the profiler's total is the sum of the hardware's executions", _close(at_operators, hardware / 1e3), sums
    yield "device work appears once more as rows of its own", _close(at_operators, of_device), sums
    runtime = [row for row in rows if row.key.startswith("nrt")]
    carried = {row.key: row.self_device_time_total for row in runtime}
    yield (
        "runtime events are rows of the CPU without device time",
        (not any(carried.values())) if runtime else None,
        carried,
    )
    yield "the columns are headed NEURON", "Self NEURON" in table and "NEURON total" in table, table.splitlines()[1:2]
    written = json.loads((folder / "naive" / "trace.json").read_text())["traceEvents"]
    categories = Counter(str(event.get("cat")) for event in written if event.get("ph") == "X")
    yield "trace.json shows the device's executions", bool(WORK & set(categories)), dict(categories)
    lanes = [event["args"]["name"] for event in written if event.get("name") in ("thread_name", "process_name")]
    named = any(str(lane).startswith("neuron_hw/NC") for lane in lanes)
    yield "trace.json has a lane neuron_hw/NC<n>:<id>", named, sorted(set(map(str, lanes)))
    found = neuron_artefacts.inventory(folder / "naive", folder, device.settings.modes, "first-checks")
    yield "the capture is whole", not found.problems, found.problems or [file.path for file in found.files]
    rows, _, _ = profiled(device, folder / "undrained", lambda: naive(*inputs), drain=False)
    lost = sum(row.self_device_time_total for row in rows if row.device_type == DeviceType.CPU)
    yield "without synchronize device time is lost", lost < at_operators / 2, f"{lost:.2f} of {at_operators:.2f} µs"


def executions(device: Neuron, folder: Path) -> Check:
    """How many executions calls are, on how many physical cores, and what a first one costs."""
    inputs = _inputs()
    counts = {}
    for name, function in (("naive", naive), ("fused", fused)):
        function(*inputs)
        device.synchronize()
        rows, _, _ = profiled(device, folder / name, lambda function=function: function(*inputs))
        raw, ran, scheduled = _executions(folder / name)
        counts[name] = len(ran)
        even = len(ran) % ACTIVE == 0
        seen = f"{len(ran) / ACTIVE:g} per call, {scheduled / ACTIVE:g} schedules, {len(raw) / ACTIVE:g} in the trace"
        yield f"calls of the {name} RMSNorm are equally many executions", even, seen
        yield f"{name}: each submission is one, once those of physical cores are merged", len(ran) == scheduled, seen
        if name == "naive" and len(raw) > len(ran):
            merged = sum(event.duration for event in ran) / 1e3
            table = sum(row.self_device_time_total for row in rows if row.device_type == DeviceType.CPU)
            seen = f"{table / merged:.3g} times the merged executions of {len(raw) / len(ran):g} cores"
            yield "torch's own table adds up the physical cores", _close(table / merged, len(raw) / len(ran)), seen
            flows = [event["args"].get("flow_id") for event in raw]
            yield "the executions of one submission name one flow", all(flows) or None, raw[0]["args"]
    yield "the fused RMSNorm is fewer executions than the naive one", counts["fused"] < counts["naive"], counts
    sizes = iter([1024] * 2 + [1536] * ACTIVE)  # new where the recording begins
    tensors = {size: torch.ones(size).to("neuron") for size in (1024, 1536)}
    profiled(device, folder / "first", lambda: tensors[next(sizes)].rsqrt())
    _, ran, _ = _executions(folder / "first")
    times = [event.duration / 1e3 for event in ran]
    longer = len(times) == ACTIVE and times[0] > 1.05 * max(times[1:])
    yield "the first execution of a kernel takes longer", longer or None, [f"{time:.2f} µs" for time in times]


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 512, dtype=torch.bfloat16).to("neuron"), torch.ones(512, dtype=torch.bfloat16).to("neuron")


def _executions(folder: Path) -> tuple[list[dict], list[trace.Event], int]:
    """The hardware's executions in a trace, those of logical cores as the harness merges them, and the schedules."""
    written = json.loads((folder / trace.TRACE).read_text())["traceEvents"]
    raw = [event for event in written if event.get("ph") == "X" and event.get("cat") in WORK]
    events = trace.from_file(folder / trace.TRACE)
    ran = sorted((event for event in events if event.kind == trace.DEVICE), key=lambda event: event.start)
    scheduled = sum(event.kind == trace.RUNTIME and bool(SCHEDULE.search(event.name)) for event in events)
    return raw, ran, scheduled


def profiled(device: Neuron, folder: Path, call: Callable[[], Any], drain: bool = True) -> tuple[list, list, str]:
    """key_averages(), Kineto's events and the printed table of `ACTIVE` calls; the capture stays in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments, notes = device.profiler_arguments(folder)
    print("\n".join(f"note    {note}" for note in notes), end="\n" if notes else "")
    kept: list[Any] = []

    def ready(profile: Any) -> None:
        averages = profile.key_averages()
        table = averages.table(sort_by="self_privateuse1_time_total", row_limit=10)
        kept.extend([list(averages), profile.profiler.kineto_results.events(), table])
        device.export(profile, folder)

    with torch.profiler.profile(
        activities=device.activities(),
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=ACTIVE, repeat=1),
        on_trace_ready=ready,
        **arguments,
    ) as profile:
        for _ in range(2 + ACTIVE):
            call()
            if drain:
                device.synchronize()
            profile.step()
    return kept[0], kept[1], kept[2]


def _close(left: float, right: float) -> bool:
    return max(left, right) > 0 and abs(left - right) <= 0.01 * max(left, right)
