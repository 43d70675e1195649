"""Causal scaled dot-product attention (Vaswani et al., 2017) with grouped queries (Ainslie et al., 2023).

Each key and value head serves heads / kv_heads consecutive query heads.
"""

import math

import torch
from torch import Tensor

from variants import softmax
from variants._inputs import normal
from variants._work import least_work


def inputs(
    batch: int,
    heads: int,
    kv_heads: int,
    seq: int,
    head_dim: int,
    dtype: torch.dtype,
    generator: torch.Generator,
) -> tuple[Tensor, ...]:
    """Draw query (batch, heads, seq, head_dim), key and value (batch, kv_heads, seq, head_dim)."""
    return tuple(
        normal(batch, count, seq, head_dim, dtype=dtype, generator=generator) for count in (heads, kv_heads, kv_heads)
    )


def reference(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    seq, head_dim = query.shape[-2:]
    grouped = query.unflatten(1, (key.shape[1], -1))
    scores = torch.einsum("bgnqd,bgkd->bgnqk", grouped, key) / math.sqrt(head_dim)
    position = torch.arange(seq, device=query.device)
    past = position[:, None] >= position
    probabilities = torch.softmax(torch.where(past, scores, -math.inf), dim=-1)
    return torch.einsum("bgnqk,bgkd->bgnqd", probabilities, value).flatten(1, 2)


def work(
    batch: int, heads: int, kv_heads: int, seq: int, head_dim: int, dtype: torch.dtype, mode: str
) -> dict[str, int]:
    """Count the two matrix products over the pairs that the mask lets through, and twice as much backward.

    These are about half of all pairs (FlashAttention's convention); FlopCounterMode counts all of them.
    """
    pairs = seq * (seq + 1) // 2
    products = 2 * 2 * batch * heads * head_dim * pairs
    return least_work(
        mode,
        dtype,
        flops=(products, 2 * products),
        inputs=batch * (heads + 2 * kv_heads) * seq * head_dim,
        outputs=batch * heads * seq * head_dim,
    )


def naive(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Materialise scores, mask, softmax and weighted sum; (batch, heads, queries, head_dim).

    Where there are fewer queries than keys, the queries are the last positions.
    """
    group = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(group, dim=1)
    value = value.repeat_interleave(group, dim=1)
    queries, keys = query.shape[-2], key.shape[-2]
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    future = torch.ones(queries, keys, dtype=torch.bool, device=query.device).triu(1 + keys - queries)
    return softmax.naive(scores.masked_fill(future, -math.inf)) @ value


def blockwise(query: Tensor, key: Tensor, value: Tensor, block: int) -> Tensor:
    """Attend from `block` queries at a time to the keys up to the last of them (Rabe and Staats, 2021).

    Skips most of the masked half, and in a forward pass holds the scores of one block instead of all.
    """
    seq = query.shape[-2]
    stops = [min(start + block, seq) for start in range(0, seq, block)]
    parts = [
        naive(part, key[..., :stop, :], value[..., :stop, :])
        for part, stop in zip(query.split(block, dim=-2), stops, strict=True)
    ]
    return torch.cat(parts, dim=-2)


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
