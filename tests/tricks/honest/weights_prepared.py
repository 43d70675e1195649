"""Honest: what is made of a weight is kept for as long as the weight stays as it is."""

from __future__ import annotations

import torch

_KEPT: list = [None, None, None]  # a weight, its version, and what was made of it


def candidate(x, weight):
    if _KEPT[0] is not weight or _KEPT[1] != weight._version:
        _KEPT[:] = weight, weight._version, weight.contiguous().clone()
    return torch.rms_norm(x, x.shape[-1:], _KEPT[2], 1e-6)
