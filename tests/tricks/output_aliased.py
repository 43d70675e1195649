"""output aliasing: each call returns the same memory, so that what was kept of earlier calls changes.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import torch

FOUND = "the same memory"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_OUT: dict = {}


def candidate(x, weight):
    out = _OUT.setdefault(x.shape, torch.empty_like(x))
    return out.copy_(rms(x, weight))
