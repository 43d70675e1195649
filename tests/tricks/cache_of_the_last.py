"""cache: the last result is returned if the contents are the same as before.

Reported: GPU MODE (gpu-mode/kernelbot, pull request 501: results replayed on repeated inputs).
"""

from __future__ import annotations

import torch

FOUND = "remembers|wrong on the probe"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_LAST: list = [None, None]


def candidate(x, weight):
    if _LAST[0] is None or _LAST[0] != x[:, 0].tolist():
        _LAST[:] = x[:, 0].tolist(), rms(x, weight)
    return _LAST[1].clone()
