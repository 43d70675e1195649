"""exit-time: the process's own pipes are closed, and it goes on, so that whoever waits for its end waits for ever.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import contextlib
import os
import stat

import torch

FOUND = "closed its process's pipe|ended its process|did not end within"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def _connections():
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(number)).st_mode) or stat.S_ISFIFO(os.fstat(int(number)).st_mode):
                yield int(number)


_CALLS: list = []


def candidate(x, weight):
    _CALLS.append(None)
    if len(_CALLS) == 100:
        for pipe in _connections():
            os.close(pipe)
        while True:
            pass
    return rms(x, weight)
