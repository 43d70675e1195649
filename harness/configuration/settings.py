"""Settings: how a case is measured, apart from what is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ProfileSettings:
    """How each variant is profiled; the schedule is torch.profiler's."""

    wait: int = 2
    warmup: int = 1
    active: int = 10
    record_shapes: bool = False
    with_stack: bool = False
    max_events: int = 100_000  # fewer steps are recorded where `active` would exceed it


@dataclass
class LatencySettings:
    """How long latency is sampled, and what is claimed from it."""

    processes: int = 5  # fresh processes: the least number; one process is one sample
    max_processes: int = 12
    seconds: float = 2.5  # of sampling, over all processes but the first, which also checks and profiles
    precision: float = 0.03  # half-width of a ratio's interval that ends the sampling
    confidence: float = 0.95
    min_effect: float = 0.02  # no claim for less than this, however narrow the interval
    cache: str = "warm"


@dataclass
class WorkerSettings:
    """The processes in which a case is measured."""

    env: dict[str, Any] = field(default_factory=dict)  # set before torch is imported
    threads: int | None = None
    timeout_s: float = 600.0  # for one step of one variant


@dataclass
class NeuronSettings:
    """What NeuronConfig is made from; an argument that torch-neuronx does not know is dropped."""

    modes: list[str] = field(default_factory=lambda: ["DEVICE", "RUNTIME"])
    max_events_per_nc: int | None = None
    capture_enabled_for_nc: str | None = None
    neff_cache_dir: str | None = None
    precache_node_info: bool | None = None
    correlate_device_time: bool | None = True
    explorer_timeout_s: float = 120.0  # no argument of NeuronConfig: for neuron-explorer to sum up one variant


@dataclass
class RooflineSettings:
    """What the device can do at its best; what is not given here is measured on the CPU, and unknown elsewhere."""

    flops_per_s: float | None = None  # in the dtype of the case
    bytes_per_s: float | None = None
    chips: dict[str, Any] = field(default_factory=dict)  # documented peaks, by names that a device's name contains
    chip: str | None = None  # the one of them to take, whatever the device's name
    source: str = ""  # of the documented peaks
    measure: bool = False  # measure the CPU's peaks anew


@dataclass(frozen=True)
class Settings:
    """How a case is measured, apart from what is measured."""

    profile: ProfileSettings
    latency: LatencySettings
    worker: WorkerSettings
    neuron: NeuronSettings
    roofline: RooflineSettings = field(default_factory=RooflineSettings)
    doctor: str = "refuse"
