"""Probes: further inputs of an operation by which its variants are checked, as its YAML file declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.errors import UsageError, unknown
from harness.configuration.operation import DTYPES, MODES

PROBE_KEYS = ("dims", "dtypes", "modes")  # every other key is an input's name
NUMBERS = ("fill", "scale", "add")
CHANGES = (*NUMBERS, "at", "strided")


@dataclass(frozen=True)
class Change:
    """How one input is changed: scaled, moved or filled, all of it or at an index; or stored with other strides."""

    fill: float | None = None
    scale: float | None = None
    add: float | None = None
    at: tuple[int, ...] = ()  # as of x[0] or x[0, 3]; empty: all of it
    strided: bool = False  # its neighbours along the last dimension are not next to each other in memory


@dataclass(frozen=True)
class Probe:
    """Further inputs: those of the case at other dims, or with some of them changed."""

    name: str
    dims: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, Change] = field(default_factory=dict)  # by the input's name
    dtypes: tuple[str, ...] = DTYPES  # in which it is tried
    modes: tuple[str, ...] = MODES


def probes(declared: Any, dims: Mapping[str, int]) -> tuple[Probe, ...]:
    """The probes that are declared; raises UsageError for a key or value that has no meaning."""
    if declared is None:
        return ()
    if not isinstance(declared, Mapping):
        raise UsageError(f"op.probes={declared}: expected a mapping, such as {{tiny: {{x: {{scale: 1e-3}}}}}}")
    return tuple(_probe(str(name), value, dims) for name, value in declared.items() if value is not None)


def _probe(name: str, value: Any, dims: Mapping[str, int]) -> Probe:
    key = f"op.probes.{name}"
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"{key}={value}: expected inputs by name, and dims, such as {{x: {{scale: 1e-3}}}}")
    chosen = value.get("dims") or {}
    if not isinstance(chosen, Mapping):
        raise UsageError(f"{key}.dims={chosen}: expected sizes by name, such as {{{next(iter(dims), 'rows')}: 1}}")
    for dim, size in chosen.items():
        if dim not in dims:
            raise unknown(f"{key}.dims", dim, dims, "dims")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"{key}.dims.{dim}={size}: expected a positive whole number")
    return Probe(
        name=name,
        dims=dict(chosen),
        changes={str(item): _change(f"{key}.{item}", value[item]) for item in value if item not in PROBE_KEYS},
        dtypes=_some(f"{key}.dtypes", value.get("dtypes"), DTYPES),
        modes=_some(f"{key}.modes", value.get("modes"), MODES),
    )


def _change(key: str, value: Any) -> Change:
    if not isinstance(value, (Mapping, list)):
        return Change(fill=_number(key, value))
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"{key}={value}: expected a number to fill it with, or {{scale: 1e-3}}, {{fill: 0, at: [0]}}")
    for part in value:
        if part not in CHANGES:
            raise unknown(key, part, CHANGES, "keys of a change")
    at = value.get("at", [])
    at = at if isinstance(at, list) else [at]
    if not all(type(index) is int for index in at):
        raise UsageError(f"{key}.at={value['at']}: expected an index, such as 0 for a row or [0, 3] for an element")
    strided = value.get("strided", False)
    if not isinstance(strided, bool):
        raise UsageError(f"{key}.strided={strided}: expected true or false")
    numbers = {part: _number(f"{key}.{part}", value[part]) for part in NUMBERS if part in value}
    return Change(**numbers, at=tuple(at), strided=strided)


def _some(key: str, value: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
    if value is None:
        return choices
    if not isinstance(value, list):
        raise UsageError(f"{key}={value}: expected a list, such as [{choices[0]}]")
    for item in value:
        if item not in choices:
            raise unknown(key, item, choices)
    return tuple(value)


def _number(key: str, value: Any) -> float:
    """A number, infinity and NaN among them, as YAML (.inf) or Python (inf) writes it."""
    try:
        if not isinstance(value, bool):
            return float(str(value).replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        pass
    raise UsageError(f"{key}={value}: expected a number")
