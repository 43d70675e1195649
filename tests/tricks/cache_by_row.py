"""cache: results are remembered by a checksum of one row.

Reported: GPU MODE (gpu-mode/kernelbot, pull request 501: results replayed on repeated inputs).
"""

from __future__ import annotations

import torch

FOUND = "remembers|wrong on the probe"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_KEPT: dict = {}


def candidate(x, weight):
    key = float(x[0].sum())
    if key not in _KEPT:
        _KEPT[key] = rms(x, weight)
    return _KEPT[key].clone()
