"""Softmax over the last dimension, made safe against overflow by subtracting each row's maximum."""

import torch
from torch import Tensor

from variants._inputs import normal
from variants._work import least_work


def inputs(rows: int, columns: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor]:
    """Draw x (rows, columns)."""
    return (normal(rows, columns, dtype=dtype, generator=generator),)


def reference(x: Tensor) -> Tensor:
    return torch.exp(x - torch.logsumexp(x, dim=-1, keepdim=True))


def work(rows: int, columns: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count five FLOPs an element forward, four backward, which reads the output instead of the input."""
    elements = rows * columns
    return least_work(mode, dtype, flops=(5 * elements, 4 * elements), inputs=elements, outputs=elements)


def naive(x: Tensor) -> Tensor:
    """Compute it in five operators: maximum, subtract, exp, sum, divide."""
    with torch.no_grad():  # any shift gives the same result, so that its gradient is rounding error alone
        highest = x.amax(dim=-1, keepdim=True)
    exponentials = torch.exp(x - highest)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def fused(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)
