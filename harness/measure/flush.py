"""Flush: what empties the caches before a timed call."""

from __future__ import annotations

from time import perf_counter  # bound here: a variant may replace the module's

import torch

from harness.devices.base import Device


class Flush:
    """A write over twice the device's last-level cache; `seconds` is how long one takes."""

    def __init__(self, device: Device):
        size = 2 * device.last_level_cache() // 4
        self._buffer = torch.zeros(size, dtype=torch.float32, device=device.torch_device())
        self()
        device.synchronize()
        start = perf_counter()
        self()
        device.synchronize()
        self.seconds = perf_counter() - start

    def __call__(self) -> None:
        """Empties them."""
        self._buffer.add_(1.0)
