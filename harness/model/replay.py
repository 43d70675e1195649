"""What the cases of a model run, by the names that their YAML files give: its modules, its inputs, recorded calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from harness.configuration.errors import UsageError
from harness.configuration.operation import Function, resolve
from harness.measure.trees import tree_map
from harness.model.plain import DICT
from harness.model.recording import known
from harness.model.recording.build import build, described
from harness.model.recording.replace import replaced
from harness.model.recording.signature import drawn
from harness.model.recording.watch import names_of


def module(
    builder: Function,
    inputs: Function | None = None,
    path: str = "",
    replace: Sequence[Mapping[str, Any]] = (),
    by_position: int = 0,
    same: Mapping[str, str] | None = None,
) -> nn.Module:
    """The module at a path in the model that a builder makes, or the model itself, with replacements.

    Weights are those that the builder draws from the present seed. If the model calls it with so many of its arguments
    `by_position`, or with the `same` tensor for one as for another, the module is one that takes them by name, the same
    ones once, and calls it so. Raises UsageError if the model has no such module, and as `replaced` does.
    """
    model = build(builder, inputs, torch.initial_seed()).module
    try:
        found = model.get_submodule(path) if path else model
        new = replaced(copy.deepcopy(found), replace) if replace else found
    except AttributeError as error:
        names = ", ".join(name for name, _ in model.named_children()) or "none"
        raise UsageError(f"model={described(builder)}: has no module {path} now; at its top: {names}") from error
    return Called(new, names_of(type(found).forward)[:by_position], same or {}) if by_position or same else new


class Called(nn.Module):
    """A module that is called as its model does: with arguments of some names by position, and the same for others."""

    def __init__(self, module: nn.Module, by_position: Sequence[str], same: Mapping[str, str]):
        super().__init__()
        self.module = module
        self.training = module.training
        self._by_position = tuple(by_position)
        self._same = dict(same)

    def forward(self, **given: Any) -> Any:
        for name, other in self._same.items():
            given[name] = given[other]
        first = [given.pop(name) for name in self._by_position]
        return self.module(*first, **given)


def function(
    *, function: str, by_name: Sequence[str] = (), kwargs: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A function of torch, or a variant of the library in its place, that is called as the model calls it.

    The last of what it is given are its arguments `by_name`; `kwargs` are those that are no inputs, as signatures have
    them.
    """
    called = known.torch_function(function) or resolve(function, "op.variants.fn")
    if kwargs:
        called = partial(called, **drawn({DICT: kwargs}, torch.float32, torch.Generator()))
    if not by_name:
        return called

    def call(*given: Any) -> Any:
        first = len(given) - len(by_name)
        return called(*given[:first], **dict(zip(by_name, given[first:], strict=True)))

    return call


def example(
    builder: Function, inputs: Function | None = None, *, dtype: torch.dtype, generator: torch.Generator
) -> tuple[Any, ...] | dict[str, Any]:
    """The model's example inputs, those with a point in `dtype`; another seed's where the builder draws them."""
    given = build(builder, inputs, generator.initial_seed()).inputs
    converted: tuple[Any, ...] | dict[str, Any] = tree_map(lambda value: _converted(value, dtype), given)
    return converted


def recorded(call: Any, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...] | dict[str, Any]:
    """Arguments like those of a recorded call, drawn from the generator."""
    given = drawn(call, dtype, generator)
    return given["kwargs"] or given["args"]


def _converted(value: Any, dtype: torch.dtype) -> Any:
    """A floating-point tensor in `dtype`, a complex one in that of its parts; any other value as it is."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return value.detach().to(dtype.to_complex() if value.is_complex() else dtype).requires_grad_(value.requires_grad)
