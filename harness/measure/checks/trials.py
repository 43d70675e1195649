"""Trials: further inputs that variants are checked by, the probes that an operation declares and sizes near a case's.

None is asked for where the reference itself refuses it. Of a case whose inputs are large, all are made at smaller
sizes: what a variant leaves out or mistakes shows there as well.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from harness.configuration.errors import UsageError, unknown
from harness.configuration.operation import Case, Inputs, resolve
from harness.configuration.probes import Change, Probe
from harness.measure.checks.case_data import CaseData
from harness.measure.checks.reference import Expected
from harness.measure.trees import flatten, tree_map

LARGE = 2**18  # elements of a case's inputs above which they are tried at smaller sizes


@dataclass(frozen=True)
class Trial:
    """Inputs, and what the reference gives for them."""

    words: str  # where: `on the probe tiny`
    reshaped: bool  # of other sizes or strides than the case's
    declared: bool  # by the operation's author, who says that it takes them
    _data: CaseData

    def inputs(self, seed: int) -> Inputs:
        """As of CaseData; raises UsageError, with the probe's name, if it does not fit the inputs."""
        with self._named():
            return self._data.inputs(seed)

    def expected(self, seed: int) -> Expected:
        """As of CaseData; raises UsageError, with the probe's name, if the reference raises."""
        with self._named():
            return self._data.expected(seed)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            raise UsageError(f"{error} ({self.words})") from error


def trials(case: Case, inputs: Inputs, reshaped: bool) -> Iterator[Trial]:
    """The trials of a case with such inputs; with `reshaped`, those of other sizes and strides as well."""
    small = case if _elements(inputs) <= LARGE else _reduced(case)
    own = small is case
    for probe in case.operation.probes:
        if case.dtype not in probe.dtypes or case.mode not in probe.modes:
            continue
        other = not own or bool(probe.dims) or any(change.strided for change in probe.changes.values())
        if reshaped or not other:
            sized = _sized(small, probe.dims)
            data = CaseData(sized, partial(_changed, case, probe))
            yield Trial(f"on the probe {probe.name}", other, True, data)
    signed = CaseData(small, _signed)
    if case.operation.signs and (reshaped or own) and signed.defined(case.seed, finite=True):
        yield Trial("where every other number of its inputs has the other sign", not own, False, signed)
    near = _near(small) if reshaped else None
    if near is not None:
        sizes = " ".join(f"{name}={size}" for name, size in near.operation.dims.items())
        yield Trial(f"at {sizes}, near the sizes asked for", True, False, CaseData(near))


def _elements(inputs: Inputs) -> int:
    return sum(value.numel() for value in flatten(inputs) if isinstance(value, torch.Tensor))


def _sized(case: Case, dims: Mapping[str, int]) -> Case:
    return replace(case, operation=replace(case.operation, dims={**case.operation.dims, **dims})) if dims else case


def _reduced(case: Case) -> Case:
    """The case with its largest sizes halved until its inputs are small, as far as the reference takes them."""
    fixed: set[str] = set(case.operation.dims) - set(case.operation.vary)
    while True:
        free = {name: size for name, size in case.operation.dims.items() if name not in fixed and size > 1}
        if not free:
            return case
        largest = max(free, key=lambda name: free[name])
        halved = _sized(case, {largest: free[largest] // 2})
        try:
            elements = _elements(CaseData(halved).inputs(case.seed))
        except UsageError:
            fixed.add(largest)
            continue
        if elements > LARGE:
            case = halved
        elif CaseData(halved).defined(case.seed):
            return halved
        else:
            fixed.add(largest)


def _near(case: Case) -> Case | None:
    """The case with each dim that varies one larger, or else half as large, wherever the reference takes it."""
    dims = case.operation.dims
    all_larger = _sized(case, {name: dims[name] + 1 for name in case.operation.vary})
    if all_larger is not case and CaseData(all_larger).defined(case.seed):
        return all_larger
    near = case
    for name in case.operation.vary:
        for size in (dims[name] + 1, dims[name] // 2):
            changed = _sized(near, {name: size})
            if size and CaseData(changed).defined(case.seed):
                near = changed
                break
    return None if near is case else near


def _signed(inputs: Inputs) -> Inputs:
    """The inputs with the sign of every other number changed."""

    def signed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.layout != torch.strided:
            return value
        signs = 1 - 2 * (torch.arange(value.numel(), device="cpu").reshape(value.shape) % 2)
        return (value.detach() * signs.to(value.dtype)).requires_grad_(value.requires_grad)

    changed: Inputs = tree_map(signed, inputs)
    return changed


def _changed(case: Case, probe: Probe, inputs: Inputs) -> Inputs:
    """The inputs with those changed that a probe names."""
    names = list(inputs) if isinstance(inputs, dict) else list(map(str, range(len(inputs))))
    values = list(inputs.values() if isinstance(inputs, dict) else inputs)
    places = {name: place for place, name in enumerate(names)}
    if not isinstance(inputs, dict):
        places |= _places(case, len(inputs))
    for name, change in probe.changes.items():
        key = f"op.probes.{probe.name}"
        if name not in places:
            raise unknown(
                key, name, [word for word in places if not word.isdigit()] or names, f"inputs of {case.operation.name}"
            )
        position = places[name]
        if not isinstance(values[position], torch.Tensor):
            raise UsageError(f"{key}.{name}: a {type(values[position]).__name__}, where a tensor can be changed")
        values[position] = _as_changed(values[position], change, f"{key}.{name}")
    return dict(zip(inputs, values, strict=True)) if isinstance(inputs, dict) else tuple(values)


def _places(case: Case, count: int) -> dict[str, int]:
    """The positions of inputs by the names that the reference gives them, or the baseline, if it has others."""
    places: dict[str, int] = {}
    for key, function in (("op.reference", case.operation.right), (case.baseline.key, case.baseline.fn)):
        try:
            parameters = inspect.signature(resolve(function, key)).parameters.values()
        except (TypeError, ValueError, UsageError):  # of a built-in function, or none that can be found
            continue
        named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for place, name in enumerate(named[:count]):
            places.setdefault(name, place)
    return places


def _as_changed(value: torch.Tensor, change: Change, key: str) -> torch.Tensor:
    changed = value.detach().clone()
    place: Any = change.at or ...
    try:
        if change.fill is not None:
            changed[place] = change.fill
        if change.scale is not None:
            changed[place] = changed[place] * change.scale
        if change.add is not None:
            changed[place] = changed[place] + change.add
    except (IndexError, RuntimeError, OverflowError) as error:
        raise UsageError(f"{key}: does not fit a tensor of shape {tuple(value.shape)}: {error}") from error
    if change.strided:
        changed = torch.stack((changed, changed), dim=-1)[..., 0]
    return changed.requires_grad_(value.requires_grad)
