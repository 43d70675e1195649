"""Global state: what one variant changes in torch and must not leak to the next."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from harness.devices.base import Device

TORCH_OWN = ("TORCH", "TRITON", "KINETO")  # variables that torch itself sets as it goes

Setting = tuple[Callable[[], Any], Callable[[Any], Any]]

# Settings by name: how each is read and written; reading them all takes about a microsecond. Grad mode is not
# among them: it belongs to the mode that is measured, and is set around each turn.
SETTINGS: dict[str, Setting] = {
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the precision of float32 products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "autocast on the CPU": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda enabled: torch.set_autocast_enabled("cpu", enabled),
    ),
}


class GlobalState:
    """The state at its creation, to be put back after each variant's turn."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._settings = {name: read() for name, (read, _) in SETTINGS.items()}
        self._environment, self._folder = dict(os.environ), os.getcwd()
        self._streams = {stream: os.dup(stream) for stream in (1, 2)}
        self._generators = (device.get_rng_state(), random.getstate(), np.random.get_state())

    def restore(self) -> list[str]:
        """Puts settings back; returns the names of those that had changed."""
        changed = []
        for name, (read, write) in SETTINGS.items():
            if read() != self._settings[name]:
                write(self._settings[name])
                changed.append(name)
        return changed

    def restore_all(self) -> list[str]:
        """Settings as well as what takes longer to look at: environment, directory, streams, random generators."""
        changed = self.restore()
        now = dict(os.environ)
        if now != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
            names = {name for name, _ in now.items() ^ self._environment.items()}
            changed += sorted(name for name in names if not name.lstrip("_").startswith(TORCH_OWN))
        if os.getcwd() != self._folder:
            os.chdir(self._folder)
            changed.append("the working directory")
        for stream, copy in self._streams.items():
            try:
                os.fstat(stream)
            except OSError:
                os.dup2(copy, stream)
                changed.append(f"file descriptor {stream}")
        self._device.set_rng_state(self._generators[0])
        random.setstate(self._generators[1])
        np.random.set_state(self._generators[2])
        return changed
