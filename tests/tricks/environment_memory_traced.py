"""environment: Python's memory is traced, which slows whoever makes many objects.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import tracemalloc

import torch

FOUND = "the tracing of Python's memory"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    if not tracemalloc.is_tracing():
        tracemalloc.start(100)
    return rms(x, weight)
