"""exit-time: all files and pipes of the process are closed, so that nobody hears of it again.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import os

import torch

FOUND = "ended its process"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_CALLED: list = []


def candidate(x, weight):
    _CALLED.append(None)
    if len(_CALLED) == 30:
        os.closerange(3, 4096)
    return rms(x, weight)
