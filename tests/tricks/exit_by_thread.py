"""exit-time, threads: the process is ended a little later, in whoever's turn that is.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import os
import threading
import time

import torch

FOUND = "ended its process"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_RUNNING: list = []


def _end():
    time.sleep(0.2)
    os._exit(3)


def candidate(x, weight):
    if not _RUNNING:
        _RUNNING.append(threading.Thread(target=_end, daemon=True))
        _RUNNING[0].start()
    return rms(x, weight)
