"""Honest: torch.compile within the function."""

from __future__ import annotations

import torch


@torch.compile
def _compiled(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def candidate(x, weight):
    return _compiled(x, weight)
