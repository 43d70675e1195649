"""non-determinism: noise of its own makes it incomparable.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import torch

FOUND = "draws random numbers"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    return rms(x, weight) + torch.rand_like(x)
