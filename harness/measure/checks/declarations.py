"""Declarations: what an operation's author declares, compared with what the functions take, return and do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence, Set
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.configuration.errors import UsageError
from harness.configuration.operation import Inputs, Operation, Variant, describe, resolve
from harness.measure import nki_kernel
from harness.measure.binding import given, is_factory, misfit
from harness.measure.checks.reference import Expected
from harness.measure.subject import Subject
from harness.measure.tensors import memories, odd, short
from harness.measure.trees import flatten


def check_inputs(operation: Operation, inputs: Inputs, dtype: torch.dtype) -> None:
    """Raises UsageError if `inputs` makes tensors that cannot be copied, or none in the dtype that it was given."""
    where = f"op.inputs={describe(resolve(operation.inputs, 'op.inputs'))}"
    unnamed = [key for key in inputs if not isinstance(key, str)] if isinstance(inputs, dict) else []
    if unnamed:
        raise UsageError(f"{where}: makes a dict, which is keyword arguments, with the key {unnamed[0]!r}: use text")
    values = flatten(inputs)
    for value in values:
        if _may_change(value):
            raise UsageError(
                f"{where}: makes an input of type {type(value).__name__}, which cannot be copied for each "
                "variant; make tensors, and lists, tuples and dicts of them"
            )
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    for tensor in tensors:
        kind = odd(tensor)
        if kind is not None:
            raise UsageError(
                f"{where}: makes {kind}, which cannot be copied for each variant; make plain tensors, dense or sparse, "
                "and let the variants convert them"
            )
    kinds = {tensor.dtype for tensor in tensors}
    floating = sorted(short(kind) for kind in kinds if kind.is_floating_point or kind.is_complex)
    if floating and not kinds & {dtype, dtype.to_complex()}:
        raise UsageError(f"{where}: makes {' and '.join(floating)} where dtype={short(dtype)} is asked for")


def _may_change(value: Any) -> bool:
    """Whether a value that is no tensor holds others, which a variant could change for all that come after it."""
    containers = (np.ndarray, Set, Mapping, MutableSequence, Iterator)
    return isinstance(value, containers)


def check_signature(variant: Variant, inputs: Inputs) -> None:
    """Raises UsageError if the variant's function cannot be called with the inputs and its `args`.

    Of a module's factory, if it cannot be called with `args` alone. What a module takes is seen when it is called.
    """
    key = variant.key
    function = variant.function()
    if variant.nki:
        nki_kernel.check(variant, inputs)
    elif is_factory(function, variant.args):
        problem = misfit(function, variant.args, [])
        if problem and misfit(function, variant.args, inputs):
            called = ", ".join(variant.args) or "no arguments"
            raise UsageError(f"{key}={describe(function)}: is called with {called}: {problem}; give them as args")
        return
    problem = misfit(function, variant.args, inputs)
    if problem:
        raise UsageError(
            f"{key}={describe(function)}: is called with {given(inputs, variant.args)}, of op.inputs: {problem}"
        )


def disagreement(operation: Operation, baseline: Callable[..., Any], reason: str) -> UsageError:
    """The error for a baseline whose outputs are not of the reference's form, so that one of them must be fixed."""
    reference = resolve(operation.right, "op.reference")
    key = operation.variant(operation.baseline).key
    return UsageError(
        f"{key}={describe(baseline)} does not fit op.reference={describe(reference)}: {reason}; fix one of the two"
    )


def count_flops(subject: Subject) -> int | None:
    """The FLOPs of one call that torch's FlopCounterMode counts: those of matrix products and convolutions alone."""
    with contextlib.suppress(Exception, SystemExit), FlopCounterMode(display=False) as counter, torch.enable_grad():
        subject()
        return int(counter.get_total_flops())
    return None


def flops_warning(operation: Operation, work: Mapping[str, float], counted: Sequence[int]) -> str | None:
    """A warning if the declared FLOPs do not fit those `counted` for each variant.

    Up to a factor of two is no warning: a causal mask spares just under half, and a declaration may count more than
    matrix products. A multiply-add that was counted as one is a factor of two.
    """
    minimum = min(counted, default=0)
    declared = work["flops"]
    if not minimum or minimum / 2 < declared < minimum * 2:
        return None
    return (
        f"op.work={_where(operation.work)} declares {declared:,.0f} FLOPs where torch counts {minimum:,}: a "
        "multiply-add may be counted as one FLOP in place of two, or a pass left out; the roofline follows what is "
        "declared"
    )


def bytes_warning(
    operation: Operation, work: Mapping[str, float], inputs: Inputs, expected: Expected, mode: str
) -> str | None:
    """A warning if the declared bytes are fewer than those of the tensors that go in and come out.

    A backward pass need not read every input, and gradients may share their memory: the largest alone is certain.
    """
    if any(layout not in (None, torch.strided) for layout in expected.layouts):
        return None  # how many values a sparse output stores is not known from its dense form
    results = [result.numel() * _itemsize(result, expected.dtype) for result in expected.outputs if result is not None]
    read = sum(_read_bytes(value) for value in flatten(inputs) if isinstance(value, torch.Tensor))
    minimum = {
        "forward": read + sum(results),
        "backward": max(results, default=0),
        "forward_backward": read + max(results, default=0),
    }[mode]
    if work["bytes"] >= minimum:
        return None
    return (
        f"op.work={_where(operation.work)} declares {work['bytes']:,.0f} bytes where the tensors of a call hold "
        f"{minimum:,}: an input or output may be left out; right only where part of an input is never read"
    )


def _where(function: Any) -> str:
    return describe(resolve(function, "op.work"))


def _read_bytes(value: torch.Tensor) -> int:
    """The bytes of a tensor that must be read: an expanded tensor's memory, a sparse tensor's stored values."""
    stored = sum(memory.numel() * memory.itemsize for memory in memories(value))
    return stored if value.layout != torch.strided else min(value.numel() * value.itemsize, stored)


def _itemsize(result: torch.Tensor, dtype: torch.dtype) -> int:
    if result.dtype.is_complex:
        return dtype.to_complex().itemsize
    return dtype.itemsize if result.dtype == torch.float64 else result.itemsize
