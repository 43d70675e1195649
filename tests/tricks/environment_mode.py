"""environment: a mode over the dispatch of torch is left active, through which all others go.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import torch
import torch.overrides

FOUND = "modes over torch's functions"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


class Slow(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def candidate(x, weight):
    Slow().__enter__()
    return rms(x, weight)
