"""Interference of the host with a measurement: page faults, stolen time, background load, a falling clock."""

from __future__ import annotations

import os
import resource
import time

import psutil

FAULTS_PER_SECOND = 20_000
STEAL_SHARE = 0.05
BACKGROUND_CORES = 0.5
SLOWDOWN = 0.85


class Interference:
    """Monitors the host from its creation on."""

    def __init__(self) -> None:
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self._own = _own_seconds()
        self._cpu = psutil.cpu_times()
        self._clock = _frequency()
        self._start = time.perf_counter()

    def busy(self) -> bool:
        """Whether other processes, or other guests of the hypervisor, used the cores."""
        steal, background = self._lost()
        return steal > STEAL_SHARE or background > BACKGROUND_CORES

    def _lost(self) -> tuple[float, float]:
        """Cores that the hypervisor withheld, and that other processes used."""
        elapsed = max(time.perf_counter() - self._start, 1e-3)
        now = psutil.cpu_times()
        steal = (getattr(now, "steal", 0.0) - getattr(self._cpu, "steal", 0.0)) / elapsed
        busy = sum(getattr(now, kind) - getattr(self._cpu, kind) for kind in ("user", "system")) / elapsed
        return steal, busy - (_own_seconds() - self._own) / elapsed

    def warnings(self) -> list[str]:
        """A warning for each kind of interference, with its likely cause and a remedy."""
        elapsed = max(time.perf_counter() - self._start, 1e-3)
        faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._faults) / elapsed
        steal, background = self._lost()
        lines = []
        if faults > FAULTS_PER_SECOND:
            lines.append(
                f"{faults:,.0f} page faults a second while timing: memory is given back and taken again; "
                "try worker.env.LD_PRELOAD with jemalloc or tcmalloc"
            )
        if steal > STEAL_SHARE:
            lines.append(
                f"the hypervisor withheld {steal:.0%} of a core while timing: noisy neighbours on this host; "
                "try a dedicated machine, or more latency.seconds"
            )
        if background > BACKGROUND_CORES:
            lines.append(
                f"other processes used {background:.1f} cores while timing: they share caches and cores; "
                "end them, or raise latency.seconds"
            )
        clock = _frequency()
        if clock and self._clock and clock < SLOWDOWN * self._clock:
            lines.append(
                f"the clock fell from {self._clock:.0f} to {clock:.0f} MHz while timing: heat or power limits; "
                "try a fixed frequency, or a cooler machine"
            )
        return lines


def _own_seconds() -> float:
    return sum(os.times()[:2])


def _frequency() -> float | None:
    try:
        current = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError):
        return None
    return float(current.current) if current and current.current else None
