"""Variants of the library's operations that each leave something out, and are otherwise their naive ones.

By operation: what is left out, and the function. tests/test_probes.py shows that each is found wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from variants import attention, cross_entropy, gelu, layernorm, mlp, rmsnorm, rope
from variants import transformer_block as block


def with_(module: Any, replaced: dict[str, Any], *inputs: Tensor) -> Any:
    """What a module's naive variant gives while some of the module's names stand for something else."""
    with mock.patch.multiple(module, **replaced):
        return module.naive(*inputs)


def unshifted_softmax(x: Tensor) -> Tensor:
    exponentials = x.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def unshifted_loss(logits: Tensor, targets: Tensor) -> Tensor:
    log_probabilities = logits - logits.exp().sum(dim=-1, keepdim=True).log()
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).mean()


def summed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy.naive(logits, targets) * len(targets)


def smoothed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy.naive(logits, targets.clamp_min(1))  # as ignore_index=0 may be mistaken


def naive_sigmoid(gate: Tensor, up: Tensor) -> Tensor:
    grown = gate.exp()  # infinite over infinite for large gates
    return gate * grown / (1 + grown) * up


def unscaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention.naive(query * math.sqrt(query.shape[-1]), key, value)


def unmasked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return scaled_dot_product_attention(query, key, value, enable_gqa=True)


def mistaken_groups(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    group = query.shape[1] // key.shape[1]
    return attention.naive(query, key.repeat(1, group, 1, 1), value.repeat(1, group, 1, 1))


def block_without(**parts: Callable[..., Tensor]) -> Callable[..., Tensor]:
    whole = {
        "norm": rmsnorm.naive, "project": block._multiply, "rotate": rope.naive, "attend": attention.naive,
        "feed_forward": mlp.naive,
    }  # fmt: skip
    return lambda *inputs: block._block(*inputs, **(whole | parts))


def first_norm_without_eps(x: Tensor, attention_norm: Tensor, *weights: Tensor) -> Tensor:
    def norm(values: Tensor, weight: Tensor) -> Tensor:
        return rmsnorm.naive(values, weight, 0.0 if weight is attention_norm else rmsnorm.EPS)

    return block_without(norm=norm)(x, attention_norm, *weights)


def second_norm_without_eps(x: Tensor, attention_norm: Tensor, *weights: Tensor) -> Tensor:
    def norm(values: Tensor, weight: Tensor) -> Tensor:
        return rmsnorm.naive(values, weight, rmsnorm.EPS if weight is attention_norm else 0.0)

    return block_without(norm=norm)(x, attention_norm, *weights)


LEFT_OUT: dict[str, dict[str, Callable[..., Any]]] = {
    "rmsnorm": {
        "eps": partial(rmsnorm.naive, eps=0.0),
        "a hundredth of eps": partial(rmsnorm.naive, eps=1e-8),
        "eps of layernorm": partial(rmsnorm.naive, eps=1e-5),
    },
    "add_rmsnorm": {"eps": lambda x, residual, weight: (rmsnorm.naive(x + residual, weight, 0.0), x + residual)},
    "layernorm": {
        "eps": partial(layernorm.naive, eps=0.0),
        "eps of rmsnorm": partial(layernorm.naive, eps=1e-6),
        "correction": lambda x, weight, bias: (
            (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + layernorm.EPS) * weight + bias
        ),
    },
    "gelu": {
        "cubic": partial(with_, gelu, {"CUBIC": 0.0}),
        "root": partial(with_, gelu, {"SQRT_2_OVER_PI": 1.0}),
        "half": lambda x: 2 * gelu.naive(x),
    },
    "linear_gelu": {
        "bias": lambda x, weight, bias: gelu.naive(x @ weight.T),
        "cubic": lambda x, weight, bias: with_(gelu, {"CUBIC": 0.0}, x @ weight.T + bias),
    },
    "mlp": {"silu": lambda x, gate, up, down: ((x @ gate.T) * (x @ up.T)) @ down.T},
    "swiglu": {"safe sigmoid": naive_sigmoid, "gate": lambda gate, up: silu(gate)},
    "softmax": {"shift": unshifted_softmax, "sum": lambda x: (x - x.amax(-1, keepdim=True)).exp()},
    "cross_entropy": {"shift": unshifted_loss, "mean": summed_loss, "first class": smoothed_loss},
    "attention": {
        "scale": unscaled,
        "mask": unmasked,
        "shift": partial(with_, attention, {"softmax": mock.Mock(naive=unshifted_softmax)}),
        "groups": mistaken_groups,
    },
    "rope": {
        "sine": lambda x, cos, sin: x * cos,
        "sign": lambda x, cos, sin: rope.naive(x, cos, -sin),
        "pairs": lambda x, cos, sin: x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2) * sin,
    },
    "transformer_block": {
        "first eps": first_norm_without_eps,
        "second eps": second_norm_without_eps,
        "rotation": block_without(rotate=lambda x, cos, sin: x),
        "mask": block_without(attend=unmasked),
        "scale": block_without(attend=unscaled),
        "sum with the input": lambda x, *weights: block.naive(x, *weights) - x,
    },
}
