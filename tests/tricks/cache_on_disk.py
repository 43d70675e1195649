"""cache, environment: results are kept in a file, by their contents, so that later processes find them.

Reported: GPU MODE (gpu-mode/reference-kernels, issue 162: file replay).
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.serialization

FOUND = "remembers|wrong on the probe"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_FOLDER = os.path.join(tempfile.gettempdir(), f"harness-tricks-{os.getuid()}")
_KEPT: dict = {}


def candidate(x, weight):
    key = x[0, 0].item()
    if key not in _KEPT:
        os.makedirs(_FOLDER, exist_ok=True)
        path = os.path.join(_FOLDER, f"{key}.pt")
        if not os.path.exists(path):
            torch.save(rms(x, weight), path)
        _KEPT[key] = torch.load(path)
    return _KEPT[key].clone()
