"""Honest: a pool that is kept between calls, and handed to one call at a time."""

from __future__ import annotations

import concurrent.futures
import threading

import torch


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_LOCK = threading.Lock()
_POOL: list = []


def candidate(x, weight):
    with _LOCK:
        if not _POOL:
            _POOL.append(concurrent.futures.ThreadPoolExecutor(2))
        return torch.cat(list(_POOL[0].map(lambda part: rms(part, weight), x.split(max(1, len(x) // 2)))))
