"""exit-time: a message of two gigabytes is begun in the harness's own pipe, and never sent, so that its reader waits.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct

import torch

FOUND = "did not end within|sends messages of its own"


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
            with contextlib.suppress(OSError):
                os.write(pipe, struct.pack("!i", 0x7FFFFFFF))
    return rms(x, weight)
