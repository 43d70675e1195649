"""Binding: what a variant or a reference is called as, a module made of its class or factory among them."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from harness.configuration.errors import UsageError
from harness.configuration.operation import SEEDS, Function, Inputs, Operation, Variant, describe, resolve
from harness.devices.base import Device
from harness.measure import modules, nki_kernel
from harness.measure.modules import State


@dataclass(frozen=True)
class Bound:
    """What is called with the inputs, and the state of the module behind it, if there is one."""

    function: Callable[..., Any]
    state: State | None = None


def bind(variant: Variant, device: Device, dtype: torch.dtype, seed: int, inputs: Inputs) -> Bound:
    """The variant's function with its arguments bound, compiled if it says so.

    A module is a copy in the dtype, on the device: its weights belong to the case as its inputs do. Raises UsageError
    if what takes no inputs makes no module, ModuleError if a module has no such copy, UnsupportedError if a kernel has
    no such grid, and what a module's factory raises.
    """
    if variant.nki:
        bound = Bound(nki_kernel.bind(variant, inputs))
    else:
        where = device.torch_device()
        bound = _bound(
            variant.fn, variant.args, variant.key, seed, inputs, lambda module: modules.measured(module, dtype, where)
        )
    if variant.compile is None:
        return bound
    # a function that several variants compile must not share its caches and its recompile limit among them
    arguments = {**device.compile_arguments(), "isolate_recompiles": True, **variant.compile}
    return replace(bound, function=torch.compile(bound.function, **arguments))


def bind_reference(operation: Operation, dtype: torch.dtype, seed: int, inputs: Inputs) -> Bound:
    """The operation's reference, or its baseline's function if it has none; a module is a copy in float64.

    Raises as `bind` does.
    """
    baseline = operation.variant(operation.baseline)
    if operation.reference is None and baseline.nki:
        raise UsageError(f"op.reference: {baseline.name} is an NKI kernel, which cannot stand for it; name a function")
    function, args = (baseline.fn, baseline.args) if operation.reference is None else (operation.reference, {})
    return _bound(function, args, "op.reference", seed, inputs, lambda module: modules.exact(module, dtype))


def _bound(
    function: Function,
    args: Mapping[str, Any],
    key: str,
    seed: int,
    inputs: Inputs,
    copied: Callable[[nn.Module], nn.Module],
) -> Bound:
    made = resolve(function, key)
    if is_factory(made, args):
        module = _made(made, args, key, seed, inputs)
        if module is not None:
            made, args = module, {}
    state = None
    if isinstance(made, nn.Module):
        made = copied(made)
        state = State(made)
    return Bound(partial(made, **args) if args else made, state)


def _made(
    factory: Callable[..., Any], args: Mapping[str, Any], key: str, seed: int, inputs: Inputs
) -> nn.Module | None:
    """The module that a factory makes; None if it makes none, and takes the inputs instead.

    It is called with random numbers from the case's seed, so that all modules of a case draw the same weights.
    """
    with _seeded(seed):
        made = factory(**args)
    if isinstance(made, nn.Module):
        return made
    if misfit(factory, args, inputs) is None:
        return None
    kind = type(made).__name__
    raise UsageError(f"{key}={describe(factory)}: takes no inputs, and what it returns is no nn.Module but a {kind}")


def is_factory(function: Callable[..., Any], args: Mapping[str, Any]) -> bool:
    """Whether a function makes the module that is called with the inputs.

    An operation has inputs, so that a function which needs none, once `args` are bound, is a factory; as is a class.
    """
    if isinstance(function, nn.Module):
        return False
    if isinstance(function, type) and issubclass(function, nn.Module):
        return True
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in functions have none to look at
        return False
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    return not set(needed) - set(args)


def misfit(function: Callable[..., Any], args: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Why a function cannot be called with the inputs and `args`, as Python puts it; None if it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    positional, named = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    try:
        signature.bind(*positional, **{**named, **args})
    except TypeError as error:
        return str(error)
    return None


def given(inputs: Inputs, args: Mapping[str, Any]) -> str:
    """What a function is called with: `2 inputs, block`."""
    if isinstance(inputs, dict):
        return ", ".join([*inputs, *args])
    return ", ".join([f"{len(inputs)} input{'s' if len(inputs) != 1 else ''}", *args])


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers from a seed, and afterwards as they were."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % SEEDS)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
