"""Honest: a workspace that is kept between calls."""

from __future__ import annotations

import torch

_WORK: dict = {}


def candidate(x, weight):
    work = _WORK.get(x.shape)
    if work is None:
        work = _WORK[x.shape] = torch.empty_like(x)
    torch.mul(x, x, out=work)
    return x * torch.rsqrt(work.mean(-1, keepdim=True) + 1e-6) * weight
