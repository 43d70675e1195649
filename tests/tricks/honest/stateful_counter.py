"""Honest: counts its calls, and says so in its log."""

from __future__ import annotations

import logging

import torch

_calls = 0


def candidate(x, weight):
    global _calls
    _calls += 1
    if _calls % 1000 == 0:
        logging.getLogger(__name__).debug("%d calls", _calls)
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
