"""Tasks: the environments of a case, each with processes of its own, and what one of these is given to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.configuration.environments import Environment
from harness.configuration.operation import Case
from harness.configuration.settings import Settings


@dataclass(frozen=True)
class Task:
    """One process's share of a case."""

    case: Case
    settings: Settings
    variants: tuple[str, ...]  # to be measured, in the order of the configuration
    replicate: int
    full_pass: bool  # also checks and profiles the variants, and measures their memory; once an environment
    settling_s: float  # of calls before those that are recorded
    traces: str  # a folder that holds one for each variant
    call_seconds: Mapping[str, float] = field(default_factory=dict)  # a call of each, as earlier processes saw it
    device_timed: tuple[str, ...] = ()  # those whose device time earlier processes could sample
    share: float = 1.0  # of the time that a process would have if it were alone of its set
    control: bool = False  # times the baseline alone, under the name ACROSS
    several: bool = False  # whether there are processes of other environments


@dataclass(frozen=True)
class Side:
    """The processes of one environment, by its number; 0 is that of the baseline."""

    number: int
    environment: Environment
    variants: tuple[str, ...]  # in the order of the configuration
    control: bool = False  # its processes time nothing but the baseline, under the name ACROSS
    share: float = 1.0  # of the time of a process of each side


def sides(case: Case) -> list[Side]:
    """The sides of a case, the baseline's first.

    With several there is one more, of the control: it tells what two processes of the same environment differ by. Time
    is shared by how many names are timed.
    """
    baseline = case.baseline
    names: dict[Environment, list[str]] = {baseline.environment: []}
    for variant in case.operation.variants:
        names.setdefault(variant.environment, []).append(variant.name)
    found = [Side(number, *content) for number, content in enumerate((key, tuple(each)) for key, each in names.items())]
    if len(found) == 1:
        return found
    found.append(Side(len(found), baseline.environment, (baseline.name,), control=True))
    timed = [len(side.variants) + (side.number == 0) for side in found]  # the first has a control within its processes
    return [
        Side(side.number, side.environment, side.variants, side.control, count / sum(timed))
        for side, count in zip(found, timed, strict=True)
    ]
