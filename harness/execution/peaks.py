"""Peaks that are measured: once for a machine, in a process of their own, and cached with the machine's identity."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.configuration.settings import WorkerSettings
from harness.execution import machine_cache
from harness.execution.processes.messages import Rate, Send
from harness.execution.processes.process import Process
from harness.measure.interference import Interference
from harness.results.roofline import Peaks

if TYPE_CHECKING:
    import torch

    from harness.devices.base import Device

IDENTITY = ("cpu", "cores", "threads", "memory_bytes", "torch")  # of the environment that a measuring process reports
BANDWIDTH = "bytes"  # what is measured goes by this name, or by that of a dtype
NARROW = ("bfloat16", "float16")  # may be computed in float32, whose rate is then theirs

SIZES = (256, 512, 1024, 2048)  # of square matrices
MIN_COPY_BYTES = 64 << 20  # of an array that is copied
MAX_COPY_BYTES = 512 << 20
PART_S = 0.05  # for a size, or the copy; the fastest call counts, since noise only adds time
MIN_CALLS = 2

Rates = dict[str, dict[str, Any]]  # by what was measured: its rate per_s, and whether the machine was busy


def measured(
    device: Device,
    dtype: str,
    environment: Mapping[str, Any],
    worker: WorkerSettings,
    log: Path,
    remeasure: bool = False,
) -> Peaks:
    """The peaks for `dtype` of `device`, on as many threads as `environment` says; empty if none are known.

    A peak that is not in the cache is measured, in about a second. One that was measured on a busy machine is measured
    again the next time, and the higher one counts. `remeasure` ignores the cache.
    """
    identity = {"node": platform.node(), **{key: environment.get(key) for key in IDENTITY}}
    rates = {} if remeasure else machine_cache.read("peaks", identity)
    products = (dtype, "float32") if dtype in NARROW else (dtype,)
    wanted = [name for name in (BANDWIDTH, *products) if name not in rates or rates[name]["busy"]]
    if wanted:
        for name, rate in _measure(device, wanted, int(environment["threads"]), worker, log).items():
            best = max(rate["per_s"], rates.get(name, rate)["per_s"])
            rates[name] = {"per_s": best, "busy": rate["busy"]}
        machine_cache.write("peaks", identity, rates)
    used = [rates.get(name) for name in (BANDWIDTH, *products)]
    if None in used:
        return {}
    busy = ", while the machine was busy" if any(each["busy"] for each in used if each) else ""
    return {
        "flops_per_s": max(rates[name]["per_s"] for name in products),
        "bytes_per_s": rates[BANDWIDTH]["per_s"],
        "source": f"measured by matrix products and a copy, on {environment['threads']} threads{busy}",
    }


def run(task: Mapping[str, Any], send: Send, *_: object) -> None:
    """The measuring process: measures the rate of each name in `wanted` on `threads` threads, and sends it.

    `cache_bytes` is the size of the last-level cache, which a copy has to exceed.
    """
    import torch  # not above: the command line uses this file, and starts without torch

    torch.set_num_threads(task["threads"])
    for name in task["wanted"]:
        interference = Interference()
        with interference.watched():
            rate = copy_bandwidth(task["cache_bytes"]) if name == BANDWIDTH else product_rate(getattr(torch, name))
        send(Rate(name, rate, interference.busy()))


def product_rate(dtype: torch.dtype) -> float:
    """FLOP/s of square matrix products, two FLOPs a multiply-add: the best over sizes."""
    import torch

    best = 0.0
    for size in SIZES:
        work = 2 * size**3
        if best and work / best > 2 * PART_S:
            break
        left, right = torch.ones(2, size, size, dtype=dtype).unbind()
        out = torch.empty_like(left)
        best = max(best, work / _fastest(lambda: torch.mm(left, right, out=out)))
    return best


def copy_bandwidth(cache_bytes: int) -> float:
    """Bytes read and written a second by a copy between arrays beyond the caches (STREAM; McCalpin, 1995)."""
    import torch

    size = min(max(2 * cache_bytes, MIN_COPY_BYTES), MAX_COPY_BYTES)
    source = torch.ones(size // 4, dtype=torch.float32)
    target = torch.zeros_like(source)
    return 2 * size / _fastest(lambda: target.copy_(source))


def _measure(device: Device, wanted: list[str], threads: int, worker: WorkerSettings, log: Path) -> Rates:
    task = {"wanted": wanted, "threads": threads, "cache_bytes": device.last_level_cache()}
    process = Process("harness.execution.peaks:run", task, [], [device], worker, log)
    try:
        rates = [message for message in process.messages() if isinstance(message, Rate)]
        return {rate.name: {"per_s": rate.per_s, "busy": rate.busy} for rate in rates}
    finally:
        process.end()


def _fastest(call: Callable[[], object]) -> float:
    """Seconds of the fastest call, the first one apart."""
    call()
    seconds: list[float] = []
    while len(seconds) < MIN_CALLS or sum(seconds) < PART_S:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
