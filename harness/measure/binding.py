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

from harness.configuration.errors import UsageError, with_article
from harness.configuration.operation import SEEDS, Case, Function, Inputs, Variant, describe, resolve
from harness.devices.base import Device
from harness.measure import memory, modules, nki_kernel, torch_private
from harness.measure.modules import State
from harness.measure.outputs import few


@dataclass(frozen=True)
class Bound:
    """What is called with the inputs, the state of the module behind it, if there is one, and what is to say of it."""

    function: Callable[..., Any]
    state: State | None = None
    notes: tuple[str, ...] = ()


def bind(variant: Variant, case: Case, device: Device, inputs: Inputs) -> Bound:
    """The variant's function with its arguments bound, compiled if it says so.

    A module is a copy in the case's dtype, on the device: its weights belong to the case as its inputs do. Raises
    UsageError if what takes no inputs makes nothing to call, ModuleError if a module has no such copy,
    UnsupportedError if a kernel has no such grid, and what a module's factory raises.
    """
    if variant.nki:
        bound = Bound(nki_kernel.bind(variant, inputs))
    else:
        made, args = _made(variant.fn, variant.args, variant.key, case.seed, inputs)
        state, notes = None, list[str]()
        if isinstance(made, nn.Module):
            state, notes = _measured(made, variant, case, device, inputs)
            made = state.module
        bound = Bound(partial(made, **args) if args else made, state, tuple(notes))
    if variant.compile is None:
        return bound
    # a function that several variants compile must not share its caches and its recompile limit among them
    arguments = {**device.compile_arguments(), "isolate_recompiles": True, **variant.compile}
    return replace(bound, function=torch.compile(bound.function, **arguments))


def _measured(
    module: nn.Module, variant: Variant, case: Case, device: Device, inputs: Inputs
) -> tuple[State, list[str]]:
    """The state of the copy that is measured, which can be made again; and what is to be said of its weights."""
    notes = _given_weights(module, variant, case, inputs)

    def again() -> nn.Module:
        made = _made(variant.fn, variant.args, variant.key, case.seed, inputs)[0]
        return _measured(made, variant, case, device, inputs)[0].module  # type: ignore[arg-type]

    if modules.eager(module) is not module:
        notes.append("is compiled already: neither its compile nor its graphs are counted; give the module and compile")
    in_place = [name or "it" for name, part in module.named_modules() if torch_private.compiled_in_place(part)]
    if in_place:
        notes.append(
            f"{few(in_place)}: compiled in place by Module.compile, which a copy is not: measured as it was written; "
            "give torch.compile of it in its place, or compile the variant"
        )
    copy = modules.measured(module, getattr(torch, case.dtype), device.torch_device())
    return State(copy, again=again), notes


def bind_reference(case: Case, inputs: Inputs) -> Bound:
    """The operation's reference, or its baseline's function if it has none; a module is a copy in float64.

    One whose copy does not fit into the memory that is free is evaluated in float64 layer by layer. Raises as `bind`.
    """
    made, args = _reference(case, inputs)
    if not isinstance(made, nn.Module):
        return Bound(partial(made, **args) if args else made)
    dtype = getattr(torch, case.dtype)
    needed, free = modules.exact_bytes(made), memory.free_bytes()
    notes = []
    if needed <= free:
        state = State(modules.exact(made, dtype))
    else:
        state = State(modules.narrow(made, dtype), dtype)
        notes.append(
            f"its parameters need {needed / 2**30:.3g} GiB to be checked in float64, of which {free / 2**30:.3g} are "
            "free: they are widened layer by layer, and are not perturbed"
        )
    return Bound(partial(state.module, **args) if args else state.module, state, tuple(notes))


def _reference(case: Case, inputs: Inputs) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """What the reference is called as, and with which arguments besides the inputs."""
    operation, baseline = case.operation, case.baseline
    if operation.reference is None and baseline.nki:
        raise UsageError(f"op.reference: {baseline.name} is an NKI kernel, which cannot stand for it; name a function")
    args = baseline.args if operation.reference is None else {}
    made, args = _made(operation.right, args, "op.reference", case.seed, inputs)
    return modules.eager(made), args


def _made(
    function: Function, args: Mapping[str, Any], key: str, seed: int, inputs: Inputs
) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """What is called with the inputs, and with which arguments besides: a function, or what it makes, such as a module.

    A factory is called with random numbers from the case's seed, so that all modules of a case draw the same weights.
    """
    factory = resolve(function, key)
    if not is_factory(factory, args):
        return factory, args
    function_of_inputs = misfit(factory, args, inputs) is None
    try:
        with _seeded(seed):
            made = factory(**args)
    except Exception:
        if function_of_inputs:  # each of which has a default
            return factory, args
        raise
    if isinstance(made, nn.Module):
        return made, {}
    if function_of_inputs:
        return factory, args
    if callable(made):
        return made, {}
    kind = with_article(type(made).__name__)
    raise UsageError(
        f"{key}={describe(factory)}: takes no inputs, and what it returns is neither module nor function but {kind}"
    )


def _given_weights(module: nn.Module, variant: Variant, case: Case, inputs: Inputs) -> list[str]:
    """Gives a module that was made of its class the weights of the reference's, if that is a module of another class.

    Returns what is to be said of those that do not fit. What a function made, or who called `compare`, has its own.
    """
    made_of = resolve(variant.fn, variant.key)
    if not isinstance(made_of, type) or resolve(case.operation.right, "op.reference") is made_of:
        return []
    reference, _ = _reference(case, inputs)
    missing = modules.adopt(module, reference) if isinstance(reference, nn.Module) else []
    if not missing:
        return []
    return [f"keeps weights of its own where the reference's module has none of the name and shape: {few(missing)}"]


def is_factory(function: Callable[..., Any], args: Mapping[str, Any]) -> bool:
    """Whether a function makes the module or function that is called with the inputs.

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
