"""The environment of a measuring process: the variables that it starts with, and what results say of it."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from harness.configuration.errors import UsageError
from harness.configuration.settings import WorkerSettings

if TYPE_CHECKING:
    from harness.devices.base import Device

# glibc returns freed memory and faults it in again at its next use; with these it keeps it
PINNED = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "PYTHONHASHSEED": "0",
}


@contextlib.contextmanager
def compiling(worker: WorkerSettings, devices: Sequence[Device], named: Collection[str]) -> Iterator[WorkerSettings]:
    """The settings of one case's processes, with variables for the compilers of all `devices` that it may get.

    They report into a folder of the case's own; if the case is to begin with cold caches, these are there as well.
    Raises UsageError if `worker.env`, or one of the variables `named` elsewhere, says where such a cache is.
    """
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        cold = [name for device in devices for name in device.compile_caches] if worker.compile_cache == "cold" else []
        for name in cold:
            if name in worker.env or name in named:
                key = f"worker.env.{name}" if name in worker.env else f"{name} of an environment"
                given = f"{key} says where that compiler's cache is, which may not be empty"
                raise UsageError(f"worker.compile_cache=cold: {given}; leave one of the two out")
        variables = {name: str(Path(folder, name)) for name in cold}
        for device in devices:
            variables |= device.reporting(Path(folder))
        yield replace(worker, env={**variables, **worker.env})


def worker_environment(own: Mapping[str, Any], devices: Sequence[Device]) -> dict[str, str | None]:
    """Variables to set before a process that measures on one of `devices` imports torch; None: to unset.

    The user's `own` take precedence over the shell's, and these over what the devices pin, the first device first.
    """
    pinned = dict(PINNED)
    for device in devices:
        pinned = {**device.pinned, **pinned}
    return {
        **{name: value for name, value in pinned.items() if name not in os.environ},
        **{name: None if value is None else str(value) for name, value in own.items()},
    }


def applied(variables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """An environment after variables are set and unset in it."""
    merged = {**environment, **variables}
    return {name: str(value) for name, value in merged.items() if value is not None}


def of_process(device: Device) -> dict[str, Any]:
    """The environment that results record of a process that measures on `device`."""
    import torch  # not above: the command line uses this file, and starts without torch

    from harness.devices.cpu import cores, model

    own = (*device.prefixes, *device.pinned, *(variable.name for variable in device.spoiling))
    shown = ("OMP_", "MKL_", "MALLOC_", "TORCH", "PYTORCH", "KMP_", "GOMP_", *own)
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(),
        "host": platform.node(),
        "cpu": model(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "memory_bytes": psutil.virtual_memory().total,
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(shown)},
    }


def importable() -> dict[str, str]:
    """PYTHONPATH with the folder of this package: a server of processes does not inherit sys.path."""
    here = str(Path(__file__).parents[3])
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), here]))}


@contextlib.contextmanager
def environ(variables: Mapping[str, str | None]) -> Iterator[None]:
    """A context in which these variables are set, or unset."""
    before = dict(os.environ)
    after = applied(variables, before)
    try:
        os.environ.clear()
        os.environ.update(after)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
