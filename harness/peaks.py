"""The CPU's peaks: measured once, in a process of their own, and cached with the machine's identity."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from harness.environment import Troubles
from harness.process import Process
from harness.roofline import Peaks
from harness.settings import WorkerSettings

IDENTITY = ("cpu", "cores", "threads", "memory_bytes", "torch")  # of the environment that a measuring process tells
BANDWIDTH = "bytes"  # what is measured goes by this name, or by that of a dtype
NARROW = ("bfloat16", "float16")  # may be computed in float32, whose rate is then theirs

Rates = dict[str, dict[str, Any]]  # by what was measured: its rate per_s, and whether the machine was busy


def measured(
    dtype: str, environment: Mapping[str, Any], worker: WorkerSettings, log: Path, anew: bool = False
) -> Peaks:
    """The peaks for `dtype` on this machine, on as many threads as `environment` says; empty where none are known.

    What is not in the cache is measured, in about a second. A peak that was seen on a busy machine is measured again
    the next time, and the higher one kept; `anew` forgets them all.
    """
    identity = {"node": platform.node(), **{key: environment.get(key) for key in IDENTITY}}
    path = user_cache_path("variant-harness") / f"peaks-{_digest(identity)}.json"
    rates = {} if anew else _read(path)
    products = (dtype, "float32") if dtype in NARROW else (dtype,)
    wanted = [name for name in (BANDWIDTH, *products) if name not in rates or rates[name]["busy"]]
    if wanted:
        for name, found in _measure(wanted, int(environment["threads"]), worker, log).items():
            best = max(found["per_s"], rates.get(name, found)["per_s"])
            rates[name] = {"per_s": best, "busy": found["busy"]}
        with contextlib.suppress(OSError):  # without a cache it is measured again the next time
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"identity": identity, "rates": rates}, indent=1), encoding="utf-8")
    used = [rates.get(name) for name in (BANDWIDTH, *products)]
    if None in used:
        return {}
    busy = ", while the machine was busy" if any(rate["busy"] for rate in used if rate) else ""
    return {
        "flops_per_s": max(rates[name]["per_s"] for name in products),
        "bytes_per_s": rates[BANDWIDTH]["per_s"],
        "source": f"measured by matrix products and a copy, on {environment['threads']} threads{busy}",
    }


def run(task: Mapping[str, Any], send: Callable[[str, str, Any], None], blame: Callable[[str], None]) -> None:
    """What the process does: measures each of the names `wanted` on so many `threads`, and sends its rate."""
    import torch  # not above: the command line uses this file, and starts without torch

    from harness.measure.peaks import copy_bandwidth, product_rate

    torch.set_num_threads(task["threads"])
    for name in task["wanted"]:
        troubles = Troubles()
        rate = copy_bandwidth() if name == BANDWIDTH else product_rate(getattr(torch, name))
        send("rate", name, {"per_s": rate, "busy": troubles.busy()})


def _measure(wanted: list[str], threads: int, worker: WorkerSettings, log: Path) -> Rates:
    task = {"wanted": wanted, "threads": threads}
    process = Process("harness.peaks:run", task, [], "cpu", worker.env, log, worker.timeout_s)
    try:
        return {name: payload for kind, name, payload in process.messages() if kind == "rate"}
    finally:
        process.end()


def _digest(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path) -> Rates:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["rates"])
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or not one of ours
        return {}
