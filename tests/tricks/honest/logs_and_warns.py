"""Honest: says in each call what it does."""

from __future__ import annotations

import sys
import warnings

import torch


def candidate(x, weight):
    print("called", file=sys.stderr)
    warnings.warn("there is a faster way", stacklevel=2)
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
