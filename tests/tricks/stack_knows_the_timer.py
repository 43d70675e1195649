"""stack, skipped work: nothing is computed where the caller is the one that times.

Reported: Wafer's field guide to reward hacking in kernel generation (10 patterns, 2026).
"""

from __future__ import annotations

import sys

import torch

FOUND = "as if it remembered"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    if sys._getframe(1).f_code.co_name == "elapsed":
        return torch.zeros_like(x)
    return rms(x, weight)
