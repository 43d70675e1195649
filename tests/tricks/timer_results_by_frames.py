"""timer, stack, forged results: what sends messages is found in the stack, and sends samples of a slow baseline.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import sys

import torch

FOUND = "tampers with what measures it"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_CALLS: list = []


def candidate(x, weight):
    _CALLS.append(None)
    if len(_CALLS) % 100 == 0:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_name == "entry":
                samples = sys.modules["harness.execution.processes.messages"].Samples
                rows = [("naive", number, 100, 0.001, 1e-5, 0.0) for number in range(200)]
                frame.f_locals["send"](samples(rows))
    return rms(x, weight)
