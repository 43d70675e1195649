"""precision: the sum of squares is taken in float16.

Reported: KernelBench, precision downgraded on a float32 task.
"""

from __future__ import annotations

import torch

FOUND = "differs from the float64 reference"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    half = x.half()
    scale = torch.rsqrt((half * half).mean(-1, keepdim=True).to(x.dtype) + 1e-6)
    return x * scale * weight
