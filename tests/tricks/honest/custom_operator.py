"""Honest: an operator of its own, registered with torch."""

from __future__ import annotations

import torch


@torch.library.custom_op("harness_tricks::rms", mutates_args=())
def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


@_rms.register_fake
def _(x, weight):
    return torch.empty_like(x)


def candidate(x, weight):
    return _rms(x, weight)
