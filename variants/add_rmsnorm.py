"""Residual addition, then RMSNorm: the seam between two layers of a pre-norm transformer."""

import torch
from torch import Tensor

from variants import rmsnorm
from variants._inputs import norm_weight, normal
from variants._work import least_work


def inputs(rows: int, hidden: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Draw x (rows, hidden), residual (rows, hidden) and weight (hidden,)."""
    x = normal(rows, hidden, dtype=dtype, generator=generator)
    residual = normal(rows, hidden, dtype=dtype, generator=generator)
    return x, residual, norm_weight(hidden, dtype, generator)


def reference(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return rmsnorm.reference(total, weight), total


def work(rows: int, hidden: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count RMSNorm's FLOPs and one more an element each way."""
    elements = rows * hidden
    norm = {way: rmsnorm.work(rows, hidden, dtype, way)["flops"] for way in ("forward", "backward")}
    return least_work(
        mode,
        dtype,
        flops=(norm["forward"] + elements, norm["backward"] + elements),
        inputs=2 * elements + hidden,
        outputs=2 * elements,
        saved=elements + hidden,  # the sum stands for both its terms
        gradients=elements + hidden,  # which share one gradient
    )


def naive(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the normalised sum and the sum itself, the next residual; each (rows, hidden)."""
    total = x + residual
    return rmsnorm.naive(total, weight), total


def fused(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `naive` does; torch has no single operator for the pair."""
    total = x + residual
    return rmsnorm.fused(total, weight), total
