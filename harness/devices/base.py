"""Device: the interface to a device, with a host's defaults. Imports torch within methods alone.

A device is one file with a subclass of Device. The command line, which imports no torch, asks it how to start, lock and
check a measuring process.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.devices import preflight
from harness.devices.preflight import Finding, Tool, Variable

if TYPE_CHECKING:
    import torch

    from harness.configuration.operation import Variant
    from harness.configuration.settings import RooflineSettings


TRACE = "trace.json"  # the harness's own copy, above the profiler's folders


@dataclass(frozen=True)
class Artefact:
    """One file, by its path below the variant's folder."""

    path: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Pair:
    """A device profile and the graph that decodes it; `neff` is None if no graph of its hash was captured."""

    ntff: str
    neff: str | None


@dataclass(frozen=True)
class Capture:
    """The files of one variant's profile; paths are relative to `folder`, and that to the run's folder."""

    folder: str
    files: list[Artefact]
    pairs: list[Pair]  # of the NTFFs whose names carry a hash; one of a whole session goes with every NEFF
    empty: bool  # the profiler wrote nothing at all
    problems: list[str]  # what is missing, why, and what that costs
    commands: list[str]  # to be run in the run's folder
    decodable: bool  # whether the device's tools can sum it up
    viewing: str  # how the files are viewed, in Markdown


