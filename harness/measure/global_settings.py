"""Global settings: what of torch's, Python's and the process's state is read and written by a pair of functions.

Grad mode is not among it: it belongs to the mode that is measured, and is set around each turn.
"""

from __future__ import annotations

import contextlib
import gc
import locale
import logging
import os
import resource
import signal
import sys
import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from harness.measure import torch_private

Setting = tuple[Callable[[], Any], Callable[[Any], Any]]

LIMITS = tuple(
    getattr(resource, f"RLIMIT_{name}") for name in ("AS", "CORE", "CPU", "DATA", "FSIZE", "NOFILE", "STACK")
)
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
RECURSION = sys.getrecursionlimit()
VENDORED = os.path.join("setuptools", "_vendor")  # added as setuptools is imported, by torch's compiler for one
TOOLS = 6  # that sys.monitoring has room for
SUBNORMAL = 5e-310  # half of it is 0 if denormal numbers are flushed
_entered: list[Any] = []  # contexts that were entered to undo a variant's; to forget one would leave it


def autocast(kind: str) -> dict[str, Setting]:
    """Autocast on a kind of device."""
    return {
        f"autocast on {kind}": (partial(torch.is_autocast_enabled, kind), partial(torch.set_autocast_enabled, kind)),
        f"autocast's dtype on {kind}": (
            partial(torch.get_autocast_dtype, kind),
            partial(torch.set_autocast_dtype, kind),
        ),
    }


def _attribute(owner: Any, name: str) -> Setting:
    return partial(getattr, owner, name), partial(setattr, owner, name)


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device == torch.device("cpu") else device)


def _set_inference_mode(enabled: bool) -> None:
    context = torch.inference_mode(enabled)
    context.__enter__()
    _entered.append(context)


def _set_deterministic(state: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(state[0], warn_only=state[1])


def _set_anomaly(state: tuple[bool, bool]) -> None:
    torch.autograd.set_detect_anomaly(state[0], check_nan=state[1])


def _file_mask() -> int:
    mask = os.umask(0o077)  # there is no other way to read it
    os.umask(mask)
    return mask


def _recursion_limit() -> int:
    return min(sys.getrecursionlimit(), RECURSION)  # the compiler raises it, which harms nobody


def _limits() -> dict[int, tuple[int, int]]:
    return {kind: resource.getrlimit(kind) for kind in LIMITS}


def _set_limits(limits: dict[int, tuple[int, int]]) -> None:
    for kind, limit in limits.items():
        with contextlib.suppress(OSError, ValueError):  # a hard limit that was lowered stays
            resource.setrlimit(kind, limit)


def _tools() -> list[str | None]:
    return [sys.monitoring.get_tool(number) for number in range(TOOLS)]  # type: ignore[attr-defined]


def _free_tools(known: list[str | None]) -> None:
    for number in range(TOOLS):
        if known[number] is None:
            sys.monitoring.free_tool_id(number)  # type: ignore[attr-defined]


def _path() -> list[str]:
    return [entry for entry in sys.path if not entry.endswith(VENDORED)]


def _set_path(path: list[str]) -> None:
    sys.path[:] = [*path, *(entry for entry in sys.path if entry.endswith(VENDORED))]


def _timers() -> list[bool]:
    return [signal.getitimer(kind) != (0.0, 0.0) for kind in TIMERS]


def _stop_timers(_: list[bool]) -> None:
    for kind in TIMERS:
        signal.setitimer(kind, 0)


def _modes(kind: str) -> Setting:
    return partial(torch_private.modes, kind), partial(torch_private.leave_modes, kind)


# Looked at after each turn of a variant: others would be timed under them
SETTINGS: dict[str, Setting] = {
    "the default device": (torch.get_default_device, _set_default_device),
    "modes over torch's functions": _modes(torch_private.FUNCTION_MODES),
    "modes over torch's dispatch": _modes(torch_private.DISPATCH_MODES),
    "inference mode": (torch.is_inference_mode_enabled, _set_inference_mode),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the precision of float32 products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic algorithms": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _set_deterministic,
    ),
    "the filling of uninitialized memory": _attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
    "anomaly detection": (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        _set_anomaly,
    ),
    "the flushing of denormal numbers": (lambda: SUBNORMAL / 2 == 0, torch.set_flush_denormal),
    "mkldnn's enabled": _attribute(torch.backends.mkldnn, "enabled"),
    "mkldnn's deterministic": _attribute(torch.backends.mkldnn, "deterministic"),
    "cudnn's enabled": _attribute(torch.backends.cudnn, "enabled"),
    "cudnn's benchmark": _attribute(torch.backends.cudnn, "benchmark"),
    "cudnn's deterministic": _attribute(torch.backends.cudnn, "deterministic"),
    "flash attention": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "memory-efficient attention": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "plain attention": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "the fast path of nn.MultiheadAttention": (
        torch.backends.mha.get_fastpath_enabled,
        torch.backends.mha.set_fastpath_enabled,
    ),
    "whether torch's profiler runs": (torch_private.profiling, lambda _: torch_private.stop_profiling()),
    "numpy's handling of errors": (np.geterr, lambda state: np.seterr(**state)),
    "the tracing of Python's memory": (tracemalloc.is_tracing, lambda _: tracemalloc.stop()),
    "the tracing function": (sys.gettrace, sys.settrace),
    "the profiling function": (sys.getprofile, sys.setprofile),
}

