"""Task: what a measuring process is given to do when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
