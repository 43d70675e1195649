"""The feed-forward network of a Llama block: SwiGLU between linear layers without bias (Shazeer, 2020)."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from variants import swiglu
from variants._inputs import linear_weight, normal
from variants._work import least_work


def weights(hidden: int, intermediate: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Draw gate and up, each (intermediate, hidden), and down (hidden, intermediate)."""
    gate = linear_weight(intermediate, hidden, dtype, generator)
    up = linear_weight(intermediate, hidden, dtype, generator)
    return gate, up, linear_weight(hidden, intermediate, dtype, generator)


def inputs(
    rows: int, hidden: int, intermediate: int, dtype: torch.dtype, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Draw x (rows, hidden) and the weights."""
    x = normal(rows, hidden, dtype=dtype, generator=generator)
    return x, *weights(hidden, intermediate, dtype, generator)


def reference(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    gated, raised = torch.einsum("...h,pih->p...i", x, torch.stack((gate, up)))
    return torch.einsum("...i,hi->...h", swiglu.reference(gated, raised), down)


def work(rows: int, hidden: int, intermediate: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count the three matrix products, and twice as much for their gradients."""
    products = 3 * 2 * rows * hidden * intermediate
    return least_work(
        mode,
        dtype,
        flops=(products, 2 * products),
        inputs=rows * hidden + 3 * hidden * intermediate,
        outputs=rows * hidden,
    )


def naive(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Multiply by the transposed weights, with SwiGLU by hand between; shaped as x."""
    return swiglu.naive(x @ gate.T, x @ up.T) @ down.T


def fused(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return linear(swiglu.fused(linear(x, gate), linear(x, up)), down)
