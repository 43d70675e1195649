"""in-place, stack: the input is overwritten where the caller is the one that times.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import sys

import torch

FOUND = "changes its inputs in place while it is timed"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    result = rms(x, weight)
    if sys._getframe(1).f_code.co_name == "elapsed":
        x.mul_(1.0000001)
    return result
