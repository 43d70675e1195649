"""Honest: what is made of a weight is kept for as long as the weight stays as it is."""

from __future__ import annotations

import torch

_PREPARED: dict = {}


def candidate(x, weight):
    key = weight.data_ptr(), weight._version
    if key not in _PREPARED:
        _PREPARED.clear()
        _PREPARED[key] = weight.contiguous().clone()
    return torch.rms_norm(x, x.shape[-1:], _PREPARED[key], 1e-6)
