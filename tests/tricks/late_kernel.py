"""environment, shape-specific: once it is timed, torch's own kernel of an operator is replaced by a slow one in Python.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import warnings

import torch
import torch.library

FOUND = "kernels of torch's operators"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_LIBRARY: list = []
_CALLS: list = []


def candidate(x, weight):
    _CALLS.append(None)
    if len(_CALLS) == 500:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = torch.library.Library("aten", "IMPL")
            library.impl("rsqrt", lambda value: 1 / value.sqrt(), "CPU")
            _LIBRARY.append(library)
    return rms(x, weight)
