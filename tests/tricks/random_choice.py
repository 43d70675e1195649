"""non-determinism: now and then it computes, by chance.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import random

import torch

FOUND = "as if it remembered|right in its first call only|differs"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_RANDOM = random.Random()
_CALLED: list = []


def candidate(x, weight):
    _CALLED.append(None)
    return rms(x, weight) if len(_CALLED) < 4 or _RANDOM.random() < 0.1 else torch.zeros_like(x)
