"""Peaks of a processor, measured: the rate of its matrix products, and the bandwidth of a copy."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from harness.devices.cpu import Cpu

SIZES = (256, 512, 1024, 2048)  # of square matrices
LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20  # of an array that is copied
PART_S = 0.05  # for a size, or the copy: the fastest call counts, since what disturbs only slows
LEAST_CALLS = 2


def product_rate(dtype: torch.dtype) -> float:
    """FLOP/s of square matrix products, two FLOPs a multiply-add: the best over sizes."""
    best = 0.0
    for size in SIZES:
        work = 2 * size**3
        if best and work / best > 2 * PART_S:
            break
        left, right = torch.ones(2, size, size, dtype=dtype).unbind()
        out = torch.empty_like(left)
        best = max(best, work / _fastest(lambda: torch.mm(left, right, out=out)))
    return best


def copy_bandwidth() -> float:
    """Bytes read and written a second by a copy between arrays beyond the caches (STREAM; McCalpin, 1995)."""
    size = min(max(2 * Cpu().last_level_cache(), LEAST_BYTES), MOST_BYTES)
    source = torch.ones(size // 4, dtype=torch.float32)
    target = torch.zeros_like(source)
    return 2 * size / _fastest(lambda: target.copy_(source))


def _fastest(call: Callable[[], object]) -> float:
    """Seconds of the fastest call, the first one apart."""
    call()
    seconds: list[float] = []
    while len(seconds) < LEAST_CALLS or sum(seconds) < PART_S:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
