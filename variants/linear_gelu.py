"""A linear layer followed by GELU: the first half of a GPT-2 feed-forward network."""

import torch
from torch import Tensor

from variants import gelu
from variants._inputs import linear_weight, normal
from variants._work import least_work


def inputs(
    rows: int, in_features: int, out_features: int, dtype: torch.dtype, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Draw x (rows, in_features), weight (out_features, in_features) and bias (out_features,)."""
    x = normal(rows, in_features, dtype=dtype, generator=generator)
    weight = linear_weight(out_features, in_features, dtype, generator)
    return x, weight, normal(out_features, dtype=dtype, generator=generator, std=0.1)


def reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return gelu.reference(torch.einsum("ri,oi->ro", x, weight) + bias)


def work(rows: int, in_features: int, out_features: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count the matrix product, and twice as much for its two gradients."""
    product = 2 * rows * in_features * out_features
    return least_work(
        mode,
        dtype,
        flops=(product, 2 * product),
        inputs=rows * in_features + out_features * in_features + out_features,
        outputs=rows * out_features,
    )


def naive(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Multiply by the transposed weight, add, and take GELU by hand; (rows, out_features)."""
    return gelu.naive(x @ weight.T + bias)


def fused(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return gelu.fused(torch.nn.functional.linear(x, weight, bias))
