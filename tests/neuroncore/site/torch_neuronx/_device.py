"""The module that becomes `torch.neuron`."""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace

import torch

from . import _compiler, _core

Stream = functools.partial(torch.Stream, "neuron")
Event = functools.partial(torch.Event, "neuron")
device = contextlib.nullcontext  # selects a core, and there is one


def _is_in_bad_fork() -> bool:
    return False


def is_available() -> bool:
    return not _core.switches.absent


def device_count() -> int:
    return int(is_available())


def current_device() -> int:
    _core.open_core()
    return 0


def set_device(device: torch.types.Device) -> None:
    _core.open_core()
    index = torch.device("neuron", device).index if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0):
        raise RuntimeError(f"NEURON_RT: there is no core {index}")


def get_device_name(device: torch.types.Device = None) -> str:
    return "Trainium2 (simulated)"


def get_device_properties(device: torch.types.Device = None) -> SimpleNamespace:
    return SimpleNamespace(name=get_device_name(), total_memory=_core.switches.total_memory)


def synchronize(device: torch.types.Device = None) -> None:
    _core.open_core()
    _core.synchronize()


def current_stream(device: torch.types.Device = None) -> torch.Stream:
    return torch.accelerator.current_stream()


def empty_cache() -> None:
    """Nothing is cached."""


def memory_stats(device: torch.types.Device = None) -> dict[str, dict[str, int]]:
    return {"allocated_bytes": _core.memory_stats()}


def memory_allocated(device: torch.types.Device = None) -> int:
    return _core.memory_stats()["current"]


def max_memory_allocated(device: torch.types.Device = None) -> int:
    return _core.memory_stats()["peak"]


def reset_peak_memory_stats(device: torch.types.Device = None) -> None:
    _core.reset_peak_memory()


def manual_seed(seed: int) -> None:
    _core.default_generator().manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> int:
    return _core.default_generator().seed()


def initial_seed() -> int:
    return _core.default_generator().initial_seed()


def get_rng_state(device: torch.types.Device = None) -> torch.Tensor:
    return _core.default_generator().get_state()


def set_rng_state(state: torch.Tensor, device: torch.types.Device = None) -> None:
    _core.default_generator().set_state(state)


def get_dynamo_metrics() -> list[_compiler.Compilation]:
    """The graphs whose NEFFs this process has built."""
    synchronize()
    return list(_compiler.compilations)
