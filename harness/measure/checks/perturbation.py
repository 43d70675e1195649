"""Perturbation: values moved as rounding moves them, and how far that moves what a reference gives.

The inputs of a function are moved, the upstream gradients among them; of a module also its parameters, and what each
module in it returns, as the copy that is measured rounds that to its dtype (Parker, Monte Carlo Arithmetic, 1997).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from harness.configuration.operation import SEEDS
from harness.measure.modules import State
from harness.measure.precision import finite, is_inexact, wide
from harness.measure.tensors import dense, with_values
from harness.measure.trees import flatten, tree_map

PERTURBATIONS = 2
MORE_PERTURBATIONS = 6  # if a choice or a shape depends on a rounding, as kinks in a module's gradients do
STEP = 2.0**-26  # the smallest perturbation: float64 itself must resolve it
FLOORS = {
    torch.float64: 2.0**-40,
    torch.float32: 2.0**-18,
}  # relative errors that long sums leave, in dtypes whose eps is finer
INSIDE = 2.0  # roundings of what a module within a module returns: it rounds more than once
INSIDE_LONG = 64.0  # the same in the dtypes of FLOORS


class Rounding:
    """The rounding of a dtype, made visible in float64 by moves at random, drawn from a seed."""

    def __init__(self, dtype: torch.dtype, seed: int):
        self.eps = torch.finfo(dtype).eps
        self.floor = max(self.eps, FLOORS.get(dtype, 0.0))
        self._step = max(self.eps, STEP)
        self._inside = self._step * (INSIDE_LONG if dtype in FLOORS else INSIDE)
        self.scale = self.eps / self._step  # of the dtype's rounding, in moves
        self._generator = torch.Generator().manual_seed(seed % SEEDS)

    def move(self, value: Any) -> Any:
        """Each element moved by up to half a unit of the dtype, relatively, as rounding it would."""
        return self._moved(value, self._step)

    @contextlib.contextmanager
    def within(self, state: State) -> Iterator[None]:
        """A module with its parameters moved, and what its modules return, and the gradients of that.

        Afterwards it is as it was. Parameters that are too many for double precision are left alone.
        """
        module = state.module
        parameters = [] if state.narrow else [(parameter, parameter.data) for parameter in module.parameters()]
        known: dict[int, Any] = {}  # what a module hands on has been moved where it came from

        def move(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not is_inexact(value) or id(value) in known:
                return value
            try:
                moved = value * self._moved(torch.ones_like(value), self._inside)
            except RuntimeError:  # within vmap, which refuses to draw
                return value
            if moved.requires_grad:
                moved.register_hook(lambda gradient: self._moved(gradient, self._inside))
            known[id(moved)] = moved
            return moved

        def returned(part: nn.Module, inputs: Any, output: Any) -> Any:
            known.update((id(value), value) for value in flatten(inputs))
            return tree_map(move, output)

        hooks = [part.register_forward_hook(returned) for part in module.modules() if part is not module]
        try:
            for parameter, value in parameters:
                parameter.data = self.move(value)
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for parameter, value in parameters:
                parameter.data = value

    def _moved(self, value: Any, step: float) -> Any:
        if not isinstance(value, torch.Tensor) or not is_inexact(value):
            return value

        def moved(values: torch.Tensor) -> torch.Tensor:
            if values.dtype.is_complex:  # each part is rounded by itself
                return torch.view_as_complex(moved(torch.view_as_real(values)))
            shift = torch.rand(values.shape, generator=self._generator, dtype=torch.float64, device="cpu") - 0.5
            return values * (1 + step * shift)

        return with_values(value, moved)


class Sensitivity:
    """How one output of a reference moves as its inputs are moved; `deep`: the reference is a module."""

    def __init__(self, output: torch.Tensor | None, rounding: Rounding, deep: bool):
        self.output = None if output is None else dense(output)
        self.choices: torch.Tensor | None = None
        self.shapes = set[tuple[int, ...]]()
        self._rounding = rounding
        self._deep = deep
        self._square: torch.Tensor | None = None  # the sum of the squares of its moves
        self._moves = 0
        self._longest = 0.0
        if self.output is not None:
            self.shapes.add(tuple(self.output.shape))
            if is_inexact(self.output):
                self._square = torch.zeros(self.output.shape, dtype=torch.float64)
            else:
                self.choices = torch.zeros(self.output.shape, dtype=torch.bool)

    @property
    def uncertain(self) -> bool:
        """Whether a choice or the shape depends on a rounding."""
        return len(self.shapes) > 1 or (self.choices is not None and bool(self.choices.any()))

    def add(self, moved: torch.Tensor | None) -> None:
        """Adds what moved inputs give."""
        if self.output is None or moved is None:
            return
        moved = dense(moved)
        self.shapes.add(tuple(moved.shape))
        if moved.shape != self.output.shape:
            return
        if self.choices is not None:
            self.choices |= moved != self.output
        elif self._square is not None and moved.numel():
            distance = finite(wide(moved) - wide(self.output)).abs()
            self._longest = max(self._longest, float(distance.max()))
            self._square += distance.square()
            self._moves += 1

    def error(self, tolerance: float) -> torch.Tensor | None:
        """The error that one rounding may make in each element."""
        if self._square is None or self.output is None:
            return None
        square = self._square / max(self._moves, 1)
        if self.output.dtype.itemsize == 1:  # for float8: which elements move
            return square.sqrt()
        moved = (square.sqrt() + self._typical(square)) * self._rounding.scale
        return tolerance * (moved + _magnitude(self.output, self._rounding))

    def leap(self, tolerance: float) -> float:
        """How far a kink of a module, such as a ReLU's, may move an element, whichever it is; 0 for a function.

        Rounding turns over a few of very many kinks: hardly the same as the moves did, but as far.
        """
        return tolerance * self._longest * self._rounding.scale if self._deep else 0.0

    def _typical(self, square: torch.Tensor) -> float:
        """The change of a typical element: one that cancels owes its error to its neighbours' size."""
        if not square.numel():
            return 0.0
        return float((square.mean() if self._deep else square.median()).sqrt())


def _magnitude(output: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    """One rounding of the result itself; for the finer dtypes no less than what a long sum leaves."""
    scale = finite(wide(output)).abs()
    extra = (rounding.floor - rounding.eps) * float(scale.square().mean().sqrt()) if scale.numel() else 0.0
    return rounding.floor * scale + extra
