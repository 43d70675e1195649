"""Correctness: outputs against the float64 reference, with an error allowed by rounding alone.

What one rounding may do to an element follows three things. The unit of the dtype, `eps`. The element's own
magnitude. And how much the reference itself moves when its inputs, upstream gradients included, are moved by one
rounding of the dtype: that carries the operation's conditioning, the length of its reductions and the magnitude of
what was summed. It is found by perturbing the inputs (Parker, Monte Carlo Arithmetic, 1997), not by a table.

Two bounds follow. Each element may be off by a few roundings, or by as many of the output's largest element, since an
honest kernel cancels. The whole output, in its Euclidean norm, may be off by little more than one rounding: a kernel
that is scaled by 1.05 stays within the first bound in bfloat16, and far outside the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from harness.configuration.operation import SEEDS
from harness.measure.observations import Error
from harness.measure.subject import Outputs, Subject, own

PERTURBATIONS = 2
ELEMENT_ROUNDINGS = 6.0  # allowed error of an element
NORM_ROUNDINGS = 1.5  # allowed error of an output's Euclidean norm
STEP = 2.0**-26  # the least perturbation: float64 itself must resolve it
FLOORS = {
    torch.float64: 2.0**-40,
    torch.float32: 2.0**-18,
}  # where eps would ask more than long sums can give


@dataclass(frozen=True)
class Verdict:
    """Whether outputs match; `reason` says what does not."""

    reason: str | None
    error: Error | None


@dataclass(frozen=True)
class Expected:
    """The reference's outputs in float64, and for each element the change that one rounding of the inputs makes."""

    outputs: tuple[torch.Tensor, ...]
    roundings: tuple[torch.Tensor, ...]
    dtype: torch.dtype
    random: bool
    keys: tuple[str, ...] = ()  # of outputs that are a dict


def expect(
    reference: Callable, inputs: Sequence, mode: str, dtype: torch.dtype, seed: int, tolerance: float
) -> Expected:
    """Evaluates the reference on float64 copies of the inputs, and on perturbed copies.

    `inputs` are CPU tensors in `dtype`. Raises what the reference raises.
    """
    exact = [_upcast(value) for value in inputs]
    state = torch.get_rng_state()
    outputs, keys = _evaluate(reference, exact, mode, seed)
    random = not torch.equal(state, torch.get_rng_state())
    eps = torch.finfo(dtype).eps
    step = max(eps, STEP)
    generator = torch.Generator().manual_seed(seed % SEEDS)
    move = partial(_perturb, step=step, generator=generator)
    squares = [torch.zeros_like(output, dtype=torch.float64) for output in outputs]
    for _ in range(PERTURBATIONS):
        moved, _ = _evaluate(reference, [move(value) for value in exact], mode, seed, move)
        for square, new, old in zip(squares, moved, outputs, strict=True):
            square += _finite(new.double() - old.double()).square() / PERTURBATIONS
    floor = max(eps, FLOORS.get(dtype, 0.0))
    roundings = tuple(
        tolerance * ((square.sqrt() + _typical(square)) * (eps / step) + _magnitude(output, eps, floor))
        for square, output in zip(squares, outputs, strict=True)
    )
    return Expected(outputs, roundings, dtype, random, keys)


def compare(outputs: Outputs, expected: Expected) -> Verdict:
    """Compares a variant's outputs, copied to the CPU, with what the reference gives."""
    if len(outputs) != len(expected.outputs):
        return Verdict(f"{_count(len(outputs))} where the reference has {len(expected.outputs)}", None)
    worst: Error | None = None
    for position, (output, right, rounding) in enumerate(
        zip(outputs, expected.outputs, expected.roundings, strict=True)
    ):
        which = f"output {position}: " if len(outputs) > 1 else ""
        mismatch = _form(output, right, expected.dtype)
        if mismatch:
            return Verdict(which + mismatch, None)
        error, trouble = _difference(output, right, rounding)
        if trouble:
            return Verdict(which + trouble, error)
        if worst is None or error.allowed > worst.allowed:
            worst = error
    return Verdict(None, worst)


def snapshot(outputs: Outputs) -> Outputs:
    """Outputs copied to the CPU, so that nothing that runs later changes them."""
    return tuple(
        own(value).detach().cpu()
        if isinstance(value, torch.Tensor)
        else torch.as_tensor(value)
        if isinstance(value, (bool, int, float))
        else value
        for value in outputs
    )


