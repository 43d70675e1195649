"""import-time: a function of torch that the others use is made slower when the module is imported.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import time

import torch

FOUND = "changes of torch.rms_norm"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_known = torch.rms_norm


def _slow(*arguments):
    time.sleep(0.0005)
    return _known(*arguments)


torch.rms_norm = _slow


def candidate(x, weight):
    return _known(x, x.shape[-1:], weight, 1e-6)
