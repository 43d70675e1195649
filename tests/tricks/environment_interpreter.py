"""environment: the interpreter is left with a tracing function that slows the others.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import sys

import torch

FOUND = "the tracing function"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    sys.settrace(lambda frame, event, argument: None)
    return rms(x, weight)
