"""Honest: all of the work in a pool of threads, which it waits for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

_POOL = ThreadPoolExecutor(1)


def candidate(x, weight):
    return _POOL.submit(torch.rms_norm, x, x.shape[-1:], weight, 1e-6).result()
