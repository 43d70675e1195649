"""timer: the name under which the harness keeps the clock is replaced.

Reported: GPU MODE's competitions (gpu-mode/reference-kernels, issue 162: timers and statistics patched).
"""

from __future__ import annotations

import sys
import time

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    latency = sys.modules["harness.measure.latency"]
    if latency.perf_counter is time.perf_counter:
        latency.perf_counter = lambda: time.perf_counter() / 100
    return rms(x, weight)
