"""Modules: copies of an nn.Module in a dtype and on a device, and what a call of one leaves in its buffers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from harness.measure import torch_private
from harness.measure.precision import is_inexact
from harness.measure.tensors import odd, own, same


class ModuleError(ValueError):
    """A module that cannot be copied in another dtype, and why."""


def copied(module: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """A copy with `convert` of every parameter and buffer; what is shared stays shared, hooks and modes are kept.

    Raises ModuleError for a module that has a parameter or buffer without contents, or of a kind that has no such copy.
    """
    tensors: list[tuple[str, torch.Tensor]] = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    done: dict[int, Any] = {}
    for name, tensor in tensors:
        reason = _unfit(tensor)
        if reason is not None:
            raise ModuleError(f"its {name} is {reason}")
        if id(tensor) not in done:
            done[id(tensor)] = _like(tensor, convert(tensor).detach())
    for name, part in module.named_modules():
        if type(part).__module__.startswith("torch.ao.nn.quantized"):
            raise ModuleError(f"its {name or 'kind'} is a quantized {type(part).__name__}, which has no other dtype")
    ours = {id(tensor) for tensor in done.values()}
    try:
        copied = copy.deepcopy(module, done)  # which takes what it is given for what it has copied already
    except Exception as error:
        raise ModuleError(f"a {type(module).__name__} cannot be copied: {error}") from error
    if any(id(parameter) not in ours for parameter in copied.parameters()):
        kind = type(module).__name__
        raise ModuleError(
            f"a {kind} has no copy in float64, to be checked against; give the module that it was made of"
        )
    return copied


def measured(module: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """A copy whose floating-point parameters and buffers are rounded to a dtype, on a device.

    Integers and booleans are kept, and so is float8, which a module widens by itself where it computes.
    """
    return copied(module, lambda tensor: _rounded(tensor, dtype).to(device, copy=True))


def exact(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy on the CPU of the same values as `measured` has, in double precision."""
    return copied(module, lambda tensor: _widened(_rounded(tensor.cpu(), dtype)))


def narrow(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy on the CPU like `exact`'s, but for its parameters, which are in the dtype."""
    own = torch.device("cpu")
    return copied(
        module,
        lambda tensor: (
            _rounded(tensor, dtype).to(own, copy=True)
            if isinstance(tensor, nn.Parameter)
            else _widened(_rounded(tensor.cpu(), dtype))
        ),
    )


def exact_bytes(module: nn.Module) -> int:
    """The memory that the parameters of `exact`'s copy take, and the same again to perturb them."""
    known = (value for value in module.parameters() if not nn.parameter.is_lazy(value) and is_inexact(value))
    return 2 * sum(8 * value.numel() for value in known)


def adopt(module: nn.Module, other: nn.Module) -> list[str]:
    """Loads into a module what of another's state fits by name and shape; returns the names that keep what they had."""
    theirs, own = other.state_dict(), module.state_dict()
    fitting = {name: value for name, value in theirs.items() if name not in own or _same_shape(own[name], value)}
    return list(module.load_state_dict(fitting, strict=False).missing_keys)


def eager(module: Any) -> Any:
    """The module that torch.compile was given; anything else as it is."""
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else module


class State:
    """What a module holds beside its inputs: its trainable parameters, and its buffers as they were at first.

    `narrow` is the dtype of its parameters if these are too many for double precision; `again` makes the same module.
    """

    def __init__(
        self, module: nn.Module, narrow: torch.dtype | None = None, again: Callable[[], nn.Module] | None = None
    ):
        self.module = module
        self.narrow = narrow
        self._again = again
        self._versions = self.versions()
        named = eager(module).named_parameters()
        self.parameters = {name: value for name, value in named if value.requires_grad}
        self._buffers = [
            (f"{prefix}.{key}" if prefix else key, owner, key, buffer, own(buffer))
            for prefix, owner in eager(module).named_modules()
            for key, buffer in owner.named_buffers(recurse=False)
        ]

    def versions(self) -> list[int]:
        """How often each of its parameters has been written in place."""
        return [torch_private.version(parameter) for parameter in self.module.parameters()]

    def renew(self) -> None:
        """Makes its parameters what they were, if somebody has written to them."""
        if self._again is None or self.versions() == self._versions:
            return
        for parameter, fresh in zip(self.module.parameters(), self._again().parameters(), strict=True):
            parameter.data.copy_(fresh.data)
        self._versions = self.versions()

    def restore(self) -> None:
        """Puts back the buffers that calls have changed, behind autograd's back: a graph that is kept stays usable."""
        for _, owner, key, buffer, before in self._buffers:
            if getattr(owner, key, None) is not buffer:
                setattr(owner, key, buffer)
            if not same(buffer, before):
                buffer.data.copy_(before)

    def begin_with(self, values: Mapping[str, torch.Tensor]) -> None:
        """Takes these values, by the names of buffers, for what they were at first."""
        for name, _, _, buffer, before in self._buffers:
            if name in values and _same_shape(buffer, values[name]):
                for kept in (buffer, before):
                    kept.data.copy_(values[name])

    def buffers(self) -> Iterator[tuple[str, Any]]:
        """Copies of the buffers as they are now, by name."""
        return ((name, own(getattr(owner, key, None))) for name, owner, key, *_ in self._buffers)

    def changed(self) -> set[str]:
        """The names of the buffers that are not what they were at first."""
        now = dict(self.buffers())
        return {name for name, *_, before in self._buffers if not same(now[name], before)}


def _same_shape(left: Any, right: Any) -> bool:
    if nn.parameter.is_lazy(left) or nn.parameter.is_lazy(right):
        return False
    return getattr(left, "shape", None) == getattr(right, "shape", None)


def _unfit(tensor: torch.Tensor) -> str | None:
    """Why a tensor has no copy in another dtype."""
    if nn.parameter.is_lazy(tensor):
        return "not initialised yet; call the module once before it is given"
    return odd(tensor)


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values as the same kind of thing: a parameter or a buffer."""
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(values, requires_grad=tensor.requires_grad)
    return values.requires_grad_(tensor.requires_grad)


def _rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return tensor.to(dtype.to_complex())
    return tensor.to(dtype) if tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1 else tensor


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128, copy=True)
    return tensor.to(torch.float64, copy=True) if tensor.dtype.is_floating_point else tensor.clone()
