"""The reference: evaluated in float64 on the inputs and on perturbed ones, and kept where no variant reaches it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.configuration.operation import SEEDS
from harness.measure.subject import Outputs, Subject
from harness.measure.tensors import Sealed, SealedSparse, dense, odd, seal, unseal, with_values
from harness.measure.trees import tree_map

PERTURBATIONS = 2
MORE_PERTURBATIONS = 6  # further ones, if a choice or a shape depends on a rounding
STEP = 2.0**-26  # the smallest perturbation: float64 itself must resolve it
FLOORS = {
    torch.float64: 2.0**-40,
    torch.float32: 2.0**-18,
}  # relative errors that long sums leave, in dtypes whose eps is finer


class NotComparableError(Exception):
    """The reference returns something that cannot be compared; the message follows the reference's name."""


Contents = Sealed | SealedSparse | None


@dataclass(frozen=True)
class Expected:
    """The reference's outputs in float64, and how far a rounding of the inputs moves them.

    Tensors are sealed, and created again at each access. An output that is None has None in their place.
    """

    sealed_outputs: tuple[Contents, ...]
    sealed_errors: tuple[Contents, ...]
    sealed_choices: tuple[Contents, ...]
    shapes: tuple[frozenset[tuple[int, ...]], ...]  # that perturbed inputs gave each output; its own among them
    layouts: tuple[torch.layout | None, ...]  # None: of a gradient, which may be stored in any
    numbers: tuple[bool, ...]  # which outputs are Python's numbers
    dtype: torch.dtype
    random: bool
    keys: tuple[str, ...] = ()  # of outputs that are a dict

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs: dense CPU tensors of the dtype that the reference returns."""
        return tuple(map(unseal, self.sealed_outputs))

    @property
    def sealed(self) -> tuple[Contents, ...]:
        """All that is kept sealed."""
        return self.sealed_outputs + self.sealed_errors + self.sealed_choices

    @property
    def rounding_errors(self) -> tuple[Any, ...]:
        """The error that one rounding may make in each element."""
        return tuple(map(unseal, self.sealed_errors))

    @property
    def choices(self) -> tuple[Any, ...]:
        """Which elements of an integer or boolean output hang on a rounding, such as the index of one among equals."""
        return tuple(map(unseal, self.sealed_choices))


def expect(
    reference: Callable, inputs: Sequence, mode: str, dtype: torch.dtype, seed: int, tolerance: float
) -> Expected:
    """Evaluates the reference on float64 copies of the inputs, and on perturbed copies.

    `inputs` are CPU tensors in `dtype`, which lists, tuples and dicts may hold. Raises what the reference raises, and
    NotComparableError if it returns what cannot be compared.
    """
    evaluation = _Evaluation(_exact(reference, dtype), mode, seed)
    exact = tree_map(_upcast, list(inputs))
    state = torch.get_rng_state()
    outputs = evaluation(exact)
    random = not torch.equal(state, torch.get_rng_state())
    eps = torch.finfo(dtype).eps
    step = max(eps, STEP)
    move = partial(_perturb, step=step, generator=torch.Generator().manual_seed(seed % SEEDS))
    seen = [_Sensitivity(output) for output in outputs]
    for _ in range(PERTURBATIONS):
        evaluation.perturb(exact, move, seen)
    if any(each.uncertain for each in seen):
        for _ in range(MORE_PERTURBATIONS):
            evaluation.perturb(exact, move, seen)
    errors = [each.error(dtype, eps, step, tolerance) for each in seen]
    forward = mode == "forward"
    return Expected(
        sealed_outputs=tuple(seal(each.output) for each in seen),
        sealed_errors=tuple(map(seal, errors)),
        sealed_choices=tuple(seal(each.choices) for each in seen),
        shapes=tuple(frozenset(each.shapes) for each in seen),
        layouts=tuple(output.layout if forward and isinstance(output, torch.Tensor) else None for output in outputs),
        numbers=evaluation.numbers,
        dtype=dtype,
        random=random,
        keys=evaluation.keys,
    )


class _Evaluation:
    """A reference that can be evaluated again and again."""

    def __init__(self, reference: Callable, mode: str, seed: int):
        self._reference = reference
        self._mode = mode
        self._seed = seed
        self._context: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.keys: tuple[str, ...] = ()
        self.numbers: tuple[bool, ...] = ()

    def __call__(self, inputs: list) -> list[torch.Tensor | None]:
        """The outputs, and their keys if they are a dict."""
        subject = Subject("reference", self._reference, inputs, self._mode, self._seed)
        try:
            outputs = subject()
        except RuntimeError:
            # a function over weights of its own mixes their dtype with float64
            self._context = _Exactly
            with contextlib.suppress(Exception), self._context():
                return self._taken(subject, subject())
            raise
        return self._taken(subject, outputs)

    def _taken(self, subject: Subject, outputs: Outputs) -> list[torch.Tensor | None]:
        self.keys = subject.keys
        self.numbers = tuple(isinstance(output, (bool, int, float, complex)) for output in outputs)
        return [_comparable(output) for output in outputs]

    def perturb(self, exact: list, move: Callable[[Any], Any], seen: list[_Sensitivity]) -> None:
        """Evaluates on inputs and upstream gradients that are moved; adds to each output's sensitivity in `seen`."""
        moved = Subject("reference", self._reference, tree_map(move, exact), self._mode, self._seed, move)
        with self._context():
            outputs = moved()
        for each, output in zip(seen, outputs, strict=False):
            each.add(_comparable(output))


