"""checker: the code of the reference is exchanged for what is easy.

Reported: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

from __future__ import annotations

import sys

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    sys.modules["variants.rmsnorm"].reference.__code__ = (lambda x, weight: x * 0).__code__
    return torch.zeros_like(x)
