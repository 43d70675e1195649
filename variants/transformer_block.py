"""A Llama block: attention with rotary positions, then a SwiGLU network, each normalised and residual.

The architecture is that of Touvron et al. (2023), with the grouped queries of Llama 3.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

from variants import attention, mlp, rmsnorm, rope
from variants._inputs import linear_weight, norm_weight, normal
from variants._work import least_work


def inputs(
    batch: int,
    seq: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    dtype: torch.dtype,
    generator: torch.Generator,
) -> tuple[Tensor, ...]:
    """Draw x (batch, seq, hidden), the weights in the order of their use, and rope's tables cos and sin.

    A head has hidden / heads features. Query and output weights are (hidden, hidden), key and value weights
    (kv_heads · head_dim, hidden); linear weights are (out_features, in_features) throughout.
    """
    head_dim = hidden // heads
    return (
        normal(batch, seq, hidden, dtype=dtype, generator=generator),
        norm_weight(hidden, dtype, generator),
        linear_weight(hidden, hidden, dtype, generator),
        linear_weight(kv_heads * head_dim, hidden, dtype, generator),
        linear_weight(kv_heads * head_dim, hidden, dtype, generator),
        linear_weight(hidden, hidden, dtype, generator),
        norm_weight(hidden, dtype, generator),
        *mlp.weights(hidden, intermediate, dtype, generator),
        *rope.tables(seq, head_dim, dtype),
    )


def reference(
    x: Tensor,
    attention_norm: Tensor,
    to_query: Tensor,
    to_key: Tensor,
    to_value: Tensor,
    to_output: Tensor,
    mlp_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> Tensor:
    split = (-1, cos.shape[-1])  # one dimension for the heads, one for a head's features
    normed = rmsnorm.reference(x, attention_norm)
    query, key, value = (
        torch.einsum("bsh,ndh->bnsd", normed, weight.unflatten(0, split)) for weight in (to_query, to_key, to_value)
    )
    attended = attention.reference(rope.reference(query, cos, sin), rope.reference(key, cos, sin), value)
    x = x + torch.einsum("bnsd,hnd->bsh", attended, to_output.unflatten(1, split))
    return x + mlp.reference(rmsnorm.reference(x, mlp_norm), gate, up, down)


def work(
    batch: int,
    seq: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    dtype: torch.dtype,
    mode: str,
) -> dict[str, int]:
    """Count the matrix products of projections, attention and network, and twice as much for gradients."""
    rows, head_dim = batch * seq, hidden // heads
    projections = 2 * hidden * (heads + kv_heads) * head_dim  # weights of query and output, key and value
    products = (
        2 * rows * projections
        + attention.work(batch, heads, kv_heads, seq, head_dim, dtype, "forward")["flops"]
        + mlp.work(rows, hidden, intermediate, dtype, "forward")["flops"]
    )
    return least_work(
        mode,
        dtype,
        flops=(products, 2 * products),
        inputs=rows * hidden + 2 * hidden + projections + 3 * hidden * intermediate,
        outputs=rows * hidden,
        constant_bytes=2 * seq * head_dim * dtype.itemsize,
    )


def _block(
    x: Tensor,
    attention_norm: Tensor,
    to_query: Tensor,
    to_key: Tensor,
    to_value: Tensor,
    to_output: Tensor,
    mlp_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    norm: Callable[..., Tensor],
    project: Callable[..., Tensor],
    rotate: Callable[..., Tensor],
    attend: Callable[..., Tensor],
    feed_forward: Callable[..., Tensor],
) -> Tensor:
    """Compute the block, (batch, seq, hidden), from the given parts."""
    normed = norm(x, attention_norm)
    query, key, value = (
        project(normed, weight).unflatten(-1, (-1, cos.shape[-1])).transpose(1, 2)
        for weight in (to_query, to_key, to_value)
    )
    attended = attend(rotate(query, cos, sin), rotate(key, cos, sin), value)
    x = x + project(attended.transpose(1, 2).flatten(2), to_output)
    return x + feed_forward(norm(x, mlp_norm), gate, up, down)


def _multiply(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight.T


def naive(*inputs: Tensor) -> Tensor:
    """Build the block from the naive parts."""
    return _block(
        *inputs,
        norm=rmsnorm.naive,
        project=_multiply,
        rotate=rope.naive,
        attend=attention.naive,
        feed_forward=mlp.naive,
    )


def fused(*inputs: Tensor) -> Tensor:
    """Build the block from the fused parts, but for the rotation: Neuron has no complex numbers."""
    return _block(
        *inputs,
        norm=rmsnorm.fused,
        project=linear,
        rotate=rope.naive,
        attend=attention.fused,
        feed_forward=mlp.fused,
    )
