"""CUDA devices, through torch.cuda and Kineto's CUDA activities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.configuration.errors import UsageError, one_line
from harness.devices.base import Device
from harness.devices.preflight import Variable

if TYPE_CHECKING:
    import torch


class Cuda(Device):
    """The current NVIDIA GPU."""

    name = "cuda"
    order = 20
    pinned: ClassVar = {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # another device's back end would be loaded for nothing
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # looking for a GPU must not initialise it before a fork
    }
    spoiling = (
        Variable("CUDA_LAUNCH_BLOCKING", "every launch waits for its kernel, which no real program does"),
        Variable("PYTORCH_NO_CUDA_MEMORY_CACHING", "every tensor costs a call of the driver's allocator"),
        Variable("TRITON_INTERPRET", "Triton's kernels, those of compiled variants too, are interpreted in Python"),
    )
    prefixes = ("CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TRITON_")

    def absence(self) -> str | None:
        import torch

        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} is built without CUDA; install a CUDA build of torch"
        if not torch.cuda.is_available():
            return "torch.cuda finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES"
        return None

    def open(self) -> None:
        import torch

        try:
            torch.empty(1, device=self.torch_device())  # makes the process's context, which takes some memory
            self.synchronize()
        except RuntimeError as error:
            raise UsageError(
                f"device=cuda: the GPU does not open: {one_line(error)}; end the process that holds it, which "
                "nvidia-smi shows, or choose another by CUDA_VISIBLE_DEVICES"
            ) from error

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def failures_linger(self) -> bool:
        try:
            self.synchronize()  # raises the error again, if it is one that a process does not recover from
        except RuntimeError:
            return True
        return False

    def activities(self) -> list[torch.profiler.ProfilerActivity]:
        import torch

        return [*super().activities(), torch.profiler.ProfilerActivity.CUDA]

    def reset_peak_memory(self) -> None:
        import torch

        torch.cuda.reset_peak_memory_stats()

    def peak_memory(self) -> int | None:
        import torch

        return torch.cuda.max_memory_allocated()

    def allocated_memory(self) -> int:
        import torch

        return torch.cuda.memory_allocated()

    def missing_time(self) -> str:
        return "CUPTI gave no kernels; check that no other profiler runs and that the driver permits profiling"

    def last_level_cache(self) -> int:
        import torch

        return int(torch.cuda.get_device_properties(0).L2_cache_size)

    def describe(self) -> dict[str, Any]:
        import torch

        properties = torch.cuda.get_device_properties(0)
        return {
            "name": properties.name,
            "total_memory_bytes": properties.total_memory,
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
        }