# Looked at after each step of a variant
SLOW_SETTINGS: dict[str, Setting] = {
    "hooks on every module": (torch_private.module_hooks, torch_private.set_module_hooks),
    "kernels of torch's operators": (torch_private.kernels, torch_private.remove_kernels),
    "hooks on what autograd saves": (torch_private.saved_tensor_hooks, torch_private.leave_saved_tensor_hooks),
    "garbage collection": (gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    "the thresholds of garbage collection": (gc.get_threshold, lambda thresholds: gc.set_threshold(*thresholds)),
    "the callbacks of garbage collection": (
        lambda: list(gc.callbacks),
        lambda callbacks: gc.callbacks.__setitem__(slice(None), callbacks),
    ),
    "the locale": (partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
    "sys.path": (_path, _set_path),
    "sys.stdin": _attribute(sys, "stdin"),
    "sys.stdout": _attribute(sys, "stdout"),
    "sys.stderr": _attribute(sys, "stderr"),
    "sys.excepthook": _attribute(sys, "excepthook"),
    "the switch interval": (sys.getswitchinterval, sys.setswitchinterval),
    "the recursion limit": (_recursion_limit, sys.setrecursionlimit),
    "the level below which nothing is logged": (lambda: logging.root.manager.disable, logging.disable),
    "the mask of files' permissions": (_file_mask, os.umask),
    "the limits of the process's resources": (_limits, _set_limits),
    "threading's tracing function": (threading.gettrace, threading.settrace),
    "threading's profiling function": (threading.getprofile, threading.setprofile),
    "a timer": (_timers, _stop_timers),
    "the process's priority": (
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        partial(os.setpriority, os.PRIO_PROCESS, 0),
    ),
}
if hasattr(sys, "monitoring"):  # Python 3.12
    SETTINGS["the tools of sys.monitoring"] = (_tools, _free_tools)
if hasattr(os, "sched_getscheduler"):  # Linux
    SLOW_SETTINGS["the policy by which it is scheduled"] = (
        lambda: (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        lambda policy: os.sched_setscheduler(0, policy[0], os.sched_param(policy[1])),
    )
if hasattr(os, "sched_getaffinity"):  # Linux
    SLOW_SETTINGS["the cores that it may run on"] = (
        partial(os.sched_getaffinity, 0),
        partial(os.sched_setaffinity, 0),
    )
