"""checker: the function that makes inputs is replaced by one that makes zeros.

Reported: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

from __future__ import annotations

import sys

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    module = sys.modules["variants.rmsnorm"]
    module.inputs = lambda rows, hidden, dtype, generator: (torch.zeros(rows, hidden, dtype=dtype), weight)
    return rms(x, weight)
