"""timer: the clock is replaced by a slower one in the first call.

Reported: GPU MODE's competitions (gpu-mode/reference-kernels, issue 162: timers and statistics patched).
"""

from __future__ import annotations

import time

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    if time.perf_counter is _clock:
        time.perf_counter = lambda: _clock() / 100
    return rms(x, weight)


_clock = time.perf_counter
