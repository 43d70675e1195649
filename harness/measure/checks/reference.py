"""The reference: evaluated in float64 on the inputs and on perturbed ones, and kept where no variant reaches it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from harness.measure.checks.perturbation import MORE_PERTURBATIONS, PERTURBATIONS, Rounding, Sensitivity
from harness.measure.modules import State
from harness.measure.outputs import BUFFER, OUTPUT, Label, Outputs
from harness.measure.precision import Exactly, layer_by_layer, number, upcast, wide
from harness.measure.subject import Subject
from harness.measure.tensors import Sealed, SealedSparse, dense, odd, seal, short, unseal
from harness.measure.trees import tree_map

COARSE = (torch.float32, torch.float16, torch.bfloat16)


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
    leaps: tuple[float, ...]  # how far the element of each that moved most did; 0 of functions
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
    rounding = Rounding(dtype, seed)
    exact = tree_map(upcast, inputs if isinstance(inputs, dict) else list(inputs))
    before = torch.get_rng_state()
    outputs = evaluation(exact)
    coarse = [output.dtype for output in outputs if output is not None and output.dtype in COARSE]
    if coarse and dtype == torch.float64:
        raise NotComparableError(f"computes in {short(coarse[0])}, which is too coarse to check dtype=float64 by")
    random = not torch.equal(before, torch.get_rng_state())
    if state is not None and not random and not all(map(_close, outputs, evaluation(exact))):
        raise NotComparableError("gives other outputs when it is called again: it keeps state that is not in buffers")
    seen = [Sensitivity(output, rounding, deep=state is not None) for output in outputs]
    for _ in range(PERTURBATIONS if state is None or mode == "forward" else MORE_PERTURBATIONS):
        evaluation.perturb(exact, rounding, seen)
    if any(each.uncertain for each in seen):
        for _ in range(MORE_PERTURBATIONS):
            evaluation.perturb(exact, rounding, seen)
    forward = mode == "forward"
    return Expected(
        sealed_outputs=tuple(seal(each.output) for each in seen),
        sealed_errors=tuple(seal(each.error(tolerance)) for each in seen),
        sealed_choices=tuple(seal(each.choices) for each in seen),
        leaps=tuple(each.leap(tolerance) for each in seen),
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
        if state is not None and state.narrow is not None:
            self._context = partial(layer_by_layer, state.narrow)
        self.keys: tuple[str, ...] = ()
        self.labels: tuple[Label, ...] = ()
        self.numbers: tuple[bool, ...] = ()
        self.opaque: dict[int, str] = {}

    def __call__(self, inputs: list | dict) -> list[torch.Tensor | None]:
        """The outputs, and their keys if they are a dict."""
        subject = Subject("reference", self._reference, inputs, self._mode, self._seed, self._state)
        try:
            with self._context():
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

    def perturb(self, exact: list | dict, rounding: Rounding, seen: list[Sensitivity]) -> None:
        """Evaluates on inputs, parameters and upstream gradients that are moved; adds to each sensitivity in `seen`."""
        inputs = tree_map(rounding.move, exact)
        moved = Subject("reference", self._reference, inputs, self._mode, self._seed, self._state, rounding.move)
        within = nullcontext() if self._state is None else rounding.within(self._state)
        with within, self._context():
            values = moved()
        outputs = dict(zip(moved.labels, values, strict=True))
        for label, each in zip(self.labels, seen, strict=True):
            each.add(_comparable(outputs.get(label)))


def _close(left: torch.Tensor | None, right: torch.Tensor | None) -> bool:
    """Whether two evaluations gave the same, but for the order in which threads add."""
    if left is None or right is None or left.shape != right.shape:
        return left is right
    return torch.allclose(wide(dense(left)), wide(dense(right)), rtol=1e-9, atol=1e-9, equal_nan=True)


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
