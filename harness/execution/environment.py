"""The environment of a measuring process: the variables that it starts with, and what results say of it."""

from __future__ import annotations

import os
import platform
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


def worker_environment(own: Mapping[str, Any], device: str) -> dict[str, str | None]:
    """Variables to set before a measuring process imports torch; None: to unset.

    The user's own come first, then the shell's, then what is pinned.
    """
    pinned = dict(PINNED)
    if device in ("cpu", "cuda"):
        pinned["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return {
        **{name: value for name, value in pinned.items() if name not in os.environ},
        **{name: None if value is None else str(value) for name, value in own.items()},
    }


def applied(variables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """An environment after variables are set and unset in it."""
    merged = {**environment, **variables}
    return {name: str(value) for name, value in merged.items() if value is not None}


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
