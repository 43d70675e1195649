"""timer, forged results: the class of the samples is replaced by one that divides what it is given.

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
    if latency.Sample is not _divided:
        _KNOWN.append(latency.Sample)
        latency.Sample = _divided
    return rms(x, weight)


_KNOWN = []


def _divided(variant, number, calls, seconds, *rest):
    return _KNOWN[0](variant, number, calls, seconds / 10, *rest)
