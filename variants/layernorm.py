"""LayerNorm: each row centred, divided by its standard deviation, scaled and shifted (Ba et al., 2016)."""

import torch
from torch import Tensor

from variants._inputs import norm_weight, normal
from variants._work import least_work

EPS = 1e-5


def inputs(rows: int, hidden: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Draw x (rows, hidden), weight (hidden,) and bias (hidden,)."""
    x = normal(rows, hidden, dtype=dtype, generator=generator)
    bias = normal(hidden, dtype=dtype, generator=generator, std=0.1)
    return x, norm_weight(hidden, dtype, generator), bias


def reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(variance + EPS) * weight + bias


def work(rows: int, hidden: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count seven FLOPs an element and four a row forward, thirteen an element backward."""
    elements = rows * hidden
    return least_work(
        mode,
        dtype,
        flops=(7 * elements + 4 * rows, 13 * elements),
        inputs=elements + 2 * hidden,
        outputs=elements,
        saved=elements + hidden,  # the bias has no part in any gradient
    )


def naive(x: Tensor, weight: Tensor, bias: Tensor, eps: float = EPS) -> Tensor:
    """Normalise in nine operators: the mean, the variance, then scale and shift."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred * centred).mean(dim=-1, keepdim=True)
    return centred * torch.rsqrt(variance + eps) * weight + bias


def fused(x: Tensor, weight: Tensor, bias: Tensor, eps: float = EPS) -> Tensor:
    return torch.layer_norm(x, weight.shape, weight, bias, eps)
