"""AWS Trainium through TorchNeuron: NeuronConfig, NeuronProfiler and torch.neuron.

Written against the documented contract of torch-neuronx 2.13; docs/neuron.md tells fact from assumption.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from harness.devices.base import Device
from harness.errors import UsageError, one_line

if TYPE_CHECKING:
    from harness.config import NeuronSettings

INSTALL = "install torch-neuronx 2.13 or later from AWS's own package index, as its TorchNeuron install page says"


class Neuron(Device):
    """One logical NeuronCore."""

    name = "neuron"
    processes = 1  # opening a core is slow, and its compiled graphs live with the process

    def absence(self) -> str | None:
        return absent_package() or self._absent_core()

    def _absent_core(self) -> str | None:
        runtime = getattr(torch, "neuron", None)
        if runtime is None:
            cause = "TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set" if not _autoload() else "its backend did not load"
            return f"torch-neuronx is installed, but torch has no torch.neuron: {cause}; {INSTALL}"
        try:
            if runtime.is_available() and runtime.device_count() > 0:
                return None
        except RuntimeError as error:
            return f"the Neuron runtime did not start: {one_line(error)}; see python -m harness.doctor"
        return "torch.neuron finds no NeuronCore; check neuron-ls and NEURON_RT_VISIBLE_CORES"

    def torch_device(self) -> torch.device:
        if os.environ.get("NEURON_RT_INSPECT_ENABLE") == "1":
            raise UsageError(
                "NEURON_RT_INSPECT_ENABLE=1: the runtime's own capture and torch.profiler exclude each other; unset it"
            )
        return super().torch_device()

    def synchronize(self) -> None:
        torch.neuron.synchronize()

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        return [*super().activities(), torch.profiler.ProfilerActivity.PrivateUse1]

    def profiler_arguments(self, folder: Path, settings: NeuronSettings) -> tuple[dict[str, Any], list[str]]:
        profiling = importlib.import_module("torch_neuronx.profiling")
        wanted = {key: value for key, value in asdict(settings).items() if value is not None}
        modes, notes = _modes(profiling.ProfileMode, wanted.pop("modes"))
        config, dropped = _accepted(
            profiling.NeuronConfig, {**wanted, "modes": modes, "profile_output_dir": str(folder)}
        )
        self._profiler = profiling.NeuronProfiler(config)
        return {"experimental_config": config}, notes + [
            f"NeuronConfig of torch-neuronx {_version()} does not know {name}: left out" for name in dropped
        ]

    def export(self, profile: torch.profiler.profile, folder: Path) -> None:
        # the callback writes trace.json beside the runtime's own files; a profile can be exported once
        self._profiler.export_trace(profile)
        written = sorted(folder.rglob("trace.json"), key=lambda path: path.stat().st_mtime_ns)
        if not written:
            raise FileNotFoundError("NeuronProfiler.export_trace wrote no trace.json")
        if written[-1].parent != folder:
            shutil.copyfile(written[-1], folder / "trace.json")

    def compile_arguments(self) -> dict[str, Any]:
        return {"backend": "neuron", "fullgraph": True, "dynamic": False}

    def reset_peak_memory(self) -> None:
        torch.neuron.reset_peak_memory_stats()

    def peak_memory(self) -> int | None:
        try:
            return int(torch.neuron.max_memory_allocated())
        except (AttributeError, RuntimeError):
            return self._stat("peak")

    def allocated_memory(self) -> int:
        return self._stat("current") or 0

    def _stat(self, name: str) -> int | None:
        try:
            stats = torch.neuron.memory_stats()
            return int(stats["allocated_bytes"][name])
        except (AttributeError, KeyError, RuntimeError, TypeError):
            return None

    def clear_fallbacks(self) -> None:
        clear = getattr(importlib.import_module("torch_neuronx"), "clear_op_tracking", None)
        if clear is not None:
            clear()

    def fallbacks(self) -> list[str]:
        tracked = getattr(importlib.import_module("torch_neuronx"), "get_fallback_ops", None)
        return sorted(map(str, tracked())) if tracked is not None else []

    def missing_time(self) -> str:
        return (
            "no operator carries NEURON time: NeuronConfig without correlate_device_time, a profiler plug-in "
            "that is not registered, or work not drained before the step; try neuron.correlate_device_time=true, "
            "and python -m harness.doctor"
        )

    def last_level_cache(self) -> int:
        return 32 << 20  # the largest SBUF of a core: Trn3

    def describe(self) -> dict[str, Any]:
        properties = torch.neuron.get_device_properties(torch.neuron.current_device())
        return {
            "name": str(properties.name),
            "total_memory_bytes": int(properties.total_memory),
            "torch_neuronx": _version(),
            "logical_core_config": os.environ.get("NEURON_LOGICAL_NC_CONFIG"),
        }


def absent_package() -> str | None:
    """Why the installed torch-neuronx, if any, is not TorchNeuron."""
    if importlib.util.find_spec("torch_neuronx") is None:
        return f"no package torch_neuronx is installed; {INSTALL}"
    version = _version()
    try:
        importlib.import_module("torch_neuronx")
    except ImportError as error:
        if "WRONG PACKAGE" in str(error):
            return f"torch-neuronx {version} from PyPI is a stub (WRONG PACKAGE), not the real wheel; {INSTALL}"
        return f"torch_neuronx does not import: {one_line(error)}; {INSTALL}"
    except Exception as error:  # a core in use, a driver that is missing: whatever the runtime raises
        return f"torch_neuronx does not load: {one_line(error)}; see python -m harness.doctor"
    if not hasattr(torch, "neuron") and importlib.util.find_spec("torch_neuronx.profiling") is None:
        return f"torch-neuronx {version} is the older XLA package, which has no torch.neuron; {INSTALL}"
    return None


def _version() -> str:
    try:
        return importlib.metadata.version("torch-neuronx")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _autoload() -> bool:
    return os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"


def _modes(known: Any, names: list[str]) -> tuple[list[Any], list[str]]:
    """The members of ProfileMode that there are, and a note on each that there is not."""
    there = [getattr(known, name) for name in names if hasattr(known, name)]
    notes = [f"ProfileMode has no {name}: left out" for name in names if not hasattr(known, name)]
    return there, notes


def _accepted(make: Any, arguments: dict[str, Any]) -> tuple[Any, list[str]]:
    """`make(**arguments)` without the arguments that it does not know, and their names."""
    dropped: list[str] = []
    while True:
        try:
            return make(**arguments), dropped
        except TypeError as error:
            unknown = re.search(r"unexpected keyword argument '?(\w+)'?", str(error))
            if unknown is None or unknown[1] not in arguments:
                raise
            dropped.append(unknown[1])
            arguments = {name: value for name, value in arguments.items() if name != unknown[1]}
