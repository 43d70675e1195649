"""AWS Trainium through TorchNeuron: NeuronConfig, NeuronProfiler, torch.neuron, and what spoils a measurement there.

Written against the documentation of torch-neuronx 2.13; docs/neuron.md lists what is documented and what is assumed.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.configuration.errors import UsageError, one_line
from harness.configuration.settings import setting, valid
from harness.devices import neuron_artefacts, neuron_compiles, neuron_explorer, neuron_ls
from harness.devices.base import TRACE, Capture, Device, Summary
from harness.devices.neuron_package import absent, accepted, known_modes, mismatch, version
from harness.devices.preflight import Finding, Tool, Variable

if TYPE_CHECKING:
    import torch

    from harness.configuration.operation import Variant

PROFILE_MODES = ("DEVICE", "RUNTIME", "CPU_UTIL", "HOST_MEMORY")
HELD = "end the process that holds it, or choose another core by NEURON_RT_VISIBLE_CORES"
DISPATCH = "dispatch from several busy cores of an instance slows small shapes, 8 to 11 times as a third party measured"
EAGER = "a graph that fails is run eagerly under the compiled name, without a warning"
PERMISSION = "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"
FALLBACK = "fallback_execution"  # an option of torch.compile's back end

VARIABLES = (
    Variable("NEURON_RT_INSPECT_ENABLE", "the runtime's own capture and torch.profiler exclude each other"),
    Variable("NEURON_LAUNCH_BLOCKING", "every launch waits for its execution, which no real program does"),
    Variable(PERMISSION, EAGER, on=False),
    Variable(
        "TORCH_DEVICE_BACKEND_AUTOLOAD",
        "torch does not load torch-neuronx by itself: what a variant starts in processes of its own has no such device",
        unfit=False,
        on=False,
    ),
)


@dataclass
class NeuronSettings:
    """The arguments of NeuronConfig; one that torch-neuronx does not know is dropped."""

    modes: list[str] = field(default_factory=lambda: ["DEVICE", "RUNTIME"], metadata=valid(choices=PROFILE_MODES))
    max_events_per_nc: int | None = None
    capture_enabled_for_nc: str | None = None
    neff_cache_dir: str | None = None
    precache_node_info: bool | None = None
    correlate_device_time: bool | None = True
    explorer_timeout_s: float = setting(120.0, above=0)


class Neuron(Device):
    """One logical NeuronCore."""

    name = "neuron"
    order = 10
    package = "torch_neuronx"
    alone = "one run at a time on an instance, whatever core it takes: cores that dispatch side by side slow each other"
    failed_compiles_cached = True
    builds_shapes = True
    start_method = "spawn"  # importing torch loads the runtime: a core must not be opened before a fork
    compile_caches = neuron_compiles.CACHES
    pinned: ClassVar = {
        "NEURON_LAUNCH_BLOCKING": "0",
        PERMISSION: "1",  # of compiled graphs; its default changed between versions
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
    }
    spoiling = VARIABLES
    prefixes = ("NEURON", "NKI_", "XLA_")
    Settings = NeuronSettings

    def __init__(self, settings: NeuronSettings | None = None) -> None:
        super().__init__(settings)
        self._untimed = ""  # why no operator can have device time, if known in advance
        self._explorer = neuron_explorer.Explorer(self.settings.explorer_timeout_s)

    @property
    def _runtime(self) -> Any:
        """torch.neuron, which is there only after torch_neuronx was loaded."""
        import torch

        return getattr(torch, "neuron", None)

    def preflight(self, environment: Mapping[str, str], variants: Sequence[Variant] = ()) -> list[Finding]:
        options = [
            Finding(
                f"op.variants.{variant.name}.compile.options.{FALLBACK}={variant.compile['options'][FALLBACK]}",
                EAGER,
                "leave it out",
            )
            for variant in variants
            if variant.compile and (variant.compile.get("options") or {}).get(FALLBACK)
        ]
        others = [
            Finding(f"{neuron_ls.PROGRAM} lists {holder}", DISPATCH, "measure when it has ended", unfit=False)
            for holder in neuron_ls.others()
        ]
        return [*super().preflight(environment, variants), *mismatch(), *options, *others]

    def tools(self) -> list[Tool]:
        remedy = "install aws-neuronx-tools, and put /opt/aws/neuron/bin on the PATH"
        return [
            Tool(neuron_ls.PROGRAM, "which cores there are, and who holds them, cannot be listed", remedy),
            Tool(
                neuron_explorer.PROGRAM,
                "engine activity stays out of the tables, and captures cannot be viewed here",
                remedy,
            ),
        ]

    def reporting(self, folder: Path) -> dict[str, str]:
        return neuron_compiles.reporting(folder)

    def artefacts(self, folder: Path, run: Path, title: str) -> Capture:
        return neuron_artefacts.inventory(folder, run, self.settings.modes, title)

    def summarize(self, folder: Path) -> Summary:
        return self._explorer.summarize(folder)

    def documented_peaks(self, settings: Any, facts: Mapping[str, Any], dtype: str) -> dict[str, Any]:
        called = str(facts.get("name")).lower().replace("trainium", "trn")
        return super().documented_peaks(settings, {**facts, "name": called}, dtype)

    def share_of_chip(self, chip: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[float, str]:
        cores = int(facts.get("logical_core_config") or chip["logical_core"])
        assumption = f"; one logical core is assumed to be {cores} of its {chip['cores']} cores"
        return cores / chip["cores"], assumption

    def absence(self) -> str | None:
        return absent() or self._absent_core()

    def _absent_core(self) -> str | None:
        if self._runtime is None:
            autoload = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"
            cause = "its backend did not load" if autoload else "TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set; unset it"
            return f"torch-neuronx {version()} is installed, but torch has no torch.neuron: {cause}"
        try:
            if self._runtime.is_available() and self._runtime.device_count() > 0:
                return None
        except RuntimeError as error:
            return f"the Neuron runtime did not start: {one_line(error)}; see python -m harness.doctor"
        return "torch.neuron finds no NeuronCore; check neuron-ls and NEURON_RT_VISIBLE_CORES"

    def open(self) -> None:
        import torch

        try:
            self._runtime.current_device()
            torch.empty(1, device=self.torch_device())  # a runtime that is lazy opens the core here
            self.synchronize()
        except RuntimeError as error:
            seen = "; ".join(map(str, neuron_ls.others())) or f"{neuron_ls.PROGRAM} shows which process holds a core"
            why = f"device=neuron: the NeuronCore does not open: {one_line(error)}"
            raise UsageError(f"{why}; {seen}: {HELD}") from error

    def limits(self) -> list[str]:
        package = importlib.import_module("torch_neuronx")
        limits = []
        if not hasattr(package, "get_fallback_ops"):
            limits.append("has no get_fallback_ops: an operator that falls back to the CPU goes unseen")
        if self.peak_memory() is None:
            limits.append("reports no memory statistics: peak memory stays empty")
        return [f"torch-neuronx {version()} {limit}; a later version may" for limit in limits]

    def synchronize(self) -> None:
        self._runtime.synchronize()

    def failures_linger(self) -> bool:
        return True  # a compile that failed leaves an error that the next operation raises

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        import torch

        return [*super().activities(), torch.profiler.ProfilerActivity.PrivateUse1]

    def profiler_arguments(self, folder: Path) -> tuple[dict[str, Any], list[str]]:
        profiling = importlib.import_module("torch_neuronx.profiling")
        wanted = {key: value for key, value in asdict(self.settings).items() if value is not None}
        wanted.pop("explorer_timeout_s")  # the one setting that is the harness's own
        modes, notes = known_modes(profiling.ProfileMode, wanted.pop("modes"))
        config, dropped = accepted(
            profiling.NeuronConfig, {**wanted, "modes": modes, "profile_output_dir": str(folder)}
        )
        if self.settings.correlate_device_time is False:
            self._untimed = "neuron.correlate_device_time=false keeps it from the operators; set it to true"
        elif "correlate_device_time" in dropped:
            self._untimed = f"torch-neuronx {version()} does not know correlate_device_time; install a later version"
        self._profiler = profiling.NeuronProfiler(config)
        return {"experimental_config": config}, notes + [
            f"NeuronConfig of torch-neuronx {version()} does not know {name}: left out" for name in dropped
        ]

    def export(self, profile: torch.profiler.profile, folder: Path) -> None:
        self._profiler.export_trace(profile)  # writes trace.json next to the runtime's own files
        written = sorted(folder.rglob(TRACE), key=lambda path: path.stat().st_mtime_ns)
        if not written:  # a capture that failed: torch's part of the profile can still be exported
            super().export(profile, folder)
        elif written[-1].parent != folder:
            shutil.copyfile(written[-1], folder / TRACE)

    def compile_arguments(self) -> dict[str, Any]:
        return {"backend": "neuron", "fullgraph": True, "dynamic": False}

    def dtype_warnings(self, dtypes: Collection[torch.dtype]) -> list[str]:
        import torch

        lines = {
            torch.int64: "an input is of int64: if it holds indices, their dtype decides on Trainium, where gather by "
            "int64 was measured 76 to 731 times slower than by int32; make it int32 (op.index_dtype=int32, if "
            "op.inputs takes it)",
            torch.float64: "an input is of float64, which becomes float32 on Trainium, as a third party saw: what is "
            "compared as float64 is then wrong; measure dtype=float32",
        }
        return [line for dtype, line in lines.items() if dtype in dtypes]

    def built(self) -> int | None:
        return neuron_compiles.built(self._runtime)

    def ran_eagerly(self, operators: Sequence[str]) -> str | None:
        if not operators:
            return None
        return (
            f"its graph failed and was run eagerly: {', '.join(operators)} ran one by one within it; see "
            f"{PERMISSION} and compile.options.{FALLBACK}"
        )

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

    def executed(self) -> frozenset[str]:
        tracked = getattr(importlib.import_module("torch_neuronx"), "get_executed_ops", None)
        return frozenset(map(str, tracked())) if tracked is not None else frozenset()

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
            "torch_neuronx": version(),
            "nki": version("nki"),
            "logical_core_config": os.environ.get("NEURON_LOGICAL_NC_CONFIG"),
        }
