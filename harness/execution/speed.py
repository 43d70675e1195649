"""Speed: how fast this machine has been in recent runs, by the yardstick, remembered from run to run."""

from __future__ import annotations

import contextlib
import platform
import time
from pathlib import Path
from typing import Any

from harness.devices.cpu import cores, model
from harness.execution import machine_cache
from harness.measure.interference import WORK
from harness.results.machine import Machine

RUNS = 20  # are remembered: a machine that has become slower for good is taken as it is after as many
SECONDS = 86_400  # for so long, since nobody says when a machine's clock, its host or its neighbours change
BOOT = "/proc/sys/kernel/random/boot_id"
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


class Speed:
    """The best yardstick of recent runs on this machine: same processor, cores, Python, governor and start.

    `remembered_s` are its seconds; None if there was no such run.
    """

    def __init__(self) -> None:
        self._identity: dict[str, Any] = {
            "node": platform.node(),
            "cpu": model(),
            "cores": cores(),
            "python": platform.python_version(),
            "governor": _text(GOVERNOR),
            "boot": _text(BOOT),
            "yardstick": WORK,
        }
        self.remembered_s = min((seconds for _, seconds in self._runs()), default=None)

    def remember(self, machine: Machine) -> None:
        """Adds the best of this run."""
        if machine.own_s is not None:
            runs = [*self._runs(), (time.time(), machine.own_s)]
            machine_cache.write("speed", self._identity, {"runs": runs[-RUNS:]})

    def _runs(self) -> list[tuple[float, float]]:
        """When, and the best of each; what is there may be anything."""
        runs = machine_cache.read("speed", self._identity).get("runs", [])
        with contextlib.suppress(TypeError, ValueError):
            return [(float(when), float(best)) for when, best in runs if time.time() - SECONDS < when <= time.time()]
        return []


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