def _form(output: object, right: torch.Tensor, dtype: torch.dtype) -> str | None:
    if not isinstance(output, torch.Tensor):
        return f"returned a {type(output).__name__}, not a tensor"
    if output.shape != right.shape:
        return f"shape {tuple(output.shape)}, where the reference has {tuple(right.shape)}"
    floating = right.dtype.is_floating_point
    wanted = dtype if floating else right.dtype
    if output.dtype != wanted and (floating or output.dtype.is_floating_point or output.dtype == torch.bool):
        return f"dtype {_short(output.dtype)}, where {_short(wanted)} is asked for"
    return None


def _difference(output: torch.Tensor, right: torch.Tensor, rounding: torch.Tensor) -> tuple[Error, str | None]:
    if right.numel() == 0:
        return Error(0.0, 0.0, 0.0, 0.0), None
    if not right.dtype.is_floating_point:
        differing = int((output.to(torch.int64) != right.to(torch.int64)).sum())
        largest = float((output.double() - right.double()).abs().max())
        trouble = f"{differing} of {right.numel()} values differ, by up to {largest:g}" if differing else None
        return Error(largest, float(differing > 0), largest, math.inf if differing else 0.0), trouble
    left = output.double()
    limit = torch.finfo(output.dtype).max
    overflow = right.abs() > limit  # honest values that the dtype cannot hold
    odd = ~left.isfinite() & right.isfinite() & ~overflow | left.isfinite() & ~right.isfinite()
    odd |= left.isnan() != right.isnan()
    odd |= left.isinf() & right.isinf() & (left != right)
    if bool(odd.any()):
        return Error(math.inf, math.inf, math.inf, math.inf), _odd(left, right, odd)
    both = left.isfinite() & right.isfinite()
    difference = torch.where(both, (left - right).abs(), 0.0)
    eps, smallest = torch.finfo(output.dtype).eps, torch.finfo(output.dtype).smallest_normal
    scale = _finite(right).abs()
    allowed = ELEMENT_ROUNDINGS * (rounding + eps * float(scale.max()) / 2) + smallest
    share = difference / allowed
    norm = float(difference.norm()) / (NORM_ROUNDINGS * float(rounding.norm()) + smallest)
    error = Error(
        absolute=float(difference.max()),
        relative=float((difference / scale.clamp_min(smallest)).max()),
        units=float((difference / (eps * scale.clamp_min(smallest))).max()),
        allowed=max(float(share.max()), norm),
    )
    if error.allowed <= 1:
        return error, None
    place = tuple(int(i) for i in torch.unravel_index(share.argmax(), share.shape))
    return error, (
        f"differs from the float64 reference: {float(left[place]):.6g} where {float(right[place]):.6g} is right, "
        f"{error.allowed:.1f} times the error that rounding allows"
    )


def _odd(left: torch.Tensor, right: torch.Tensor, odd: torch.Tensor) -> str:
    kinds = {"NaN": left.isnan() & odd, "infinite": left.isinf() & odd}
    for kind, where in kinds.items():
        count = int(where.sum())
        if count:
            return f"{count} of {left.numel()} values {'are' if count > 1 else 'is'} {kind} where the reference is not"
    return f"{int(odd.sum())} of {left.numel()} values are finite where the reference is not"


def _evaluate(
    reference: Callable, inputs: list, mode: str, seed: int, move: Callable | None = None
) -> tuple[tuple[torch.Tensor, ...], tuple[str, ...]]:
    """Outputs, and their keys where they are a dict."""
    subject = Subject("reference", reference, inputs, mode, seed, move)
    return tuple(torch.as_tensor(output).detach() for output in subject() if output is not None), subject.keys


def _upcast(value: object) -> object:
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def _perturb(value: object, step: float, generator: torch.Generator) -> object:
    """Each element moved at random by up to half of `step`, relatively, as rounding it would."""
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return value
    shift = torch.rand(value.shape, generator=generator, dtype=torch.float64) - 0.5
    return (value.detach() * (1 + step * shift)).requires_grad_(value.requires_grad)


def _typical(square: torch.Tensor) -> float:
    """The change of a typical element: one that cancels owes its error to its neighbours' size."""
    return float(square.median().sqrt()) if square.numel() else 0.0


def _magnitude(output: torch.Tensor, eps: float, floor: float) -> torch.Tensor:
    """One rounding of the result itself; for the finer dtypes no less than what a long sum leaves."""
    scale = _finite(output.double()).abs()
    extra = (floor - eps) * float(scale.square().mean().sqrt()) if scale.numel() else 0.0
    return floor * scale + extra


def _finite(values: torch.Tensor) -> torch.Tensor:
    return values.nan_to_num(0.0, 0.0, 0.0)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _count(number: int) -> str:
    return f"{number} output{'s' if number != 1 else ''}"
