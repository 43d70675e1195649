"""CUDA devices, through torch.cuda and Kineto's CUDA activities."""

from __future__ import annotations

from typing import Any

import torch

from harness.devices.base import Device


class Cuda(Device):
    """The current NVIDIA GPU."""

    name = "cuda"

    def absence(self) -> str | None:
        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} is built without CUDA; install a CUDA build of torch"
        if not torch.cuda.is_available():
            return "torch.cuda finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES"
        return None

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        return [*super().activities(), torch.profiler.ProfilerActivity.CUDA]

    def reset_peak_memory(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def peak_memory(self) -> int | None:
        return torch.cuda.max_memory_allocated()

    def allocated_memory(self) -> int:
        return torch.cuda.memory_allocated()

    def missing_time(self) -> str:
        return "CUPTI gave no kernels; check that no other profiler runs and that the driver permits profiling"

    def last_level_cache(self) -> int:
        return int(torch.cuda.get_device_properties(0).L2_cache_size)

    def describe(self) -> dict[str, Any]:
        properties = torch.cuda.get_device_properties(0)
        return {
            "name": properties.name,
            "total_memory_bytes": properties.total_memory,
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
        }
