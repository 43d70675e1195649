"""threads: a thread writes the result after the call has returned.

Reported: DeepReinforce, Hacks and Defenses in Automatic GPU Kernel Generation (five hacks).
"""

from __future__ import annotations

import threading
import time

import torch

FOUND = "work is left running|right in its first call only"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def candidate(x, weight):
    result = torch.empty_like(x)

    def later():
        time.sleep(0.002)
        result.copy_(rms(x, weight))

    threading.Thread(target=later).start()
    return result
