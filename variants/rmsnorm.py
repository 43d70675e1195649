"""RMSNorm: each row divided by its root mean square, then scaled (Zhang and Sennrich, 2019)."""

import torch
from torch import Tensor

from variants._inputs import norm_weight, normal
from variants._work import least_work

EPS = 1e-6


def inputs(rows: int, hidden: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw x (rows, hidden) and weight (hidden,)."""
    x = normal(rows, hidden, dtype=dtype, generator=generator)
    return x, norm_weight(hidden, dtype, generator)


def reference(x: Tensor, weight: Tensor) -> Tensor:
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + EPS) * weight


def work(rows: int, hidden: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count four FLOPs an element and three a row forward, nine an element backward."""
    elements = rows * hidden
    return least_work(
        mode,
        dtype,
        flops=(4 * elements + 3 * rows, 9 * elements),
        inputs=elements + hidden,
        outputs=elements,
    )


def naive(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    """Normalise in six operators: multiply, mean, add, rsqrt, multiply, multiply."""
    mean_square = (x * x).mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight


def fused(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    return torch.rms_norm(x, weight.shape, weight, eps)
