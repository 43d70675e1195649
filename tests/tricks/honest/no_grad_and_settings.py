"""Honest: sets what it needs, and puts it back."""

from __future__ import annotations

import torch


def candidate(x, weight):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
    finally:
        torch.set_num_threads(threads)
