"""cache, profiler: results are remembered by one value, except while a profiler runs.

Reported: GPU MODE (gpu-mode/kernelbot, pull request 501: results replayed on repeated inputs).
"""

from __future__ import annotations

import torch
import torch.autograd

FOUND = "remembers|wrong on the probe"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_KEPT: dict = {}


def candidate(x, weight):
    key = x[0, 0].item()
    if key not in _KEPT or torch.autograd._profiler_enabled():
        _KEPT[key] = rms(x, weight)
    return _KEPT[key].clone()
