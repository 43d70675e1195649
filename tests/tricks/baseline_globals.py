"""baseline: the module `torch`, as the baseline's own module knows it, is replaced by one that is slower.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import sys
import time

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


class _Slow:
    def __getattr__(self, name):
        time.sleep(0.0002)
        return getattr(torch, name)


def candidate(x, weight):
    sys.modules["variants.rmsnorm"].torch = _Slow()
    return rms(x, weight)
