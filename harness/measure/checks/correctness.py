"""Correctness: outputs against the float64 reference, with an error allowed by rounding alone.

What one rounding may do to an element follows three things. The unit of the dtype, `eps`. The element's own
magnitude. And how much the reference itself moves when its inputs, upstream gradients included, are moved by one
rounding of the dtype: that carries the operation's conditioning, the length of its reductions and the magnitude of
what was summed. It is found by perturbing the inputs (Parker, Monte Carlo Arithmetic, 1997), not by a table.

Two bounds follow. Each element may be off by a few such errors, or by as many units of the output's largest element,
since an honest kernel cancels. The whole output, in its Euclidean norm, may be off by little more than one: a kernel
that is scaled by 1.05 stays within the first bound in bfloat16, and far outside the second. Complex numbers are
compared by the magnitude of their difference.

Integers and booleans are compared exactly. Where one hangs on a rounding of the inputs, as the index of the largest
among equals does, another may be equally right: then the comparison is undetermined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.measure.checks.reference import Expected
from harness.measure.kinds import FORM, LAZINESS, VALUES
from harness.measure.observations import Error
from harness.measure.outputs import UNMATCHED, Label, Outputs, arranged
from harness.measure.precision import finite, number, wide
from harness.measure.tensors import dense, lazy, odd, own, short

ELEMENT_ERRORS = 6.0  # allowed error of an element, in rounding errors
LEAPS = 2.0  # allowed error of an element of a module's, in the largest move that a rounding made
NORM_ERRORS = 1.5  # allowed error of an output's Euclidean norm, in rounding errors
NARROW_FLIPS = 3.0  # elements of a float8 output that may round the other way, in those that perturbed inputs do
NARROW_SHARE = 0.005  # and this share of all elements in addition


@dataclass(frozen=True)
class Verdict:
    """Whether outputs match; `reason` says what does not, and `undetermined` why that cannot be known."""

    reason: str | None
    error: Error | None
    undetermined: str | None = None
    kind: str | None = None  # of what does not match


class _UndeterminedError(Exception):
    """Another output may be as right."""


def compare(outputs: Outputs, expected: Expected, labels: Sequence[Label] = ()) -> Verdict:
    """Compares a variant's outputs, as `snapshot` copies them, with what the reference gives.

    `labels` say what they are; the same as the reference's if there are none.
    """
    wanted = expected.outputs
    labels = labels or expected.labels
    values = arranged(outputs, labels, wanted, expected.labels)
    if values is None:
        named = sum(label.by_name for label in expected.labels)
        given = len(outputs) - sum(label.by_name for label in labels)
        return Verdict(f"{_count(given)} where the reference has {len(wanted) - named}", None, kind=FORM)
    worst: Error | None = None
    undetermined: str | None = None
    errors = expected.rounding_errors
    choices = expected.choices
    for position, (output, right) in enumerate(zip(values, wanted, strict=True)):
        if position in expected.opaque or output is UNMATCHED:
            continue
        which = f"{expected.labels[position]}: " if len(values) > 1 else ""
        try:
            mismatch = _form(output, right, expected, position)
            if mismatch:
                return Verdict(which + mismatch, None, kind=LAZINESS if lazy(output) else FORM)
            if right is None:
                continue
            taken = number(output) if not isinstance(output, torch.Tensor) else dense(output)
            error, reason = _difference(taken, right, errors[position], choices[position], expected.leaps[position])
        except _UndeterminedError as why:
            undetermined = which + str(why)
            continue
        if reason:
            return Verdict(which + reason, error, kind=VALUES)
        if worst is None or error.allowed > worst.allowed:
            worst = error
    return Verdict(None, worst, undetermined)


def snapshot(outputs: Outputs) -> Outputs:
    """Outputs copied to the CPU, so that later calls cannot change them; other values as they are."""
    return tuple(
        own(value).detach().cpu() if isinstance(value, torch.Tensor) and odd(value) is None else value
        for value in outputs
    )


def _form(output: Any, right: torch.Tensor | None, expected: Expected, position: int) -> str | None:
    """What is wrong with an output's type, layout, shape or dtype.

    Raises _UndeterminedError if its shape may be as right as the reference's.
    """
    kind = type(output).__name__
    if right is None:
        return None if output is None else f"returned a {kind}, where the reference has None"
    is_number = isinstance(output, (bool, int, float, complex))
    if not isinstance(output, torch.Tensor) and not is_number:
        return f"returned a {kind}, not a tensor"
    if is_number or expected.numbers[position]:  # a Python number has no dtype; it may stand for a tensor of no dims
        return _number_form(number(output) if is_number else output, right)
    unknown = odd(output)
    if unknown is not None:
        return f"returned {unknown}, which cannot be compared"
    layout = expected.layouts[position]
    if layout is not None and output.layout != layout:
        return f"layout {short(output.layout)}, where the reference has {short(layout)}"
    if output.shape != right.shape:
        return _shape(tuple(output.shape), tuple(right.shape), expected.shapes[position])
    wanted = _dtypes(right, expected.dtype)
    if output.dtype not in wanted:
        return f"dtype {short(output.dtype)}, where {short(wanted[0])} is asked for"
    return None


def _number_form(output: torch.Tensor, right: torch.Tensor) -> str | None:
    if output.shape != right.shape:
        return f"shape {tuple(output.shape)}, where the reference has {tuple(right.shape)}"
    if _category(output) != _category(right):
        return f"a value of {_category(output)}, where the reference has one of {_category(right)}"
    return None


def _category(tensor: torch.Tensor) -> str:
    if tensor.dtype.is_complex:
        return "complex"
    return "bool" if tensor.dtype == torch.bool else "float" if tensor.dtype.is_floating_point else "int"


def _shape(shape: tuple[int, ...], right: tuple[int, ...], seen: frozenset[tuple[int, ...]]) -> str:
    reason = f"shape {shape}, where the reference has {right}"
    if len(seen) == 1:
        return reason
    if len(shape) == len(right):
        axes = list(zip(*(other for other in seen if len(other) == len(right)), strict=True))
        # as far again as it was seen to move: a handful of evaluations do not show all
        near = [
            2 * min(sizes) - max(sizes) <= size <= 2 * max(sizes) - min(sizes)
            for size, sizes in zip(shape, axes, strict=True)
        ]
        if all(near):
            raise _UndeterminedError(f"its shape depends on the values, to within a rounding: {reason}")
    return reason


def _dtypes(right: torch.Tensor, dtype: torch.dtype) -> list[torch.dtype]:
    """The dtypes in which an output may be: the case's, unless the reference itself asks for another."""
    if right.dtype.is_complex:
        return [dtype.to_complex()]
    if right.dtype.is_floating_point:
        if right.dtype.itemsize == 1:
            return [right.dtype]
        return [dtype] if right.dtype == torch.float64 else [dtype, right.dtype]
    if right.dtype == torch.bool:
        return [torch.bool]
    integers = (
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
    )
    return [right.dtype, *(kind for kind in integers if kind != right.dtype)]


