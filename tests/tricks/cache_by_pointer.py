"""cache: results are remembered by the address of the input.

Reported: GPU MODE (gpu-mode/kernelbot, pull request 501: results replayed on repeated inputs).
"""

from __future__ import annotations

import torch

FOUND = "as if it remembered"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_KEPT: dict = {}


def candidate(x, weight):
    if x.data_ptr() not in _KEPT:
        _KEPT[x.data_ptr()] = rms(x, weight)
    return _KEPT[x.data_ptr()].clone()
