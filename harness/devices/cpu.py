"""The CPU: always there, no device time of its own."""

from __future__ import annotations

import glob
import os
import platform
from pathlib import Path
from typing import Any, ClassVar

from harness.devices.base import Device


class Cpu(Device):
    """The host's processor."""

    name = "cpu"
    order = 100
    accelerator = False
    measures_peaks = True
    pinned: ClassVar = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # another device's back end would be loaded for nothing

    def absence(self) -> str | None:
        return None

    def last_level_cache(self) -> int:
        sizes = [_size(Path(path).read_text()) for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/*/size")]
        return max(sizes, default=super().last_level_cache())

    def describe(self) -> dict[str, Any]:
        import torch

        return {
            "name": model(),
            "cores": cores(),
            "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(),
        }


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    text = text.strip()
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def cores() -> int | None:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def model() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "cpu")
