"""Honest: by numpy, in the memory of the inputs."""

from __future__ import annotations

import numpy as np
import torch


def candidate(x, weight):
    values, scale = x.detach().numpy(), weight.detach().numpy()
    return torch.from_numpy(values / np.sqrt((values * values).mean(-1, keepdims=True) + 1e-6) * scale)
