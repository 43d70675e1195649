"""Honest: what is needed backward is computed once more."""

from __future__ import annotations

import torch
import torch.utils.checkpoint


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    return torch.utils.checkpoint.checkpoint(rms, x, weight, use_reentrant=False)
