"""laziness: a tensor subclass computes when it is looked at.

Reported: DeepReinforce, Hacks and Defenses in Automatic GPU Kernel Generation (five hacks).
"""

from __future__ import annotations

import torch

FOUND = "a subclass of torch.Tensor"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [value.work() if isinstance(value, Lazy) else value for value in args]
        return function(*args, **(kwargs or {}))


def candidate(x, weight):
    result = torch.empty_like(x).as_subclass(Lazy)
    result.work = lambda: rms(x, weight)
    return result
