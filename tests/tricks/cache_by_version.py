"""cache: results are remembered by address and version counter.

Reported: GPU MODE (gpu-mode/kernelbot, pull request 501: results replayed on repeated inputs).
"""

from __future__ import annotations

import torch

FOUND = "the same memory|remembers"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_KEPT: dict = {}


def candidate(x, weight):
    key = x.data_ptr(), x._version, id(x)
    if key not in _KEPT:
        _KEPT[key] = rms(x, weight)
    return _KEPT[key].detach()
