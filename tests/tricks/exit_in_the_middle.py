"""exit-time: the process is ended in the middle.

Reported: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

from __future__ import annotations

import os

import torch

FOUND = "ended its process"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_CALLED: list = []


def candidate(x, weight):
    _CALLED.append(None)
    if len(_CALLED) > 30:
        os._exit(0)
    return rms(x, weight)
