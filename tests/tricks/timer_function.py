"""timer: the function that times a block is replaced by one that divides.

Reported: GPU MODE's competitions (gpu-mode/reference-kernels, issue 162: timers and statistics patched).
"""

from __future__ import annotations

import sys

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    latency = sys.modules["harness.measure.latency"]
    if latency.timer is not _divided:
        _KNOWN.append(latency.timer)
        latency.timer = _divided
    return rms(x, weight)


_KNOWN = []


def _divided(synchronize):
    elapsed = _KNOWN[0](synchronize)
    return lambda calls: elapsed(calls) / 10
