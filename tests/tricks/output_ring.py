"""aliasing: three buffers are returned in turn, so that each third call writes over what the first has returned.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import torch

FOUND = "the same memory"

_RING: list = []


def candidate(x, weight):
    if not _RING or _RING[0].shape != x.shape:
        _RING[:] = [torch.empty_like(x) for _ in range(3)]
    _RING.append(_RING.pop(0))
    result = _RING[0]
    torch.mul(x, torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6), out=result)
    return result.mul_(weight)
