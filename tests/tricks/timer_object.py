"""timer: the object that times is found in memory and one of its methods hidden by another.

Reported: GPU MODE's competitions (gpu-mode/reference-kernels, issue 162: timers and statistics patched).
"""

from __future__ import annotations

import gc

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    for held in gc.get_objects():
        if type(held).__name__ == "Sampler" and "_time" not in vars(held):
            known = held._time
            held._time = lambda *given, **named: _shorter(known(*given, **named))
    return rms(x, weight)


def _shorter(sample):
    object.__setattr__(sample, "seconds", sample.seconds / 10)
    return sample
