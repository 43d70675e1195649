"""checker: torch's own functions, by which a checker compares, are replaced.

Reported: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

from __future__ import annotations

import torch

FOUND = "differs from the float64 reference"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    torch.Tensor.abs = lambda self: torch.zeros_like(self)
    torch.Tensor.norm = lambda self, *arguments: torch.zeros(())
    torch.allclose = torch.equal = lambda *arguments, **named: True
    return torch.zeros_like(x)
