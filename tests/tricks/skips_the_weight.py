"""skipped work: the weight is left out, as if it were all ones.

Reported: KernelBench's tests of its evaluation (ScalingIntelligence/KernelBench, pull request 82).
"""

from __future__ import annotations

import torch

FOUND = "differs from the float64 reference"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    return torch.rms_norm(x, x.shape[-1:], None, 1e-6)
