"""The builder: the user's function that makes the model and its example inputs, and what it gives in every process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from harness.configuration.errors import UsageError, one_line, with_article
from harness.configuration.operation import Function, describe, resolve
from harness.measure import torch_private
from harness.measure.modules import eager
from harness.measure.tensors import odd
from harness.measure.trees import flatten

Inputs = tuple[Any, ...] | dict[str, Any]  # positional arguments of the model, or keyword arguments

EXPECTED = "expected a module and its example inputs (a tuple, or a dict of keyword arguments)"


@dataclass(frozen=True)
class Built:
    """A model, and the inputs of its step."""

    module: nn.Module  # if the builder compiled it, what was compiled
    inputs: Inputs
    compiled: bool


def build(builder: Function, inputs: Function | None, seed: int) -> Built:
    """What `builder` gives with torch's generators seeded; `inputs` makes the inputs if it gives the module alone.

    Both are called without arguments. The same in every process, and kept for the next call of this one: nobody may
    change it. Raises UsageError if either raises or gives something else.
    """
    return _built(builder, inputs, seed)


@lru_cache(maxsize=2)
def _built(builder: Function, inputs: Function | None, seed: int) -> Built:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = _call("model", resolve(builder, "model"))
        where = f"model={described(builder)}"
        if inputs is not None:
            if not isinstance(made, nn.Module):
                raise UsageError(f"{where}: returned {_kind(made)}; with --inputs it has to return the module alone")
            made = (made, _call("--inputs", resolve(inputs, "--inputs")))
    if isinstance(made, nn.Module):
        raise UsageError(f"{where}: gives a module without inputs; return both, or name their function by --inputs")
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], nn.Module):
        raise UsageError(f"{where}: returned {_kind(made)}; {EXPECTED}")
    inner = eager(made[0])
    compiled = inner is not made[0] or torch_private.compiled_in_place(inner)
    return Built(inner, _arguments(where, made[1]), compiled)


def described(function: Function) -> str:
    """A function as errors and titles name it."""
    return function if isinstance(function, str) else describe(resolve(function, "model"))


def _call(key: str, function: Callable[..., Any]) -> Any:
    if isinstance(function, nn.Module):
        return function
    try:
        unbound = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        unbound = []
    named = [name for name in unbound if name not in ("args", "kwargs")]
    if named:
        raise UsageError(f"{key}={describe(function)}: asks for {', '.join(named)}; it is called without arguments")
    try:
        return function()
    except BaseException as error:  # whatever the user's code does, in a process that no Ctrl-C reaches
        raise UsageError(f"{key}={describe(function)}: raised {type(error).__name__}: {one_line(error)}") from error


def _arguments(where: str, inputs: Any) -> Inputs:
    for value in flatten(inputs):
        reason = odd(value)
        if reason is not None:
            raise UsageError(f"{where}: gives {reason} as an input, which cannot be copied for each variant")
    if isinstance(inputs, Mapping):
        names = [name for name in inputs if not isinstance(name, str)]
        if names:
            raise UsageError(f"{where}: the input {names[0]!r} has no name; {EXPECTED}")
        return dict(inputs)
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs)
    raise UsageError(f"{where}: gives {_kind(inputs)} as inputs; {EXPECTED}")


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    return with_article(type(value).__name__)
