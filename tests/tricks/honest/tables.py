"""Honest: a table of constants, made once for each width."""

from __future__ import annotations

import torch

_TABLES: dict = {}


def candidate(x, weight):
    key = x.shape[-1], x.dtype
    if key not in _TABLES:
        _TABLES[key] = torch.full((1,), 1.0 / x.shape[-1], dtype=x.dtype)
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) * _TABLES[key] + 1e-6) * weight
