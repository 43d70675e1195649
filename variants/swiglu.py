"""SwiGLU: one half of a projection, gated by the SiLU of the other (Shazeer, 2020)."""

import torch
from torch import Tensor

from variants._inputs import normal
from variants._work import least_work


def inputs(rows: int, intermediate: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw gate and up, each (rows, intermediate)."""
    gate = normal(rows, intermediate, dtype=dtype, generator=generator)
    up = normal(rows, intermediate, dtype=dtype, generator=generator)
    return gate, up


def reference(gate: Tensor, up: Tensor) -> Tensor:
    return gate * up / (1 + torch.exp(-gate))


def work(rows: int, intermediate: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count three FLOPs an element forward (the sigmoid as one), eight backward."""
    elements = rows * intermediate
    return least_work(mode, dtype, flops=(3 * elements, 8 * elements), inputs=2 * elements, outputs=elements)


def naive(gate: Tensor, up: Tensor) -> Tensor:
    """Gate in three operators: sigmoid, multiply, multiply."""
    return gate * torch.sigmoid(gate) * up


def fused(gate: Tensor, up: Tensor) -> Tensor:
    """Gate in two operators: SiLU, multiply."""
    return torch.nn.functional.silu(gate) * up
