"""The first checks on real Trainium: whether the assumptions of docs/neuron.md hold on this machine.

A line for each assumption: `holds`, `DIFFERS` or `unseen`, and what was observed. The profiler's artefacts and all
observations (`first_checks.json`) stay in FOLDER. The exit status is 0 if nothing differs, 1 if something does, and 2
if there is no device.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType

from harness.configuration.operation import Variant
from harness.devices import neuron_artefacts, neuron_explorer, neuron_summary
from harness.devices.neuron import Neuron
from harness.measure import nki_kernel, trace
from harness.measure.binding import bind
from variants.rmsnorm import fused, naive

ARGUMENTS = (
    "modes",
    "max_events_per_nc",
    "capture_enabled_for_nc",
    "profile_output_dir",
    "neff_cache_dir",
    "precache_node_info",
    "correlate_device_time",
)
MODES = ("DEVICE", "RUNTIME", "CPU_UTIL", "HOST_MEMORY")
RUNTIME = (
    "is_available", "device_count", "current_device", "synchronize", "get_device_properties", "memory_stats",
    "memory_allocated", "max_memory_allocated", "reset_peak_memory_stats",
)  # fmt: skip
TRACKING = ("get_fallback_ops", "get_executed_ops", "clear_op_tracking")
ACTIVE = 3
Check = Iterator[tuple[str, bool | None, Any]]  # an assumption, whether it holds (None: not seen), what was seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="for the artefacts")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    device = Neuron()
    absence = device.absence()
    if absence is not None:
        print(f"device=neuron: {absence}", file=sys.stderr)
        return 2
    device.open()
    seen: dict[str, Any] = {"torch": torch.__version__, "torch-neuronx": importlib.metadata.version("torch-neuronx")}
    print("\n".join(f"{name} {version}" for name, version in seen.items()))
    differs = 0
    checks: list[Callable[[], Check]] = [
        package,
        lambda: profiler(device, folder, seen),
        lambda: summary(folder),
        lambda: kernels(device, folder),
        lambda: indices(device),
    ]
    for check in checks:
        for assumption, holds, found in check():
            mark = "unseen" if holds is None else "holds" if holds else "DIFFERS"
            differs += holds is False
            seen[assumption] = {"mark": mark, "seen": found}
            print(f"{mark:<8}{assumption}: {found}", flush=True)
    (folder / "first_checks.json").write_text(json.dumps(seen, indent=1, default=str))
    return int(differs > 0)


def package() -> Check:
    """Names and signatures, before anything runs."""
    profiling, neuronx = importlib.import_module("torch_neuronx.profiling"), importlib.import_module("torch_neuronx")
    config = profiling.NeuronConfig
    runtime: Any = torch.neuron  # type: ignore[attr-defined]
    native = issubclass(config, torch._C._profiler._ExperimentalConfig)
    yield "NeuronConfig is an _ExperimentalConfig, as torch.profiler demands", native, config.__mro__
    try:
        signature = str(inspect.signature(config))
    except ValueError:
        signature = inspect.getdoc(config.__init__) or ""
    known = {name: name in signature for name in ARGUMENTS}
    yield "NeuronConfig's signature has all documented arguments", all(known.values()) or None, signature
    yield "ProfileMode has the documented members", *_has(profiling.ProfileMode, MODES)
    yield "torch.neuron has what is used of it", *_has(runtime, RUNTIME)
    yield "torch_neuronx tells fallbacks", *_has(neuronx, TRACKING)
    stats = runtime.memory_stats()
    nested = isinstance(stats.get("allocated_bytes"), dict) and "peak" in stats["allocated_bytes"]
    yield "memory_stats() is nested", nested, sorted(stats)[:8]


def profiler(device: Neuron, folder: Path, seen: dict[str, Any]) -> Check:
    """A profile of the naive RMSNorm: what is in it, and whether its sums agree."""
    inputs = torch.randn(4, 512, dtype=torch.bfloat16).to("neuron"), torch.ones(512, dtype=torch.bfloat16).to("neuron")
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
    count = sum(trace.KINDS.get(event.activity_type()) == trace.DEVICE for event in events)
    yield "naive RMSNorm is six executions a call", count == 6 * ACTIVE, f"{count / ACTIVE:g} per call"
    fused(*inputs)
    device.synchronize()
    rows, events, _ = profiled(device, folder / "fused", lambda: fused(*inputs))
    count = sum(trace.KINDS.get(event.activity_type()) == trace.DEVICE for event in events)
    yield "torch.rms_norm is one execution a call", count == ACTIVE, f"{count / ACTIVE:g} per call"
    rows, _, _ = profiled(device, folder / "undrained", lambda: naive(*inputs), drain=False)
    lost = sum(row.self_device_time_total for row in rows if row.device_type == DeviceType.CPU)
    yield "without synchronize device time is lost", lost < at_operators / 2, f"{lost:.2f} of {at_operators:.2f} µs"


def summary(folder: Path) -> Check:
    """The shape and the units of neuron-explorer's summary."""
    found = neuron_explorer.Explorer(timeout_s=600).summarize(folder / "naive")
    shares = [value for name, value in found.metrics.items() if name in neuron_summary.PERCENT]
    yield "its percentages are shares of one", max(shares) <= 100 if shares else None, shares
    known = set(neuron_summary.COLUMNS) <= set(found.metrics) if found.metrics else None
    yield "neuron-explorer's summary has the documented keys", known, found.metrics or found.problems


