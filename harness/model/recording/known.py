"""Modules and functions of torch that compute what one of the library's operations does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from harness.configuration.operation import resolve
from harness.measure.modules import exact
from harness.measure.precision import upcast
from harness.measure.trees import flatten, tree_map

SAME = 2e-5  # of the largest output: a difference up to which two functions are the same, one computing in float32

Variant = Callable[..., Any]


@dataclass(frozen=True)
class Known:
    """How an operation of the library is called in place of a module or of a function of torch."""

    words: tuple[str, ...]  # in the names of classes that may compute it
    forward: Callable[[Variant, nn.Module, Sequence[Any]], Any] | None = None  # in place of a module's
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # of torch's, by their last name


def _rms_eps(module: Any, x: torch.Tensor) -> float:
    eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    return torch.finfo(x.dtype).eps if eps is None else float(eps)


def _eps(module: Any) -> float:
    return float(module.eps)


def _gate(module: Any) -> list[torch.Tensor]:
    projections = [getattr(module, name) for name in ("gate_proj", "up_proj", "down_proj")]
    if any(getattr(projection, "bias", None) is not None for projection in projections):
        raise ValueError("with a bias")
    return [projection.weight for projection in projections]


def _softmax(variant: Variant, input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    if dim not in (-1, input.dim() - 1):
        raise ValueError("over another dimension")
    return variant(input if dtype is None else input.to(dtype))


def _attention(variant: Variant, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
               is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    if attn_mask is not None or dropout_p or not is_causal or scale not in (None, query.shape[-1] ** -0.5):
        raise ValueError("not causal, or with a mask, dropout or scale of its own")
    return variant(query, key, value)


def _layer_norm(variant: Variant, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None,
                eps: float = 1e-5) -> Any:  # fmt: skip
    return variant(input, weight, bias, eps=eps)


def _rms_norm(variant: Variant, input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    return variant(input, weight, eps=torch.finfo(input.dtype).eps if eps is None else eps)


def _gelu(variant: Variant, input: Any, *, approximate: str = "none") -> Any:
    return variant(input)


def _cross_entropy(variant: Variant, input: Any, target: Any, **options: Any) -> Any:
    return variant(input, target)


OPERATIONS = {
    "rmsnorm": Known(
        ("rmsnorm", "rms_norm"),
        lambda variant, module, args: variant(args[0], module.weight, eps=_rms_eps(module, args[0])),
        {"rms_norm": _rms_norm},
    ),
    "layernorm": Known(
        ("layernorm",),
        lambda variant, module, args: variant(args[0], module.weight, module.bias, eps=_eps(module)),
        {"layer_norm": _layer_norm},
    ),
    "softmax": Known(("softmax",), lambda variant, module, args: variant(args[0]), {"softmax": _softmax}),
    "gelu": Known(("gelu",), lambda variant, module, args: variant(args[0]), {"gelu": _gelu}),
    "swiglu": Known(("swiglu", "siluandmul"), lambda variant, module, args: variant(*args)),
    "mlp": Known(("mlp", "feedforward"), lambda variant, module, args: variant(args[0], *_gate(module))),
    "cross_entropy": Known(
        ("crossentropy",), lambda variant, module, args: variant(*args), {"cross_entropy": _cross_entropy}
    ),
    "attention": Known((), None, {"scaled_dot_product_attention": _attention}),
}
LIBRARY = "variants"


def library(operation: str, variant: str) -> str:
    """The dotted path of a variant of the library."""
    return f"{LIBRARY}.{operation}.{variant}"


def module_forward(name: str) -> Callable[..., Any] | None:
    """A module's forward that calls the library's variant of this dotted path; None for any other name."""
    package, _, rest = name.partition(".")
    operation = OPERATIONS.get(rest.partition(".")[0])
    if package != LIBRARY or operation is None or operation.forward is None:
        return None
    call, variant = operation.forward, resolve(name, "replace.by")
    return lambda self, *args, **kwargs: call(variant, self, (*args, *kwargs.values()))


def torch_function(name: str) -> Callable[..., Any] | None:
    """The function of torch that the library's variant of this dotted path stands for; None for any other name."""
    package, _, rest = name.partition(".")
    operation = OPERATIONS.get(rest.partition(".")[0])
    if package != LIBRARY or operation is None or not operation.functions:
        return None
    (adapt,) = operation.functions.values()
    return partial(adapt, resolve(name, "replace.by"))


def of_module(module: nn.Module, given: Mapping[str, Any]) -> list[str]:
    """The operations of the library that a module computes, tried on the arguments of a call in float64."""
    name = type(module).__name__.lower().replace("_", "")
    likely = [key for key, known in OPERATIONS.items() if known.forward and any(word in name for word in known.words)]
    found = []
    for operation in likely:
        forward = module_forward(library(operation, "naive"))
        with contextlib.suppress(Exception):  # whatever does not fit is another function
            copy = exact(module, torch.float64)
            assert forward is not None
            given_exact = tree_map(upcast, dict(given))
            if same(copy(*given_exact["args"], **given_exact["kwargs"]),
                     forward(copy, *given_exact["args"], **given_exact["kwargs"])):  # fmt: skip
                found.append(operation)
    return found


def of_function(name: str, given: Mapping[str, Any]) -> list[str]:
    """The operations of the library that a call of a function of torch computes, tried in float64."""
    last = name.rpartition(".")[2]
    likely = [key for key, known in OPERATIONS.items() if last in known.functions]
    found = []
    for operation in likely:
        with contextlib.suppress(Exception):
            args, kwargs = tree_map(upcast, list(given["args"])), tree_map(upcast, dict(given["kwargs"]))
            theirs = resolve(name, "replace.by")(*args, **kwargs)
            ours = torch_function(library(operation, "naive"))
            if ours is not None and same(theirs, ours(*args, **kwargs)):
                found.append(operation)
    return found


def same(left: Any, right: Any) -> bool:
    """Whether two outputs in float64 are those of one function."""
    pairs = list(zip(flatten(left), flatten(right), strict=True))
    return bool(pairs) and all(
        a.shape == b.shape and bool((a - b).abs().max() <= SAME * (1 + a.abs().max())) for a, b in pairs
    )
