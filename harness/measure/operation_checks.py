"""Declaration: what an operation's author declares, held against what the functions take, give and do."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.configuration.errors import UsageError
from harness.configuration.operation import Operation, Variant, describe, resolve
from harness.measure.correctness import Expected
from harness.measure.subject import Subject


def check_inputs(operation: Operation, inputs: Sequence[Any], dtype: torch.dtype) -> None:
    """Raises UsageError where `inputs` makes tensors, but none in the dtype that it was asked for."""
    kinds = {value.dtype for value in inputs if isinstance(value, torch.Tensor)}
    floating = sorted(_short(kind) for kind in kinds if kind.is_floating_point or kind.is_complex)
    if floating and dtype not in kinds:
        function = resolve(operation.inputs, "op.inputs")
        raise UsageError(
            f"op.inputs={describe(function)}: makes {' and '.join(floating)} where dtype={_short(dtype)} is asked for"
        )


def check_signature(variant: Variant, inputs: Sequence[Any]) -> None:
    """Raises UsageError where the variant's function cannot be called with the inputs and its `args`."""
    key = f"op.variants.{variant.name}.fn"
    function = resolve(variant.fn, key)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none to look at
        return
    try:
        signature.bind(*inputs, **variant.args)
    except TypeError as error:
        given = ", ".join([_count(len(inputs), "input"), *variant.args])
        raise UsageError(f"{key}={describe(function)}: is called with {given}: {error}") from error


def disagreement(operation: Operation, baseline: Callable[..., Any], reason: str) -> UsageError:
    """The error for a baseline whose outputs are not of the reference's form, so that one of them must be mended."""
    reference = resolve(operation.reference or baseline, "op.reference")
    return UsageError(
        f"op.variants.{operation.baseline}.fn={describe(baseline)} does not fit op.reference={describe(reference)}: "
        f"{reason}; mend one of the two"
    )


def count_flops(subject: Subject) -> int | None:
    """The FLOPs of one call that torch's FlopCounterMode counts: those of matrix products and convolutions alone."""
    with contextlib.suppress(Exception, SystemExit), FlopCounterMode(display=False) as counter, torch.enable_grad():
        subject()
        return int(counter.get_total_flops())
    return None


def doubt_flops(operation: Operation, work: Mapping[str, float], counted: Sequence[int]) -> str | None:
    """What is odd about the declared FLOPs, given what was `counted` of each variant.

    Up to a factor of two is no doubt: a causal mask spares just under half, and a declaration may count more than
    matrix products. A multiply-add that was counted as one is a factor of two.
    """
    least, declared = min(counted, default=0), work["flops"]
    if not least or least / 2 < declared < least * 2:
        return None
    return (
        f"op.work={_where(operation.work)} declares {declared:,.0f} FLOPs where torch counts {least:,}: a multiply-add "
        "may be counted as one FLOP in place of two, or a pass left out; the roofline follows what is declared"
    )


def doubt_bytes(
    operation: Operation, work: Mapping[str, float], inputs: Sequence[Any], expected: Expected, mode: str
) -> str | None:
    """What is odd about the declared bytes, given the tensors that go in and come out.

    A backward pass need not read every input, and gradients may share their memory: the largest alone is certain.
    """
    results = [result.numel() * _itemsize(result, expected.dtype) for result in expected.outputs]
    read = sum(min(_bytes(value), value.untyped_storage().nbytes()) for value in inputs if _is_tensor(value))
    least = {
        "forward": read + sum(results),
        "backward": max(results, default=0),
        "forward_backward": read + max(results, default=0),
    }[mode]
    if work["bytes"] >= least:
        return None
    return (
        f"op.work={_where(operation.work)} declares {work['bytes']:,.0f} bytes where the tensors of a call hold "
        f"{least:,}: an input or output may be left out; right only where part of an input is never read"
    )


def _where(function: Any) -> str:
    return describe(resolve(function, "op.work"))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.itemsize


def _itemsize(result: torch.Tensor, dtype: torch.dtype) -> int:
    return dtype.itemsize if result.is_floating_point() else result.itemsize


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
