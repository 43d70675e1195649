"""checker: NaN everywhere, of which comparisons are never greater.

Reported: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

from __future__ import annotations

import torch

FOUND = "are NaN"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    return torch.full_like(x, float("nan"))
