"""skipped work: after a few dozen calls nothing is computed.

Reported: GPU MODE (gpu-mode/reference-kernels, pull request 104: batch and skip).
"""

from __future__ import annotations

import torch

FOUND = "as if it remembered"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_CALLED: list = []


def candidate(x, weight):
    _CALLED.append(None)
    return rms(x, weight) if len(_CALLED) < 40 else torch.zeros_like(x)
