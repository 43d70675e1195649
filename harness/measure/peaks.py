"""Peaks of a processor, measured: the rate of its matrix products, and the bandwidth of a copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.devices.cpu import Cpu

REPEATS = 5  # of which the fastest counts: what disturbs only slows
LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20  # of an array that is copied
SIZES = (256, 512, 1024, 2048)  # of square matrices
ENOUGH_S = 0.01  # a product that takes as long is no longer short


def run(task: Mapping[str, Any], send: Callable[[str, str, Any], None], blame: Callable[[str], None]) -> None:
    """Measures in a process of its own: products in each of `dtypes`, and a copy where `bandwidth` is asked for.

    Sends `flops_per_s` by dtype, and `bytes_per_s`; both on so many `threads`.
    """
    torch.set_num_threads(task["threads"])
    with torch.no_grad():
        send("flops_per_s", "", {dtype: product_rate(getattr(torch, dtype)) for dtype in task["dtypes"]})
        if task["bandwidth"]:
            send("bytes_per_s", "", copy_bandwidth())


def product_rate(dtype: torch.dtype) -> float:
    """FLOP/s of square matrix products, two FLOPs a multiply-add: the best over sizes."""
    best = 0.0
    for size in SIZES:
        left, right = torch.ones(2, size, size, dtype=dtype).unbind()
        out = torch.empty_like(left)
        seconds = _fastest(lambda: torch.mm(left, right, out=out))
        best = max(best, 2 * size**3 / seconds)
        if seconds > ENOUGH_S:
            break
    return best


def copy_bandwidth() -> float:
    """Bytes read and written a second by a copy between arrays beyond the caches (STREAM; McCalpin, 1995)."""
    size = min(max(2 * Cpu().last_level_cache(), LEAST_BYTES), MOST_BYTES)
    source = torch.ones(size // 4, dtype=torch.float32)
    target = torch.zeros_like(source)
    return 2 * size / _fastest(lambda: target.copy_(source))


def _fastest(call: Callable[[], object]) -> float:
    """Seconds of the fastest call, the first one apart; a long one is not repeated."""
    call()
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
        if seconds[-1] > 4 * ENOUGH_S:
            break
    return min(seconds)
