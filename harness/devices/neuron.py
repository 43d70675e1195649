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

from harness.configuration.errors import UsageError, one_line
from harness.devices.base import Device

if TYPE_CHECKING:
    from harness.configuration.settings import NeuronSettings

INSTALL = "install torch-neuronx 2.13 or later from AWS's own package index, as its TorchNeuron install page says"
HELD = "neuron-ls shows which process holds a core: end it, or choose another core by NEURON_RT_VISIBLE_CORES"


class Neuron(Device):
    """One logical NeuronCore."""

    name = "neuron"

    def __init__(self) -> None:
        self._untimed = ""  # why no operator can carry device time, where that is known beforehand

    @property
    def _runtime(self) -> Any:
        """torch.neuron, which is there only after torch_neuronx was loaded."""
        return getattr(torch, "neuron", None)

    def absence(self) -> str | None:
        return absent_package() or self._absent_core()

    def _absent_core(self) -> str | None:
        if self._runtime is None:
            autoload = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"
            cause = "its backend did not load" if autoload else "TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set; unset it"
            return f"torch-neuronx {_version()} is installed, but torch has no torch.neuron: {cause}"
        try:
            if self._runtime.is_available() and self._runtime.device_count() > 0:
                return None
        except RuntimeError as error:
            return f"the Neuron runtime did not start: {one_line(error)}; see python -m harness.doctor"
        return "torch.neuron finds no NeuronCore; check neuron-ls and NEURON_RT_VISIBLE_CORES"

    def open(self) -> None:
        try:
            self._runtime.current_device()
            torch.empty(1, device=self.torch_device())  # a runtime that is lazy opens the core here
            self.synchronize()
        except RuntimeError as error:
            raise UsageError(f"device=neuron: the NeuronCore does not open: {one_line(error)}; {HELD}") from error

    def limits(self) -> list[str]:
        package, found = importlib.import_module("torch_neuronx"), []
        if not hasattr(package, "get_fallback_ops"):
            found.append("has no get_fallback_ops: an operator that falls back to the CPU goes unseen")
        if self.peak_memory() is None:
            found.append("does not tell memory statistics: peak memory stays empty")
        return [f"torch-neuronx {_version()} {limit}; a later version may" for limit in found]

    def synchronize(self) -> None:
        self._runtime.synchronize()

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        return [*super().activities(), torch.profiler.ProfilerActivity.PrivateUse1]

    def profiler_arguments(self, folder: Path, settings: NeuronSettings) -> tuple[dict[str, Any], list[str]]:
        profiling = importlib.import_module("torch_neuronx.profiling")
        wanted = {key: value for key, value in asdict(settings).items() if value is not None}
        wanted.pop("explorer_timeout_s")  # the one setting that is the harness's own
        modes, notes = _modes(profiling.ProfileMode, wanted.pop("modes"))
        config, dropped = _accepted(
            profiling.NeuronConfig, {**wanted, "modes": modes, "profile_output_dir": str(folder)}
        )
        if settings.correlate_device_time is False:
            self._untimed = "neuron.correlate_device_time=false keeps it from the operators; set it to true"
        elif "correlate_device_time" in dropped:
            self._untimed = f"torch-neuronx {_version()} does not know correlate_device_time; install a later version"
        self._profiler = profiling.NeuronProfiler(config)
        return {"experimental_config": config}, notes + [
            f"NeuronConfig of torch-neuronx {_version()} does not know {name}: left out" for name in dropped
        ]

    def export(self, profile: torch.profiler.profile, folder: Path) -> None:
        self._profiler.export_trace(profile)  # writes trace.json beside the runtime's own files
        written = sorted(folder.rglob("trace.json"), key=lambda path: path.stat().st_mtime_ns)
        if not written:  # a capture that failed: torch's part of the profile is still to be had
            super().export(profile, folder)
        elif written[-1].parent != folder:
            shutil.copyfile(written[-1], folder / "trace.json")

    def compile_arguments(self) -> dict[str, Any]:
        return {"backend": "neuron", "fullgraph": True, "dynamic": False}

    def reset_peak_memory(self) -> None:
        reset = getattr(self._runtime, "reset_peak_memory_stats", None)
        if reset is not None:
            reset()

    def peak_memory(self) -> int | None:
        # without a reset, or without what was there before, the peak is not that of one call
        if not hasattr(self._runtime, "reset_peak_memory_stats") or self._memory("memory_allocated", "current") is None:
            return None
        return self._memory("max_memory_allocated", "peak")

    def allocated_memory(self) -> int:
        return self._memory("memory_allocated", "current") or 0

    def _memory(self, function: str, statistic: str) -> int | None:
        """Bytes, from the function of torch.neuron or else from its nested statistics."""
        try:
            return int(getattr(self._runtime, function)())
        except (AttributeError, RuntimeError):
            pass
        try:
            return int(self._runtime.memory_stats()["allocated_bytes"][statistic])
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
        return self._untimed or (
            "the profiler plug-in is not registered, or device work was not waited for before the step ended; "
            "install the torch-neuronx that belongs to this torch, and see python -m harness.doctor device=neuron"
        )

    def last_level_cache(self) -> int:
        return 32 << 20  # the largest SBUF of a core: Trn3

    def describe(self) -> dict[str, Any]:
        properties = self._runtime.get_device_properties(self._runtime.current_device())
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
        if "torch_xla" in str(error):
            return f"torch-neuronx {version} is the older XLA package ({one_line(error)}); {INSTALL}"
        return f"torch_neuronx does not import: {one_line(error)}; {INSTALL}"
    except Exception as error:  # a driver that is missing: whatever the runtime raises
        return f"torch_neuronx does not load: {one_line(error)}; see python -m harness.doctor"
    if not hasattr(torch, "neuron") and importlib.util.find_spec("torch_neuronx.profiling") is None:
        return f"torch-neuronx {version} is the older XLA package, which has no torch.neuron; {INSTALL}"
    return None


def _version() -> str:
    try:
        return importlib.metadata.version("torch-neuronx")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _modes(known: Any, names: list[str]) -> tuple[list[Any], list[str]]:
    """The members of ProfileMode that there are, and a note on each that there is not."""
    there = [getattr(known, name) for name in names if hasattr(known, name)]
    notes = [
        f"ProfileMode of torch-neuronx {_version()} has no {name}: left out"
        for name in names
        if not hasattr(known, name)
    ]
    return there, notes


def _accepted(make: Any, arguments: dict[str, Any]) -> tuple[Any, list[str]]:
    """`make(**arguments)` without the arguments that it does not know, and their names."""
    dropped: list[str] = []
    while True:
        try:
            return make(**arguments), dropped
        except TypeError as error:
            unknown = _refused(str(error), list(arguments))
            if not unknown:
                raise
            dropped += unknown
            arguments = {name: value for name, value in arguments.items() if name not in unknown}


def _refused(message: str, names: list[str]) -> list[str]:
    """Those of the names that a TypeError says are not known: Python names one, pybind11 lists what it would take."""
    python = re.search(r"unexpected keyword argument '?(\w+)'?", message)
    if python is not None:
        return [name for name in names if name == python[1]]
    if "incompatible constructor arguments" not in message:
        return []
    signatures = message.partition("Invoked with")[0]
    return [name for name in names if not re.search(rf"\b{name}:", signatures)]
