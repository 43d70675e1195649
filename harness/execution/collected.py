"""Collected: all that the measuring processes of a case have sent, and whose fault it is that one has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.configuration.operation import Case, describe
from harness.execution import messages
from harness.execution.messages import (
    Broken,
    Contents,
    DeviceOpened,
    DeviceTimes,
    Died,
    Done,
    Environment,
    Forged,
    Measured,
    Message,
    Ready,
    Slow,
    Spoilt,
    Step,
    Usage,
    Warnings,
    Work,
)  # fmt: skip
from harness.execution.pool import Place
from harness.execution.record import record
from harness.execution.sides import Side
from harness.measure.contents import alike
from harness.results.measurement import CONTROLS, FAILED, SKIPPED, WRONG, Measurement

FORGED = "sends messages of its own by the pipe of the measuring process, which were left out"

Progress = Callable[[str], None]
Admit = Callable[[Side, str], str | None]  # of an environment and its device: why it must not be measured


class Collected:
    """What was observed of a case, and of its environments, so far."""

    def __init__(self, case: Case, sides: list[Side], log: Path, progress: Progress, admit: Admit):
        self._case = case
        self._sides = sides
        self._log = log
        self._progress = progress
        self._admit = admit
        numbers = {name: side.number for side in sides if not side.control for name in side.variants}
        names = [variant.name for variant in case.operation.variants]
        self.rows = {name: Measurement(name, numbers[name]) for name in names}
        self.samples: list[list[Any]] = []  # variant, process, the rest of a measure.latency.Sample, time slice
        self.device_samples: list[list[Any]] = []  # variant, process, call, seconds on the device
        self.device: dict[str, Any] = {}
        self.environments: dict[int, dict[str, Any]] = {}  # as the first process of each saw its own
        self.work: dict[str, float] | None = None
        self.warnings: list[str] = []
        self.slow: Slow | None = None  # the slowest variant that is slow
        self._contents: Contents | None = None

    def take(self, place: Place, slice_: int, message: Message) -> None:
        """Keeps a message of the process in a place of the pool, sent in the time slice of this number.

        Raises UsageError for what is the command's or the operation's fault, CaseError if no process can measure. In an
        environment beside the baseline's that is the fault of the environment, and fails its rows.
        """
        side = self._sides[place.side]
        match message:
            case Step(variant, name):
                self._progress(f"{variant}: {name}")
            case DeviceOpened(description):
                self._open(side, description)
            case Environment(description):
                self.environments.setdefault(place.side, description)
            case Contents():
                self._compare(side, message)
            case Work(declared):
                if place.side == 0:
                    self.work = declared
            case messages.Samples(rows):
                self.samples += [[name, place.number, *rest, slice_] for name, *rest in rows]
            case DeviceTimes(variant, times):
                self.device_samples += [[variant, place.number, call, seconds] for call, seconds in enumerate(times)]
            case Slow(variant, seconds, _):
                self._progress(f"one call of {variant} takes {seconds:.2g} s")
                self.slow = message if self.slow is None or seconds > self.slow.seconds else self.slow
            case Warnings(lines):
                self.warnings += lines
            case Usage(line):
                self._fault(side, UsageError(line))
            case Broken(line):
                self._fault(side, CaseError(f"{line}; see {self._log}"))
            case Died(None, how):
                self._fault(side, CaseError(f"the measuring process {how}; see {self._log}"))
            case Died(str(key), how) if key not in (*self.rows, *CONTROLS):
                at_fault = self._case.operation.imported[key]
                text = describe(at_fault) if callable(at_fault) else at_fault
                self._fault(side, UsageError(f"{key}={text}: {how} when it was imported or called"))
            case Died(str(name), how):
                self.rows[self._case.baseline.name if name in CONTROLS else name].escalate(FAILED, how)
            case Forged():
                self._accuse(side)
            case Ready() | Measured() | Done() | Spoilt():
                pass
            case _:
                record(self.rows, message)

    def standing(self, names: Iterable[str] | None = None) -> list[str]:
        """The variants, of all or of these, that can be measured as far as is known."""
        rows = self.rows.values() if names is None else [self.rows[name] for name in names if name in self.rows]
        return [row.variant for row in rows if row.status not in (FAILED, SKIPPED)]

    @property
    def fastest(self) -> dict[str, float]:
        """Seconds per call of the fastest sample of each that was timed."""
        found: dict[str, float] = {}
        for name, _, _, _, seconds, *_ in self.samples:
            found[name] = min(seconds, found.get(name, seconds))
        return found

    def described(self) -> list[dict[str, Any]]:
        """The environments, by their numbers, as results.json holds them; empty if there is one alone."""
        sides = [side for side in self._sides if not side.control]
        if len(sides) == 1:
            return []
        seen = [self.environments.get(side.number, {}) for side in sides]
        return [
            {**side.environment.plain, "differs": side.environment.differs(each), "seen": each}
            for side, each in zip(sides, seen, strict=True)
        ]

    def _open(self, side: Side, description: dict[str, Any]) -> None:
        """Takes note of the device: admits it once in each environment, and refuses one that has another."""
        name = description["device"]
        refused = None if side.number in self.environments or side.control else self._admit(side, name)
        self.device = self.device or description
        if refused:
            raise UsageError(refused)
        if name != self.device["device"]:
            self._fault(side, CaseError(f"measures on {name}, and the baseline on {self.device['device']}"))

    def _compare(self, side: Side, contents: Contents) -> None:
        """Fails an environment in which the operation's inputs, or what its reference gives, are others."""
        if side.number == 0:
            self._contents = contents
        elif self._contents is not None:
            if not alike(contents.inputs, self._contents.inputs):
                hint = "all of them have to be drawn by the generator that it is given"
                self._fault(side, CaseError(f"op.inputs gives other numbers in its environment: {hint}"))
            elif not alike(contents.expected, self._contents.expected):
                self._fault(side, CaseError("op.reference gives other numbers in its environment"))

    def _accuse(self, side: Side) -> None:
        """Tells of messages that were forged: of a variant, if it is the only one there beside the baseline."""
        others = [name for name in side.variants if name in self.rows and name != self._case.baseline.name]
        if len(others) == 1:
            self.rows[others[0]].escalate(WRONG, f"tampers with what measures it: {FORGED}")
        elif (text := f"a variant {FORGED}") not in self.warnings:
            self.warnings.append(text)

    def _fault(self, side: Side, error: UsageError | CaseError) -> None:
        """Fails the rows of an environment; what the baseline's cannot do, the run cannot."""
        if side.number == 0 or side.control:
            raise error
        python = side.environment.python
        for name in side.variants:
            if name in self.rows:
                self.rows[name].escalate(FAILED, f"python={python}: {error}" if python else str(error))