@dataclass(frozen=True)
class Summary:
    """Activity in a capture, by column; warnings of what is not known of it, and notes on what spoils the variant."""

    metrics: dict[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class NoSettings:
    """The settings of a device that has no section of its own in the configuration."""


class Device:
    """A device by its name, which is also that of its torch device and of its section in the configuration."""

    name: str
    order: int  # the place in which `device=auto` looks for it; the lowest that is there is taken
    package: str | None = None  # what is installed for this device alone, in addition to torch
    accelerator = True  # has a clock and memory of its own, and runs asynchronously to the host
    alone = ""  # why no other run may measure meanwhile, if there is more to it than the host's load
    start_method = "forkserver"  # of measuring processes; spawn if importing torch opens the device
    builds_shapes = False  # an operator is built, for seconds, for each shape that it meets
    failed_compiles_cached = False  # so that one fails again after its cause is mended
    measures_peaks = False  # whether its peaks can be measured by timing products and copies
    compile_caches: tuple[str, ...] = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")  # variables that name them
    pinned: ClassVar[Mapping[str, str]] = {}  # variables set before torch is imported, unless the user sets them
    spoiling: tuple[Variable, ...] = ()  # variables that spoil a measurement on this device
    prefixes: tuple[str, ...] = ()  # of the names of further variables that matter to it, which results record
    Settings: type = NoSettings  # a dataclass: the section of the configuration by the device's name

    def __init__(self, settings: Any = None):
        """`settings` is an instance of `Settings`; the defaults if it is None."""
        self.settings: Any = self.Settings() if settings is None else settings

    # Before torch is imported

    @property
    def label(self) -> str:
        """Its name in tables and charts, as torch.profiler does: CUDA, NEURON."""
        return self.name.upper()

    def installed(self) -> bool:
        """Whether the device may be present, judged by installed packages alone, without importing any."""
        return self.package is None or preflight.installed(self.package)

    def scopes(self) -> tuple[str, ...]:
        """The names that a run locks: the host, whose load shows in every latency, and the device."""
        return ("host", self.name) if self.accelerator else ("host",)

    def preflight(self, environment: Mapping[str, str], variants: Sequence[Variant] = ()) -> list[Finding]:
        """Findings, from checks that cost nothing, that spoil a measurement of `variants` under `environment`."""
        return preflight.variables(self.spoiling, environment)

    def tools(self) -> list[Tool]:
        """The programs that measuring on this device uses, for the doctor to look for."""
        return [preflight.compiler()]

    def reporting(self, folder: Path) -> dict[str, str]:
        """Variables under which its compiler reports in `folder`, which exists, what it builds."""
        return {}

    def artefacts(self, folder: Path, run: Path, title: str) -> Capture | None:
        """The profiler's files in `folder`, below the `run`'s; None for a device that writes only a trace.

        `title` is what the device's own tools will call the profile.
        """
        return None

    def summarize(self, folder: Path) -> Summary:
        """The summary of the capture in `folder` by the device's own tools; never raises."""
        return Summary()

    def documented_peaks(self, settings: RooflineSettings, facts: Mapping[str, Any], dtype: str) -> dict[str, Any]:
        """`flops_per_s` in `dtype`, `bytes_per_s` and their `source`, as far as the chip's documentation gives them.

        `facts` are those of `describe`; the chip is the one of `settings.chips` that the device's name contains, unless
        `settings.chip` names it.
        """
        called = str(facts.get("name")).lower()
        name = settings.chip or next((chip for chip in settings.chips if chip in called), None)
        if name is None:
            return {}
        chip = settings.chips[name]
        share, assumption = self.share_of_chip(chip, facts)
        flops = chip["flops_per_s"].get(dtype)
        return {
            "flops_per_s": flops and share * flops,
            "bytes_per_s": share * chip["bytes_per_s"],
            "source": f"{settings.source}: {name}{assumption}",
        }

    def share_of_chip(self, chip: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[float, str]:
        """The share of its chip's peaks that the device has, and an assumption to add to their source (or "")."""
        return 1.0, ""

    # Where torch is imported

    def absence(self) -> str | None:
        """Why the device cannot be used, and what to do; None if it can."""
        raise NotImplementedError

    def open(self) -> None:
        """Takes the device; raises UsageError, which says what to do, if it is there but cannot be used."""

    def limits(self) -> list[str]:
        """A line for each thing that this installation cannot measure."""
        return []

    def torch_device(self) -> torch.device:
        """Where tensors are put."""
        import torch

        return torch.device(self.name)

    def synchronize(self) -> None:
        """Waits until all work that was given to the device has run."""

    def failures_linger(self) -> bool:
        """Whether what has just failed makes, or may make, the next operation of this process fail as well."""
        return False

    def get_rng_state(self) -> list[torch.Tensor]:
        """The states of all generators that an operation on this device may draw from: the CPU's first."""
        import torch

        module = torch.get_device_module(self.torch_device()) if self.accelerator else None
        own = getattr(module, "get_rng_state", None)
        return [torch.get_rng_state()] + ([own()] if own is not None else [])

    def set_rng_state(self, state: Sequence[torch.Tensor]) -> None:
        """Puts back what `get_rng_state` returned."""
        import torch

        torch.set_rng_state(state[0])
        for own in state[1:]:
            torch.get_device_module(self.torch_device()).set_rng_state(own)

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        """The activities that torch.profiler records."""
        import torch

        return [torch.profiler.ProfilerActivity.CPU]

    def profiler_arguments(self, folder: Path) -> tuple[dict[str, Any], list[str]]:
        """Further arguments for torch.profiler.profile, and notes on those that had to be left out."""
        return {}, []

    def export(self, profile: torch.profiler.profile, folder: Path) -> None:
        """Writes `trace.json`, in Chrome trace format, into `folder`, which exists."""
        path = folder / TRACE
        named = json.dumps(str(path), ensure_ascii=False)
        if named == f'"{path}"':
            profile.export_chrome_trace(str(path))
            return
        with tempfile.TemporaryDirectory(prefix="harness-") as plain:  # Kineto opens no name that holds a line break
            exported = Path(plain, TRACE)
            profile.export_chrome_trace(str(exported))
            text = exported.read_text(encoding="utf-8", errors="replace")
        path.write_text(text.replace(f'"{exported}"', named), encoding="utf-8")  # it wrote its path into the JSON

    def compile_arguments(self) -> dict[str, Any]:
        """Default arguments of torch.compile, which a variant can override."""
        return {"backend": "inductor", "dynamic": False}

    def dtype_warnings(self, dtypes: Collection[torch.dtype]) -> list[str]:
        """A line for each dtype of the inputs that the device is slow with, or does not keep, with one to take."""
        return []

    def built(self) -> int | None:
        """How many programs its own compiler has built in this process; None if it has none or does not say."""
        return None

    def ran_eagerly(self, operators: Sequence[str]) -> str | None:
        """Why a compiled graph was none in which these operators launched work of their own; None if graphs do that."""
        return None

    def reset_peak_memory(self) -> None:
        """Starts a new peak."""

    def peak_memory(self) -> int | None:
        """The most bytes allocated since the last reset, or None if the device does not report it."""
        return None

    def allocated_memory(self) -> int:
        """Bytes allocated now."""
        return 0

    def executed(self) -> frozenset[str]:
        """The operators that ran on it since `clear_fallbacks`, by name; empty if it does not report them."""
        return frozenset()

    def clear_fallbacks(self) -> None:
        """Forgets the operators that fell back to the CPU so far."""

    def fallbacks(self) -> list[str]:
        """Operators that silently ran on the CPU since `clear_fallbacks`."""
        return []

    def missing_time(self) -> str:
        """The likely cause and the remedy if a profile has no device time."""
        return "the profiler recorded no device time"

    def last_level_cache(self) -> int:
        """Bytes of the cache that lies before the device's memory."""
        return 64 << 20

    def describe(self) -> dict[str, Any]:
        """Facts about the hardware, by name; `name` is the hardware's own."""
        return {"name": self.name}

    def facts(self) -> dict[str, Any]:
        """The device in results.json: its hardware, and the properties of its kind that reports need."""
        return {
            **self.describe(),
            "device": self.name,
            "label": self.label,
            "accelerator": self.accelerator,
        }
