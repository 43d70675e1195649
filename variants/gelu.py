"""GELU in its tanh approximation, as in GPT-2 (Hendrycks and Gimpel, 2016)."""

import math

import torch
from torch import Tensor

from variants._inputs import normal
from variants._work import least_work

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def inputs(rows: int, hidden: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor]:
    """Draw x (rows, hidden)."""
    return (normal(rows, hidden, dtype=dtype, generator=generator),)


def reference(x: Tensor) -> Tensor:
    # (1 + tanh u) / 2 is the logistic function of 2u.
    return x * torch.sigmoid(2 * SQRT_2_OVER_PI * (x + CUBIC * x.pow(3)))


def work(rows: int, hidden: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count nine FLOPs an element forward, seventeen backward, where tanh is computed again."""
    elements = rows * hidden
    return least_work(mode, dtype, flops=(9 * elements, 17 * elements), inputs=elements, outputs=elements)


def naive(x: Tensor) -> Tensor:
    """Compute x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2 in nine operators."""
    inner = SQRT_2_OVER_PI * (x + CUBIC * (x * x * x))
    return 0.5 * x * (1 + torch.tanh(inner))


def fused(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")