def kernels(device: Neuron, folder: Path) -> Check:
    """NKI: a kernel of the library by itself and within a graph, and what it says of inputs that it does not take."""
    try:
        nki = importlib.import_module("nki")
        library = importlib.import_module("variants.rmsnorm_nki")
    except Exception as error:
        yield "nki is there, and torch_neuronx has nki_op", None, repr(error)
        return
    version = getattr(nki, "__version__", "?")
    yield "nki is there, and torch_neuronx has nki_op", hasattr(nki, "jit"), f"nki {version}"
    x, weight = torch.randn(4, 512).to("neuron"), torch.ones(512).to("neuron")
    right = naive(x.cpu(), weight.cpu())
    ways: dict[str, dict[str, Any] | None] = {"by itself": None, "within a graph": {}}
    for number, (way, compile) in enumerate(ways.items()):
        variant = Variant(f"kernel_{number}", library.rms_norm_kernel, compile=compile, nki=True, grid=library.CORES)
        call = bind(variant, device, torch.float32, 0, (x, weight)).function
        with torch.no_grad():
            yield f"a kernel {way} is right", torch.allclose(call(x, weight).cpu(), right, atol=1e-4), "compared"
            device.synchronize()
            rows, events, _ = profiled(device, folder / variant.name, lambda call=call: call(x, weight))
        ran = sum(trace.KINDS.get(event.activity_type()) == trace.DEVICE for event in events)
        once = ran in (ACTIVE, ACTIVE * library.CORES)
        yield f"a kernel {way} is one execution a call, on each of its cores", once, f"{ran / ACTIVE:g} per call"
        timed = {row.key: row.self_device_time_total / ACTIVE for row in rows if row.device_type == DeviceType.CPU}
        timed = {name: time for name, time in timed.items() if time}
        yield f"a kernel {way} has its device time under an operator", bool(timed), timed
        try:
            with torch.no_grad(), nki_kernel.first_call(variant, "forward"):
                call(x, weight[:-1].contiguous())
            yield f"a kernel {way} says which inputs it does not take", False, "nothing"
        except nki_kernel.UnsupportedError as refusal:
            yield f"a kernel {way} says which inputs it does not take", "weight must be" in str(refusal), str(refusal)
        except Exception as error:
            yield f"a kernel {way} says which inputs it does not take", False, repr(error)


def indices(device: Neuron) -> Check:
    """Whether the dtype of an index decides how long a gather takes."""
    values = torch.randn(1024, 1024).to("neuron")
    seconds = {}
    for dtype in (torch.int32, torch.int64):
        index = torch.zeros(1024, 1, dtype=dtype).to("neuron")
        values.gather(-1, index)
        device.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            values.gather(-1, index)
        device.synchronize()
        seconds[dtype] = (time.perf_counter() - start) / 20
    ratio = seconds[torch.int64] / seconds[torch.int32]
    yield "gather by int64 is far slower than by int32", ratio > 10 or None, f"{ratio:.3g} times as long"


WORK = {name for name, kind in trace.KINDS.items() if kind == trace.DEVICE}
KNOWN = {*trace.KINDS, "python_function", "trace", "overhead", "ac2g", "async_cpu_gpu"}


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


def _has(owner: Any, names: tuple[str, ...]) -> tuple[bool, Any]:
    missing = [name for name in names if not hasattr(owner, name)]
    return not missing, f"without {', '.join(missing)}" if missing else "all there"


def _close(left: float, right: float) -> bool:
    return max(left, right) > 0 and abs(left - right) <= 0.01 * max(left, right)


if __name__ == "__main__":
    sys.exit(main())
