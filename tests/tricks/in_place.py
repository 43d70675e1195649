"""in-place: the input is overwritten with the output.

Reported: KernelBench's tests of its evaluation (ScalingIntelligence/KernelBench, pull request 82).
"""

from __future__ import annotations

import torch

FOUND = "changes its inputs in place"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    return x.copy_(rms(x, weight))
