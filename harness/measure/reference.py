"""The reference: evaluated in float64 on the inputs and on perturbed ones, and kept where no variant reaches it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from harness.configuration.operation import SEEDS
from harness.measure.modules import State
from harness.measure.outputs import BUFFER, OUTPUT, Label, Outputs
from harness.measure.precision import Exactly, finite, is_inexact, number, upcast, wide
from harness.measure.subject import Subject
from harness.measure.tensors import Sealed, SealedSparse, dense, odd, seal, short, unseal, with_values
from harness.measure.trees import tree_map

PERTURBATIONS = 2
MORE_PERTURBATIONS = 6  # further ones, if a choice or a shape depends on a rounding
COARSE = (torch.float32, torch.float16, torch.bfloat16)
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
    labels: tuple[Label, ...]  # what each output is
    opaque: dict[int, str]  # positions of outputs that nothing is known to compare of, and what they are
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
    reference: Callable,
    inputs: Sequence[Any] | dict[str, Any],
    mode: str,
    dtype: torch.dtype,
    seed: int,
    tolerance: float,
    state: State | None = None,
) -> Expected:
    """Evaluates the reference on float64 copies of the inputs, and on perturbed copies.

    `inputs` are CPU tensors in `dtype`, which lists, tuples and dicts may hold; `state` is that of the reference if it
    is a module, whose parameters are in float64 and are perturbed as the inputs are. Raises what the reference raises,
    and NotComparableError if it returns what cannot be compared.
    """
    evaluation = _Evaluation(reference, mode, seed, state)
    exact = tree_map(upcast, inputs if isinstance(inputs, dict) else list(inputs))
    before = torch.get_rng_state()
    outputs = evaluation(exact)
    coarse = [output.dtype for output in outputs if output is not None and output.dtype in COARSE]
    if coarse and dtype == torch.float64:
        raise NotComparableError(f"computes in {short(coarse[0])}, which is too coarse to check dtype=float64 by")
    random = not torch.equal(before, torch.get_rng_state())
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
        labels=evaluation.labels,
        opaque=evaluation.opaque,
        dtype=dtype,
        random=random,
        keys=evaluation.keys,
    )


class _Evaluation:
    """A reference that can be evaluated again and again."""

    def __init__(self, reference: Callable, mode: str, seed: int, state: State | None):
        self._reference = reference
        self._mode = mode
        self._seed = seed
        self._state = state
        self._context: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.keys: tuple[str, ...] = ()
        self.labels: tuple[Label, ...] = ()
        self.numbers: tuple[bool, ...] = ()
        self.opaque: dict[int, str] = {}

    def __call__(self, inputs: list | dict) -> list[torch.Tensor | None]:
        """The outputs, and their keys if they are a dict."""
        subject = Subject("reference", self._reference, inputs, self._mode, self._seed, self._state)
        try:
            outputs = subject()
        except RuntimeError:
            # a function over weights of its own mixes their dtype with float64
            self._context = Exactly
            with contextlib.suppress(Exception), self._context():
                return self._taken(subject, subject())
            raise
        return self._taken(subject, outputs)

    def _taken(self, subject: Subject, outputs: Outputs) -> list[torch.Tensor | None]:
        changed = set() if self._state is None else self._state.changed()
        kept = [label.kind != BUFFER or label.name in changed for label in subject.labels]
        outputs = tuple(itertools.compress(outputs, kept))
        self.labels = tuple(itertools.compress(subject.labels, kept))
        self.keys = subject.keys
        self.numbers = tuple(isinstance(output, (bool, int, float, complex)) for output in outputs)
        kinds = {position: type(output).__name__ for position, output in enumerate(outputs) if not _known(output)}
        if kinds and len(kinds) == sum(label.kind == OUTPUT for label in self.labels):
            kind = next(iter(kinds.values()))
            raise NotComparableError(f"returns a {kind}; only tensors, numbers and None can be compared")
        self.opaque = {position: f"{self.labels[position]} is a {kind}" for position, kind in kinds.items()}
        return [_comparable(output) for output in outputs]

    def perturb(self, exact: list | dict, move: Callable[[Any], Any], seen: list[_Sensitivity]) -> None:
        """Evaluates on inputs, parameters and upstream gradients that are moved; adds to each sensitivity in `seen`."""
        inputs = tree_map(move, exact)
        moved = Subject("reference", self._reference, inputs, self._mode, self._seed, self._state, move)
        with _moved(self._state, move), self._context():
            values = moved()
        outputs = dict(zip(moved.labels, values, strict=True))
        for label, each in zip(self.labels, seen, strict=True):
            each.add(_comparable(outputs.get(label)))


@contextlib.contextmanager
def _moved(state: State | None, move: Callable[[Any], Any]) -> Iterator[None]:
    """A module's parameters moved, and afterwards as they were."""
    parameters = [] if state is None else list(state.module.parameters())
    values = [parameter.data for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.data = move(parameter.data)
        yield
    finally:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.data = value


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


def _known(output: Any) -> bool:
    return output is None or isinstance(output, (torch.Tensor, bool, int, float, complex))


def _comparable(output: Any) -> torch.Tensor | None:
    """An output as a tensor of its own, None if it holds nothing to compare.

    Raises NotComparableError for a tensor that cannot be compared.
    """
    if isinstance(output, torch.Tensor):
        kind = odd(output)
        if kind is not None:
            raise NotComparableError(f"returns {kind}, which cannot be compared")
        return output.detach().resolve_conj().resolve_neg()
    return number(output) if isinstance(output, (bool, int, float, complex)) else None


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
