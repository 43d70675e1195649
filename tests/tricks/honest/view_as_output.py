"""Honest: a view of a larger tensor as its output."""

from __future__ import annotations

import torch


def candidate(x, weight):
    wide = torch.empty(x.shape[0], 2 * x.shape[1], dtype=x.dtype)
    wide[:, : x.shape[1]] = torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
    return wide[:, : x.shape[1]]
