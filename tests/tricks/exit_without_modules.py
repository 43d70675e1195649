"""exit-time, threads: a little later the harness's modules are gone, and what Python itself calls is broken.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import builtins
import sys
import threading
import time

import torch

FOUND = "ended its process|tampers with what measures it|left"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_RUNNING: list = []


def _break():
    time.sleep(0.3)
    for name in [name for name in sys.modules if name.startswith("harness.")]:
        del sys.modules[name]
    builtins.isinstance = None


def candidate(x, weight):
    if not _RUNNING:
        _RUNNING.append(threading.Thread(target=_break, daemon=True))
        _RUNNING[0].start()
    return rms(x, weight)
