"""uninitialised memory: memory of an earlier result is taken again, as nothing has cleared it.

Reported: KernelBench's tests of its evaluation (ScalingIntelligence/KernelBench, pull request 82).
Also Sakana's AI CUDA engineer.
"""

from __future__ import annotations

import torch

FOUND = "as if it remembered|differs from the float64 reference|right in its first call only"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_CALLED: list = []


def candidate(x, weight):
    _CALLED.append(None)
    if len(_CALLED) == 1:
        return rms(x, weight)
    return torch.empty_like(x)
