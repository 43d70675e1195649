"""Messages: what a measuring process is told, and everything that it can send back, as plain JSON.

The parent imports no torch, and a process that dies loses nothing that it has sent; so each message is sent as soon
as its content is known, and holds plain values only. `variant` is the row that a message is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.measure.kinds import EXIT
from harness.measure.observations import CompileCost, Finding, Profile, Timeline


@dataclass(frozen=True)
class Measure:
    """To a measuring process: time for so many seconds, without the variants that have failed in other processes."""

    seconds: float
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alone:
    """To a measuring process: time calls of one variant for so many seconds, which the sender times as well."""

    variant: str
    seconds: float


@dataclass(frozen=True)
class TimedAlone:
    """What they took by their samples; None: it is not timed, or its calls take too long to be timed for this alone."""

    recorded: float | None  # seconds of the calls that are recorded
    seconds: float = 0.0  # of all, if those that are not recorded take as long


@dataclass(frozen=True)
class Finish:
    """To a measuring process: there is nothing more to time; do what is left to do."""

    hidden_seed: int  # of contents that no variant can know before
    fresh: bool = True  # whether to try variants on contents that they have not seen
    explained: tuple[float, float, float] | None = None  # checks.fresh.Slowdown of another process's baseline


@dataclass(frozen=True)
class Explained:
    """What caches cost the baseline on contents that it has not seen: the fields of checks.fresh.Slowdown."""

    seconds: tuple[float, float, float]


@dataclass(frozen=True)
class Ready:
    """The process has prepared its variants, and does nothing until it is told."""

    rounds: int  # that it has to take, however little time there is
    bytes: int  # of memory that it shares with no other process


@dataclass(frozen=True)
class Measured:
    """A time slice has ended."""

    seconds: float
    rounds: int  # in all slices so far
    rested_s: float  # before it
    rested_cpu_s: float  # that its threads used meanwhile, although another process was measuring
    others_cpu_s: float  # that other programs used during the slice, on the cores that it may run on


@dataclass(frozen=True)
class Step:
    """A step of a variant begins."""

    variant: str
    name: str


@dataclass(frozen=True)
class Status:
    """A row is not `ok`."""

    variant: str
    status: str
    reason: str
    kind: str | None = None  # of harness.measure.kinds; None: as its status says


@dataclass(frozen=True)
class LeftOut:
    """An optional variant cannot run here, and has no row."""

    variant: str


@dataclass(frozen=True)
class Compiled:
    """A variant was compiled."""

    variant: str
    cost: CompileCost


@dataclass(frozen=True)
class Checked:
    """A variant's outputs were compared with the reference's."""

    variant: str
    finding: Finding


@dataclass(frozen=True)
class Recompiled:
    """How often a variant compiled while it was timed."""

    variant: str
    count: int


@dataclass(frozen=True)
class Peak:
    """The most memory that a call held; None: not known."""

    variant: str
    bytes: int | None


@dataclass(frozen=True)
class Profiled:
    """A variant's calls were profiled."""

    variant: str
    profile: Profile
    timeline: Timeline | None


@dataclass(frozen=True)
class DeviceTimes:
    """Samples of device time: seconds of each profiled call, in order."""

    variant: str
    seconds: list[float]


@dataclass(frozen=True)
class Probed:
    """Values of further columns, by their names."""

    variant: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Note:
    """A warning that stands with a variant's row."""

    variant: str
    text: str
    kind: str | None = None  # of harness.measure.kinds, if it tells against the variant


@dataclass(frozen=True)
class Slow:
    """A call takes so long that the time for one process holds only so many rounds."""

    variant: str
    seconds: float
    rounds: int


@dataclass(frozen=True)
class Samples:
    """Latency samples of a time slice, as measure.latency.Sample has them."""

    rows: list[tuple[str, int, int, float, float, float]]


@dataclass(frozen=True)
class Warnings:
    """Warnings about the case as a whole."""

    lines: list[str]


@dataclass(frozen=True)
class DeviceOpened:
    """The device that measures, as results describe it; `device` is the name that the command line knows it by."""

    description: dict[str, Any]


@dataclass(frozen=True)
class Environment:
    """The measuring process's environment, as results record it."""

    description: dict[str, Any]


@dataclass(frozen=True)
class Contents:
    """Figures of the inputs, and of what the reference gives for them: harness.measure.checks.contents."""

    inputs: list[list[float]]
    expected: list[list[float]]


@dataclass(frozen=True)
class Work:
    """The FLOPs and bytes that the operation declares; None: it declares none."""

    declared: dict[str, float] | None


@dataclass(frozen=True)
class Rate:
    """A measured peak of the processor, a second; `busy`: others used it meanwhile."""

    name: str
    per_s: float
    busy: bool


@dataclass(frozen=True)
class Recorded:
    """What a process has recorded of a model's step: harness.model.step.Step as plain values."""

    step: dict[str, Any]


@dataclass(frozen=True)
class Differs:
    """The path of the first module whose outputs a replacement changes; None if that is not known."""

    replacement: str
    path: str | None


@dataclass(frozen=True)
class Done:
    """The process has done its share: its last message."""


@dataclass(frozen=True)
class Spoilt:
    """A variant failed in a way that may show in what the process does next, so that it has ended early."""


@dataclass(frozen=True)
class Usage:
    """The command or the operation is at fault, in one line: the process's last message."""

    line: str


@dataclass(frozen=True)
class Broken:
    """The process cannot measure, through no variant's fault: its last message."""

    line: str


@dataclass(frozen=True)
class Died:
    """The process ended without a last message, in the turn of `variant`, if anyone's."""

    variant: str | None
    how: str
    kind: str = EXIT


@dataclass(frozen=True)
class Tampered:
    """Something in the process is not as it ought to be, which shows in these rows, whoever did it."""

    variants: tuple[str, ...]  # empty: in none
    reason: str
    kind: str


Message = (
    Measure | Alone | TimedAlone | Finish | Explained | Ready | Measured | Step | Status | LeftOut | Compiled | Checked
    | Recompiled | Peak | Profiled | DeviceTimes | Probed | Note | Slow | Samples | Warnings | DeviceOpened
    | Environment | Contents | Work | Rate | Recorded | Differs | Done | Spoilt | Usage | Broken | Died | Tampered
)  # fmt: skip
Send = Callable[[Message], None]
Receive = Callable[[], Message]
SetTurn = Callable[[str | None], None]  # says whose code runs now, to be read even if the process dies