def _difference(
    output: torch.Tensor,
    right: torch.Tensor,
    rounding: torch.Tensor | None,
    choices: torch.Tensor | None,
    leap: float,
) -> tuple[Error, str | None]:
    """The error, and what is wrong; raises _UndeterminedError if an element may be as right as the reference's."""
    if right.numel() == 0:
        return Error(0.0, 0.0, 0.0, 0.0), None
    if rounding is None:
        return _exact_difference(output, right, choices)
    if right.dtype.itemsize == 1:
        return _narrow_difference(output, right, rounding)
    left, right = wide(output), wide(right)
    limits = torch.finfo(output.dtype)
    overflow = right.abs() > limits.max  # honest values that the dtype cannot hold
    unlike = ~left.isfinite() & right.isfinite() & ~overflow | left.isfinite() & ~right.isfinite()
    unlike |= left.isnan() != right.isnan()
    unlike |= left.isinf() & right.isinf() & ~left.isnan() & ~right.isnan() & (left != right)
    if bool(unlike.any()):
        return Error(math.inf, math.inf, math.inf, math.inf), _not_finite(left, unlike)
    both = left.isfinite() & right.isfinite()
    difference = torch.where(both, (left - right).abs(), 0.0)
    scale = finite(right).abs()
    allowed = ELEMENT_ERRORS * (rounding + limits.eps * float(scale.max()) / 2) + limits.smallest_normal
    allowed = allowed.clamp_min(LEAPS * leap)
    share = difference / allowed
    norm = float(difference.norm()) / (NORM_ERRORS * float(rounding.norm()) + limits.smallest_normal)
    error = Error(
        absolute=float(difference.max()),
        relative=float((difference / scale.clamp_min(limits.smallest_normal)).max()),
        units=float((difference / (limits.eps * scale.clamp_min(limits.smallest_normal))).max()),
        allowed=max(float(share.max()), norm),
    )
    if error.allowed <= 1:
        return error, None
    worst = int(share.argmax())
    seen, expected = _digits(left.flatten()[worst], right.flatten()[worst])
    return error, (
        f"differs from the float64 reference: {seen} where {expected} is right, "
        f"{_times(error.allowed)} times the error that rounding allows"
    )


