"""The step: what was seen of one, as plain values that are read without torch: its calls, operators and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.operation import Case
from harness.configuration.settings import Settings

MODULE, FUNCTION = "module", "function"


@dataclass(frozen=True)
class RecordTask:
    """What a recording process does: `case` is the whole model's, its baseline the model as it is."""

    case: Case
    settings: Settings
    folder: Path  # where the trace is left
    own_dtype: bool  # record it in the dtype that its parameters have, in place of the case's
    replacements: Mapping[str, Any]  # as harness.model.recording.replace takes them, by name


@dataclass(frozen=True)
class Call:
    """A call of a module, or of a function of torch by a module's own code. Times are microseconds.

    Each time is that of the call's own code: without the modules and functions that it calls, and with what of the
    backward pass belongs to it.
    """

    kind: str
    function: str  # the dotted path of the module's class, or of the function
    path: str  # where the module is in the model, or the module whose code calls the function
    parent: int  # the position of the module call that it is part of; -1: none
    signature: int  # the position of what it was given among the step's signatures
    config: str = ""  # what the module is: its repr, and the shapes of its parameters
    host_us: float = 0.0  # on the host's clock, under the profiler
    self_cpu_us: float = 0.0  # the Self CPU of operators
    device_us: float | None = None  # the self device time of operators
    operators: int = 0  # outermost ones
    writes: bool = False  # into tensors that it is given
    differentiable: bool = False  # what it returns takes a gradient
    known: tuple[str, ...] = ()  # operations of the library that compute the same


@dataclass(frozen=True)
class Operator:
    """An operator's calls that are alike, in all calls of the same module class or function."""

    operator: str
    caller: str  # the class or function in whose own code it is called
    shapes: str
    strides: str
    dtypes: str
    arguments: str  # those that are no tensors
    calls: int
    self_cpu_us: float
    device_us: float | None


@dataclass(frozen=True)
class Step:
    """A step, taken apart. Its calls are in the order of their start, and add up to `host_us` with what is outside."""

    model: str  # the dotted path of the model's class
    dtype: str
    calls: list[Call]
    signatures: list[Any]  # as recording.signature gives them, with what their tensors are to be drawn like
    operators: list[Operator]
    host_us: float  # from its start on the host until its work is done, under the profiler
    outside_us: float  # of that, in no call: Python around the model
    autograd_us: float  # in autograd's engine, before the first node of the backward pass and after the last
    optimizer_us: float  # in an optimizer's step
    busy_us: float | None  # time in which a device runs something; None: no device of its own
    targets: dict[str, list[str]] = field(default_factory=dict)  # the paths that each replacement replaces
    differs: dict[str, str | None] = field(default_factory=dict)  # the path at which each replacement first differs
    compiled: bool = False  # the builder gives it compiled; the step is that of what was compiled
    autocast: str = ""  # the dtype to which torch.autocast casts in it, if it does
    steps: int = 1  # recorded: times are the least over them
    notes: list[str] = field(default_factory=list)
