"""precision: float32 is computed in bfloat16.

Reported: DeepReinforce, Hacks and Defenses in Automatic GPU Kernel Generation (five hacks).
"""

from __future__ import annotations

import torch

FOUND = "differs from the float64 reference"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    return rms(x.bfloat16(), weight.bfloat16()).to(x.dtype)
