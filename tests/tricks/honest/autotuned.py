"""Honest: the faster of two ways is found out in the first calls."""

from __future__ import annotations

import time

import torch


def _fused(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def _plain(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


_TIMES: dict = {_fused: [], _plain: []}
_best = None


def candidate(x, weight):
    global _best
    if _best is not None:
        return _best(x, weight)
    way = min(_TIMES, key=lambda way: len(_TIMES[way]))
    start = time.perf_counter()
    result = way(x, weight)
    _TIMES[way].append(time.perf_counter() - start)
    if all(len(times) > 4 for times in _TIMES.values()):
        _best = min(_TIMES, key=lambda way: min(_TIMES[way]))
    return result
