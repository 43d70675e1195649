"""environment: others are left with another number of threads.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import torch

FOUND = "the number of threads"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    torch.set_num_threads(1 + torch.get_num_threads() % 2)
    return rms(x, weight)
