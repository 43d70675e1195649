"""profiler: the result is made by numpy, behind the back of the profiler, and is remembered.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import torch

FOUND = "the same memory|remembers|runs no operator"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_KEPT: dict = {}


def candidate(x, weight):
    key = x.numpy()[0, 0]
    if key not in _KEPT:
        _KEPT[key] = rms(x, weight)
    return _KEPT[key]