class _Sensitivity:
    """How one output of the reference moves as its inputs are moved."""

    def __init__(self, output: torch.Tensor | None):
        self.output = None if output is None else dense(output)
        self.choices: torch.Tensor | None = None
        self.shapes = set[tuple[int, ...]]()
        self._square: torch.Tensor | None = None
        self._added = 0
        if self.output is not None:
            self.shapes.add(tuple(self.output.shape))
            if is_inexact(self.output):
                self._square = torch.zeros(self.output.shape, dtype=torch.float64)
            else:
                self.choices = torch.zeros(self.output.shape, dtype=torch.bool)

    @property
    def uncertain(self) -> bool:
        return len(self.shapes) > 1 or (self.choices is not None and bool(self.choices.any()))

    def add(self, moved: torch.Tensor | None) -> None:
        if self.output is None or moved is None:
            return
        moved = dense(moved)
        self.shapes.add(tuple(moved.shape))
        if moved.shape != self.output.shape:
            return
        if self.choices is not None:
            self.choices |= moved != self.output
        elif self._square is not None and self._added < PERTURBATIONS:
            self._square += finite(wide(moved) - wide(self.output)).abs().square() / PERTURBATIONS
            self._added += 1

    def error(self, dtype: torch.dtype, eps: float, step: float, tolerance: float) -> torch.Tensor | None:
        """The error that one rounding may make in each element."""
        if self._square is None or self.output is None:
            return None
        if self.output.dtype.itemsize == 1:  # for float8: which elements move
            return self._square.sqrt()
        floor = max(eps, FLOORS.get(dtype, 0.0))
        moved = (self._square.sqrt() + _typical(self._square)) * (eps / step)
        return tolerance * (moved + _magnitude(self.output, eps, floor))


class _Exactly(TorchFunctionMode):
    """Every floating-point tensor that reaches a function of torch does so in double precision.

    It serves functions that hold weights of their own, wherever they hold them: in a closure, a global, a module.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name.startswith("__") and name.endswith("__") and name.strip("_") in ("get", "set", "delete"):
            return function(*args, **(kwargs or {}))  # an attribute
        written = 1 if name.endswith("_") and not name.endswith("__") else 0  # the tensor that is written in place
        args = (*args[:written], *tree_map(_widened, list(args[written:])))
        kwargs = {key: value if key == "out" else tree_map(_widened, value) for key, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


def _widened(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point and value.dtype != torch.float64:
        return value.double()
    return value.to(torch.complex128) if value.dtype.is_complex else value


def _exact(reference: Callable, dtype: torch.dtype) -> Callable:
    """A module's weights are rounded to the dtype, as those of the copy that is measured."""
    if not isinstance(reference, torch.nn.Module):
        return reference
    return copy.deepcopy(reference).cpu().to(dtype).double()


def _comparable(output: Any) -> torch.Tensor | None:
    """An output as a tensor of its own; raises NotComparableError if it cannot be compared."""
    if output is None:
        return None
    if isinstance(output, torch.Tensor):
        kind = odd(output)
        if kind is not None:
            raise NotComparableError(f"returns {kind}, which cannot be compared")
        return output.detach().resolve_conj().resolve_neg()
    if isinstance(output, (bool, int, float, complex)):
        return number(output)
    raise NotComparableError(f"returns a {type(output).__name__}; only tensors, numbers and None can be compared")


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


def _upcast(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not is_inexact(value):
        return value
    return with_values(value, lambda values: wide(values.resolve_conj().resolve_neg()))


def _perturb(value: Any, step: float, generator: torch.Generator) -> Any:
    """Each element moved at random by up to half of `step`, relatively, as rounding it would."""
    if not isinstance(value, torch.Tensor) or not is_inexact(value):
        return value

    def moved(values: torch.Tensor) -> torch.Tensor:
        if values.dtype.is_complex:  # each part is rounded by itself
            return torch.view_as_complex(moved(torch.view_as_real(values)))
        shift = torch.rand(values.shape, generator=generator, dtype=torch.float64, device="cpu") - 0.5
        return values * (1 + step * shift)

    return with_values(value, moved)


def _typical(square: torch.Tensor) -> float:
    """The change of a typical element: one that cancels owes its error to its neighbours' size."""
    return float(square.median().sqrt()) if square.numel() else 0.0


def _magnitude(output: torch.Tensor, eps: float, floor: float) -> torch.Tensor:
    """One rounding of the result itself; for the finer dtypes no less than what a long sum leaves."""
    scale = finite(wide(output)).abs()
    extra = (floor - eps) * float(scale.square().mean().sqrt()) if scale.numel() else 0.0
    return floor * scale + extra
