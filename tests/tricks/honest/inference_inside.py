"""Honest: entered within the call, where no gradients are wanted."""

from __future__ import annotations

import torch


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    with torch.inference_mode(not torch.is_grad_enabled()):
        return rms(x, weight)
