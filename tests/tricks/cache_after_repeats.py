"""cache: the last result is returned once the same contents have come twenty times in a row.

Reported: GPU MODE (gpu-mode/reference-kernels, pull request 104: batch and skip).
"""

from __future__ import annotations

import torch

FOUND = "remembers|wrong on the probe"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_STATE: dict = {"key": None, "times": 0, "result": None}


def candidate(x, weight):
    key = x[0, 0].item()
    _STATE["times"] = _STATE["times"] + 1 if key == _STATE["key"] else 0
    _STATE["key"] = key
    if _STATE["times"] < 20 or _STATE["result"] is None:
        _STATE["result"] = rms(x, weight)
        return _STATE["result"]
    return _STATE["result"].detach()