def _exact_difference(
    output: torch.Tensor, right: torch.Tensor, choices: torch.Tensor | None
) -> tuple[Error, str | None]:
    """Of integers and booleans."""
    differs = output.to(torch.int64) != right.to(torch.int64)
    differs |= _negative(output) != _negative(right)  # 2**63 and more, of uint64, turn negative in int64
    number_of = int(differs.sum())
    if not number_of:
        return Error(0.0, 0.0, 0.0, 0.0), None
    if choices is not None and not bool((differs & ~choices).any()):
        raise _UndeterminedError(
            f"{number_of} of {right.numel()} values differ from the reference's where these hang on a rounding of the "
            "inputs, as a choice among equals does"
        )
    largest = float((output.double() - right.double()).abs().max())
    reason = f"{number_of} of {right.numel()} values differ, by up to {largest:g}"
    return Error(largest, 1.0, largest, math.inf), reason


def _negative(values: torch.Tensor) -> torch.Tensor:
    return (values.to(torch.int64) < 0) & (values.dtype != torch.uint64)


def _narrow_difference(output: torch.Tensor, right: torch.Tensor, rounding: torch.Tensor) -> tuple[Error, str | None]:
    """Of float8, whose unit is so coarse that how many elements round the other way says more than how far."""
    left, values = output.double(), right.double()
    differs = (left != values) & ~(left.isnan() & values.isnan())
    eps = torch.finfo(right.dtype).eps
    smallest = torch.finfo(right.dtype).smallest_normal
    distance = finite(left - values).abs()
    ulps = distance / (eps * torch.maximum(left.abs(), values.abs()).nan_to_num(0.0, 0.0, 0.0).clamp_min(smallest))
    flipped = float((rounding > 0).double().mean()) if rounding.numel() else 0.0
    allowed = NARROW_FLIPS * flipped + NARROW_SHARE + 1 / right.numel()
    share = float(differs.double().mean())
    worst = float(ulps.max()) if not bool((left.isnan() != values.isnan()).any()) else math.inf
    relative = float((distance / values.abs().nan_to_num(0.0, 0.0, 0.0).clamp_min(smallest)).max())
    error = Error(float(distance.max()), relative, worst, max(share / allowed, worst))
    if error.allowed <= 1:
        return error, None
    return error, (
        f"differs from the reference in {share:.1%} of its {short(right.dtype)} values, by up to {worst:.3g} of their "
        f"units: rounding allows one unit in {allowed:.1%}"
    )


def _not_finite(left: torch.Tensor, unlike: torch.Tensor) -> str:
    kinds = {"NaN": left.isnan() & unlike, "infinite": left.isinf() & unlike}
    for kind, where in kinds.items():
        count = int(where.sum())
        if count:
            return f"{count} of {left.numel()} values {'are' if count > 1 else 'is'} {kind} where the reference is not"
    return f"{int(unlike.sum())} of {left.numel()} values are finite where the reference is not"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 1e4 else f"{ratio:.0e}"


def _digits(left: torch.Tensor, right: torch.Tensor) -> tuple[str, str]:
    """Two unequal values in as many digits as tell them apart, six at least."""
    for digits in range(6, 18):
        texts = f"{left.item():.{digits}g}", f"{right.item():.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _count(number: int) -> str:
    return f"{number} output{'s' if number != 1 else ''}"
