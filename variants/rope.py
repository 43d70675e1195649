"""Rotary position embedding: features rotated in pairs, by an angle for each position (Su et al., 2021).

Feature i is paired with feature i + head_dim / 2, as in the Llama models of Hugging Face.
"""

import torch
from torch import Tensor

from variants._inputs import normal
from variants._work import least_work

THETA = 500_000.0  # the base of the angles in Llama 3


def tables(seq: int, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Make the cosines and sines, each (seq, head_dim): the angles of the pairs, written twice."""
    frequencies = THETA ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(seq, dtype=torch.float64), frequencies).repeat(1, 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def inputs(
    batch: int, heads: int, seq: int, head_dim: int, dtype: torch.dtype, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Draw x (batch, heads, seq, head_dim); make cos and sin, each (seq, head_dim), without gradients."""
    x = normal(batch, heads, seq, head_dim, dtype=dtype, generator=generator)
    return x, *tables(seq, head_dim, dtype)


def reference(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second, cos, sin = x[..., :half], x[..., half:], cos[..., :half], sin[..., :half]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def work(batch: int, heads: int, seq: int, head_dim: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count three FLOPs an element each way; backward, which needs no x, turns the other way."""
    elements = batch * heads * seq * head_dim
    return least_work(
        mode,
        dtype,
        flops=(3 * elements, 3 * elements),
        inputs=elements,
        outputs=elements,
        constant_bytes=2 * seq * head_dim * dtype.itemsize,
        saved=0,
    )


def naive(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate in six operators: chunk, negate, concatenate, multiply, multiply, add."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def fused(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate by one complex multiplication, in float32 at least: bfloat16 has no complex counterpart."""
    wide = torch.promote_types(x.dtype, torch.float32)
    half = x.shape[-1] // 2
    rotation = torch.complex(cos[..., :half].to(wide), sin[..., :half].to(wide))
    rotated = torch.complex(*x.to(wide).chunk(2, dim=-1)) * rotation
    return torch.cat((rotated.real, rotated.imag), dim=-1).to(x.dtype)
