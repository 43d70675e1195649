"""Honest: another way for each shape."""

from __future__ import annotations

import torch


def candidate(x, weight):
    if x.shape[-1] >= 128:
        return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight
