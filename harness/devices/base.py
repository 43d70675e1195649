"""Device: what measuring needs of an accelerator, and what the CPU answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from harness.configuration.settings import NeuronSettings


class Device:
    """A device by its torch name; the defaults are those of a device without a clock or memory of its own."""

    name: str
    accelerator = True

    def absence(self) -> str | None:
        """Why the device cannot be used: what was looked for, and what to do. None: it can."""
        raise NotImplementedError

    def open(self) -> None:
        """Takes the device; raises UsageError, which says what to do, where it is there but cannot be used."""

    def limits(self) -> list[str]:
        """What this installation cannot tell of a measurement: a line each."""
        return []

    def torch_device(self) -> torch.device:
        """Where tensors are put."""
        return torch.device(self.name)

    def synchronize(self) -> None:
        """Waits until all work that was given to the device has run."""

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        """What torch.profiler records."""
        return [torch.profiler.ProfilerActivity.CPU]

    def profiler_arguments(self, folder: Path, settings: NeuronSettings) -> tuple[dict[str, Any], list[str]]:
        """Arguments for torch.profiler.profile besides the schedule, and notes on what had to be left out."""
        return {}, []

    def export(self, profile: torch.profiler.profile, folder: Path) -> None:
        """Writes `trace.json`, in Chrome trace format, into `folder`, which exists."""
        path = folder / "trace.json"
        profile.export_chrome_trace(str(path))
        if json.dumps(str(path), ensure_ascii=False) != f'"{path}"':  # Kineto writes the path as it is into the JSON
            text = path.read_text(encoding="utf-8", errors="replace")
            path.write_text(text.replace(f'"{path}"', json.dumps(str(path))), encoding="utf-8")

    def compile_arguments(self) -> dict[str, Any]:
        """What torch.compile is given unless a variant says otherwise."""
        return {"backend": "inductor", "dynamic": False}

    def reset_peak_memory(self) -> None:
        """Starts a new peak."""

    def peak_memory(self) -> int | None:
        """The most bytes allocated since the last reset, or None where the device does not tell."""
        return None

    def allocated_memory(self) -> int:
        """Bytes allocated now."""
        return 0

    def clear_fallbacks(self) -> None:
        """Forgets the operators that fell back to the CPU so far."""

    def fallbacks(self) -> list[str]:
        """Operators that silently ran on the CPU since `clear_fallbacks`."""
        return []

    def missing_time(self) -> str:
        """The likely cause and the remedy where a profile has no device time."""
        return "the profiler recorded no device time"

    def last_level_cache(self) -> int:
        """Bytes of the cache that lies before the device's memory."""
        return 64 << 20

    def describe(self) -> dict[str, Any]:
        """What results say of the device."""
        return {"name": self.name}
