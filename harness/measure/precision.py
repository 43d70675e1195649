"""Precision: values in double precision, and functions that hold values of their own evaluated in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.measure.tensors import with_values
from harness.measure.trees import tree_map


class Exactly(TorchFunctionMode):
    """Every floating-point tensor that reaches a function of torch does so in double precision.

    It serves functions that hold weights of their own, wherever they hold them: in a closure, a global, a module.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        attribute = name.startswith("__") and name.endswith("__") and name.strip("_") in ("get", "set", "delete")
        if attribute or function is torch.autograd.grad:  # which is about tensors, not about their values
            return function(*args, **(kwargs or {}))
        written = 1 if name.endswith("_") and not name.endswith("__") else 0  # the tensor that is written in place
        args = (*args[:written], *tree_map(_widened, list(args[written:])))
        kwargs = {key: value if key == "out" else tree_map(_widened, value) for key, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


@contextlib.contextmanager
def layer_by_layer(dtype: torch.dtype) -> Iterator[None]:
    """Functions in double precision over parameters that stay in their dtype: only those of one function are widened.

    Autograd keeps the parameters for the backward pass as they are, and not as the functions see them.
    """

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.float64:
            return tensor
        short = tensor.to(dtype)
        return short if torch.equal(short.double(), tensor) else tensor

    def unpack(kept: torch.Tensor) -> torch.Tensor:
        return kept.double() if kept.dtype == dtype else kept

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack), Exactly():
        yield


def _widened(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point and value.dtype != torch.float64:
        return value.double()
    return value.to(torch.complex128) if value.dtype.is_complex else value


def number(value: complex) -> torch.Tensor:
    """A Python number with nothing lost."""
    kind = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(value)]
    return torch.tensor(value, dtype=kind, device="cpu")


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether its values are rounded: floating-point or complex."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In double precision, real or complex."""
    return tensor.to(torch.complex128) if tensor.dtype.is_complex else tensor.double()


def finite(values: torch.Tensor) -> torch.Tensor:
    """The values with 0 in place of NaN and infinity, in either part of a complex number."""
    if values.dtype.is_complex:
        return torch.view_as_complex(torch.view_as_real(values.resolve_conj()).nan_to_num(0.0, 0.0, 0.0))
    return values.nan_to_num(0.0, 0.0, 0.0)


def upcast(value: Any) -> Any:
    """A tensor in double precision, integers and what is no tensor as they are."""
    if not isinstance(value, torch.Tensor) or not is_inexact(value):
        return value
    return with_values(value, lambda values: wide(values.resolve_conj().resolve_neg()))
