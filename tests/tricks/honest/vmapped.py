"""Honest: written for a row, and mapped over all of them."""

from __future__ import annotations

import torch


def _row(x, weight):
    return x * torch.rsqrt((x * x).mean() + 1e-6) * weight


def candidate(x, weight):
    return torch.vmap(_row, in_dims=(0, None))(x, weight)
