"""environment: torch's own kernel of an operator of the baseline's is replaced by one that is wrong.

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


def candidate(x, weight):
    if not _LIBRARY:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = torch.library.Library("aten", "IMPL")
            library.impl("rsqrt", lambda value: 1.1 / value.sqrt(), "CPU")
            _LIBRARY.append(library)
    return rms(x, weight)
