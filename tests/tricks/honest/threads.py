"""Honest: half of the rows in a thread that it joins."""

from __future__ import annotations

import threading

import torch


def candidate(x, weight):
    result = torch.empty_like(x)
    half = x.shape[0] // 2
    other = threading.Thread(target=_part, args=(result[half:], x[half:], weight))
    other.start()
    _part(result[:half], x[:half], weight)
    other.join()
    return result


def _part(result, x, weight):
    result.copy_(torch.rms_norm(x, x.shape[-1:], weight, 1e-6))
