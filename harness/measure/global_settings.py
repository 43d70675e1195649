"""Global settings by name: how each is read, and how it is set.

Grad mode is not among them: it belongs to the mode that is measured, and is set around each turn.
"""

from __future__ import annotations

import gc
import locale
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from harness.measure import torch_private

Setting = tuple[Callable[[], Any], Callable[[Any], Any]]

SUBNORMAL = 5e-310  # half of it is 0 where denormal numbers are flushed
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


# Looked at after each turn of a variant: others would be timed under them
SETTINGS: dict[str, Setting] = {
    "the default device": (torch.get_default_device, _set_default_device),
    "modes over torch's functions": (torch_private.function_modes, torch_private.leave_function_modes),
    "modes over torch's dispatch": (torch_private.dispatch_modes, torch_private.leave_dispatch_modes),
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
    "numpy's handling of errors": (np.geterr, lambda state: np.seterr(**state)),
    "the tracing function": (sys.gettrace, sys.settrace),
    "the profiling function": (sys.getprofile, sys.setprofile),
}

# Looked at after each step of a variant
SLOW_SETTINGS: dict[str, Setting] = {
    "garbage collection": (gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    "the thresholds of garbage collection": (gc.get_threshold, lambda thresholds: gc.set_threshold(*thresholds)),
    "the locale": (partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
    "sys.path": (lambda: list(sys.path), lambda path: sys.path.__setitem__(slice(None), path)),
    "sys.stdout": _attribute(sys, "stdout"),
    "sys.stderr": _attribute(sys, "stderr"),
    "sys.excepthook": _attribute(sys, "excepthook"),
    "the switch interval": (sys.getswitchinterval, sys.setswitchinterval),
    "threading's tracing function": (threading.gettrace, threading.settrace),
    "threading's profiling function": (threading.getprofile, threading.setprofile),
    "a timer": (
        lambda: signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0),
        lambda _: signal.setitimer(signal.ITIMER_REAL, 0),
    ),
    "the process's priority": (
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        partial(os.setpriority, os.PRIO_PROCESS, 0),
    ),
}
if hasattr(os, "sched_getaffinity"):  # Linux
    SLOW_SETTINGS["the cores that it may run on"] = (
        partial(os.sched_getaffinity, 0),
        partial(os.sched_setaffinity, 0),
    )
