"""Observations of one variant, as plain values that JSON holds and that can be read without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Error:
    """The largest difference from the reference over all outputs."""

    absolute: float
    relative: float
    units: float  # of the dtype, at the magnitude of the element
    allowed: float  # the largest share of the allowed error that was used; above 1 is wrong


@dataclass(frozen=True)
class Found:
    """Something that tells against a variant, and of which of harness.measure.kinds it is."""

    kind: str
    reason: str


@dataclass(frozen=True)
class Finding:
    """The result of checking a variant; `reason` is None if nothing is wrong."""

    reason: str | None
    error: Error | None
    not_comparable: str | None = None  # why its outputs cannot be compared, so that nothing is known of them
    no_op: bool = False  # hands back its input: nothing need have been computed
    notes: list[str] = field(default_factory=list)  # what could not be compared
    kind: str | None = None  # of what is wrong


@dataclass(frozen=True)
class CompileCost:
    """The cost of compiling a variant in this process, and the result."""

    seconds: float  # from the first call to its result, tracing and code generation included
    cached: bool  # the back end found its code in a cache on disk
    graphs: int | None  # None: not known for this torch
    graph_breaks: int
    break_reasons: list[str] = field(default_factory=list)
    degraded: str | None = None


@dataclass(frozen=True)
class OperatorRow:
    """One operator's part of a call: times in microseconds and counts, each per call of the variant."""

    operator: str
    calls: int
    self_cpu_us: float
    device_time_us: float | None


@dataclass(frozen=True)
class Profile:
    """The recorded profile of a variant, per call; None for values that the profile does not hold."""

    operators: tuple[OperatorRow, ...]
    active: int  # calls recorded, and not left out
    events: int
    self_cpu_us: float
    operator_calls: int | None
    device_time_us: float | None
    device_executions: int | None
    host_us: float  # from entering the call to leaving it, profiler's own cost included
    notes: list[str] = field(default_factory=list)
    first_calls: int = 0  # recorded calls that are left out: something was built or executed there for the first time


@dataclass(frozen=True)
class Timeline:
    """Counts and times in microseconds, per call; None if the trace does not hold them.

    With several devices their times are added up: two that work side by side are busy twice as long.
    """

    host_dispatches: float  # operators that the host entered from outside any other
    runtime_schedules: float | None  # calls of the device's runtime that put work on it
    device_executions: float | None
    device_busy_us: float | None  # time in which at least one execution runs
    device_span_us: float | None  # from the first execution's start to the last one's end
    device_gap_us: float | None  # of the span, the time in which nothing runs
    host_us: float  # from entering the call to leaving it
    device_wait_us: float | None = None  # of the gaps, the time before the host had given the device its next work
    devices: int = 0  # that executed something


def from_plain(kind: Any, value: Any) -> Any:
    """A value of type `kind` from what `asdict` made of it: dataclasses, lists, tuples, and what may be None.

    A field that is not there keeps its default; a key that is no field is left out.
    """
    return _reader(kind)(value)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes values of this type."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
        return lambda value: kind(**{name: read(value[name]) for name, read in readers.items() if name in value})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        known = _reader(next(each for each in arguments if each is not NoneType))
        return lambda value: None if value is None else known(value)
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        item = _reader(arguments[0])
        return lambda value: origin(map(item, value))
    if origin is tuple:
        items = list(map(_reader, arguments))
        return lambda value: tuple(read(each) for read, each in zip(items, value, strict=True))
    return lambda value: value
