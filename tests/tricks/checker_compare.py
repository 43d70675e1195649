"""checker: the comparison is replaced by one that agrees.

Reported: GPU MODE's competitions (gpu-mode/reference-kernels, issue 162: timers and statistics patched).
"""

from __future__ import annotations

import sys

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    module = sys.modules["harness.measure.checks.validity"]
    verdict = sys.modules["harness.measure.checks.correctness"].Verdict
    module.compare = lambda outputs, expected, labels=(): verdict(None, None)
    return torch.zeros_like(x)
