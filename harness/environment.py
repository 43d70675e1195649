"""The environment of a measurement: what it ran on, what was pinned, and what troubled it."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Mapping
from typing import Any

import psutil

# glibc gives freed memory back and faults it in again at its next use; pinned, it keeps it
PINNED = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "PYTHONHASHSEED": "0",
    "NEURON_LAUNCH_BLOCKING": "0",
    "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "0",  # its default changed between versions
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # looking for a GPU must not initialise it before a fork
}

FAULTS_PER_SECOND = 20_000
STEAL_SHARE = 0.05
FOREIGN_CORES = 0.5
SLOWDOWN = 0.85


def worker_environment(own: Mapping[str, Any], device: str) -> dict[str, str]:
    """Variables to set before a measuring process imports torch.

    The user's own come first, then the shell's, then what is pinned.
    """
    pinned = dict(PINNED)
    if device in ("cpu", "cuda"):
        pinned["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return {
        **{name: value for name, value in pinned.items() if name not in os.environ},
        **{name: str(value) for name, value in own.items()},
    }


def of_process() -> dict[str, Any]:
    """What results say of a measuring process."""
    import torch  # not above: the command line uses this file, and starts without torch

    from harness.devices.cpu import model

    shown = ("OMP_", "MKL_", "MALLOC_", "TORCH", "PYTORCH", "NEURON", "XLA_", "CUDA_", "KMP_", "GOMP_")
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(),
        "cpu": model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": psutil.virtual_memory().total,
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(shown)},
    }


class Troubles:
    """What the host did to a measurement between its creation and `seen`."""

    def __init__(self) -> None:
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self._own = _own_seconds()
        self._cpu, self._clock = psutil.cpu_times(), _frequency()
        self._start = time.perf_counter()

    def busy(self) -> bool:
        """Whether other processes, or other guests of the hypervisor, used the cores."""
        steal, foreign = self._lost()
        return steal > STEAL_SHARE or foreign > FOREIGN_CORES

    def _lost(self) -> tuple[float, float]:
        """Cores that the hypervisor withheld, and that other processes used."""
        elapsed, now = max(time.perf_counter() - self._start, 1e-3), psutil.cpu_times()
        steal = (getattr(now, "steal", 0.0) - getattr(self._cpu, "steal", 0.0)) / elapsed
        busy = sum(getattr(now, kind) - getattr(self._cpu, kind) for kind in ("user", "system")) / elapsed
        return steal, busy - (_own_seconds() - self._own) / elapsed

    def seen(self) -> list[str]:
        """One line for each trouble: what was seen, its likely cause, what to try."""
        elapsed = max(time.perf_counter() - self._start, 1e-3)
        faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._faults) / elapsed
        steal, foreign = self._lost()
        troubles = []
        if faults > FAULTS_PER_SECOND:
            troubles.append(
                f"{faults:,.0f} page faults a second while timing: memory is given back and taken again; "
                "try worker.env.LD_PRELOAD with jemalloc or tcmalloc"
            )
        if steal > STEAL_SHARE:
            troubles.append(
                f"the hypervisor withheld {steal:.0%} of a core while timing: neighbours on this host; "
                "try a dedicated machine, or more latency.seconds"
            )
        if foreign > FOREIGN_CORES:
            troubles.append(
                f"other processes used {foreign:.1f} cores while timing: they share caches and cores; "
                "end them, or give latency.seconds more"
            )
        clock = _frequency()
        if clock and self._clock and clock < SLOWDOWN * self._clock:
            troubles.append(
                f"the clock fell from {self._clock:.0f} to {clock:.0f} MHz while timing: heat or power limits; "
                "try a fixed frequency, or a cooler machine"
            )
        return troubles


def _own_seconds() -> float:
    return sum(os.times()[:2])


def _frequency() -> float | None:
    try:
        current = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError):
        return None
    return float(current.current) if current and current.current else None
