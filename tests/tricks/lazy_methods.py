"""laziness: a plain tensor whose own attributes hide the methods through which it is looked at.

Reported: GPU MODE's competitions (gpu-mode/reference-kernels, issue 162: timers and statistics patched).
"""

from __future__ import annotations

import torch

FOUND = "whose own attributes hide"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    result = torch.empty_like(x)
    for name in ("detach", "cpu", "clone", "float", "double", "untyped_storage", "numpy"):
        setattr(result, name, _computing(result, name, x, weight))
    return result


def _computing(result, name, x, weight):
    def method(*arguments, **named):
        result.__dict__.clear()
        result.copy_(rms(x, weight))
        return getattr(result, name)(*arguments, **named)

    return method
