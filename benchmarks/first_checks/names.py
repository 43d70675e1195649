"""Names and signatures of torch-neuronx, before anything runs."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch

from first_checks import Check
from harness.devices import neuron_ls

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


def package() -> Check:
    """NeuronConfig, ProfileMode, torch.neuron and torch_neuronx."""
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
    built = getattr(runtime, "get_dynamo_metrics", getattr(neuronx, "get_dynamo_metrics", None))
    listed = None if built is None else built()
    yield "get_dynamo_metrics() is a list of graphs", isinstance(listed, list), type(listed).__name__


def instance() -> Check:
    """What neuron-ls tells of the instance."""
    listed = neuron_ls.listed()
    form = neuron_ls.FORMATS.index(listed[0]) if listed else None
    seen = "no answer" if listed is None else f"{' '.join(listed[0])}: {str(listed[1])[:400]}"
    yield "neuron-ls knows --output-format json (from Neuron 2.34 on) or -j", None if form is None else True, seen
    if listed is not None:
        yield (
            "its devices have neuron_processes",
            any(True for _ in neuron_ls.devices(listed[1])) or None,
            neuron_ls.others(),
        )


def _has(owner: Any, names: tuple[str, ...]) -> tuple[bool, Any]:
    missing = [name for name in names if not hasattr(owner, name)]
    return not missing, f"without {', '.join(missing)}" if missing else "all there"
