"""Collected: all that the measuring processes of a case have sent, and whose fault it is that one has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.configuration.operation import Case, describe
from harness.execution.processes import messages
from harness.execution.processes.messages import (
    Broken,
    Contents,
    DeviceOpened,
    DeviceTimes,
    Died,
    Done,
    Environment,
    Measured,
    Message,
    Ready,
    Slow,
    Spoilt,
    Status,
    Step,
    Tampered,
    Usage,
    Warnings,
    Work,
)
from harness.execution.processes.pool import Place
from harness.execution.task import Side
from harness.measure import kinds
from harness.measure.checks.contents import alike
from harness.results.measurement import CONTROLS, FAILED, SKIPPED, WRONG, Measurement

Progress = Callable[[str], None]
Admit = Callable[[Side, str], str | None]  # of an environment and its device: why it must not be measured
Confirm = Callable[[], bool]  # whether the baseline is at fault by itself; raises what it raises

BY_THE_AUTHOR = ("op.inputs", "op.reference", "op.work")  # functions that may fail by what a variant has done
HANDS_BACK = "it hands back its input: nothing need have been computed"
NO_OPERATOR = "it runs no operator that torch sees, in any of its threads"


class SuspectsError(Exception):
    """One of several variants of a process has harmed others, or all; none of what was measured so far counts."""

    def __init__(self, names: Sequence[str], reason: str):
        super().__init__(reason)
        self.names = names


class Collected:
    """What was observed of a case, and of its environments, so far."""

    def __init__(
        self, case: Case, sides: Sequence[Side], log: Path, progress: Progress, admit: Admit, confirm: Confirm
    ):
        self._case = case
        self._sides = sides
        self._log = log
        self._progress = progress
        self._admit = admit
        self._confirm = confirm
        numbers = {name: side.number for side in sides if not side.control for name in side.variants}
        names = [variant.name for variant in case.operation.variants if variant.name in numbers]
        self.rows = {name: Measurement(name, numbers[name]) for name in names}
        self.samples: list[list[Any]] = []  # variant, process, the rest of a measure.latency.Sample, time slice
        self.device_samples: list[list[Any]] = []  # variant, process, call, seconds on the device
        self.device: dict[str, Any] = {}
        self.environments: dict[int, dict[str, Any]] = {}  # as the first process of each saw its own
        self.work: dict[str, float] | None = None
        self.warnings: list[str] = []
        self.slow: Slow | None = None  # the slowest variant that is slow
        self._contents: Contents | None = None
        self._begun = set[Place]()  # processes in which a variant's code has run
        self._dead = set[str]()  # variants in whose turn a process ended

    def take(self, place: Place, slice_: int, message: Message) -> None:
        """Keeps a message of the process in a place of the pool, sent in the time slice of this number.

        Raises UsageError for what is the command's or the operation's fault, CaseError if no process can measure. In an
        environment beside the baseline's that is the fault of the environment, and fails its rows. Raises SuspectsError
        if it may be that of any of several variants.
        """
        side = self._sides[place.side]
        match message:
            case Step(variant, name):
                self._begun.add(place)
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
            case Usage(line) if line.startswith(BY_THE_AUTHOR):
                self._fault(place, UsageError(line))
            case Usage(line):
                self._fail(side, UsageError(line))
            case Broken(line):
                self._fault(place, CaseError(f"{line}; see {self._log}"))
            case Died(None, how, kind):
                self._fault(place, CaseError(f"the measuring process {how}; see {self._log}"), kind)
            case Died(str(key), how) if key not in (*self.rows, *CONTROLS):
                at_fault = self._case.operation.imported[key]
                text = describe(at_fault) if callable(at_fault) else at_fault
                self._fault(place, UsageError(f"{key}={text}: {how} when it was imported or called"))
            case Died(str(name), how, kind):
                self._bury(side, self._case.baseline.name if name in CONTROLS else name, how, kind)
            case Status(variant, status, reason) if variant == self._case.baseline.name and status in (WRONG, FAILED):
                self._blame_baseline(side, f"{variant}: {reason}")
                record(self.rows, message)
            case Tampered():
                self._accuse(side, message)
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
            self._fail(side, CaseError(f"measures on {name}, and the baseline on {self.device['device']}"))

    def _compare(self, side: Side, contents: Contents) -> None:
        """Fails an environment in which the operation's inputs, or what its reference gives, are others."""
        if side.number == 0:
            self._contents = contents
        elif self._contents is not None:
            if not alike(contents.inputs, self._contents.inputs):
                hint = "all of them have to be drawn by the generator that it is given"
                self._fail(side, CaseError(f"op.inputs gives other numbers in its environment: {hint}"))
            elif not alike(contents.expected, self._contents.expected):
                self._fail(side, CaseError("op.reference gives other numbers in its environment"))

    def _suspects(self, side: Side) -> list[str]:
        """Whoever has code in the processes of an environment, but for the operation's author."""
        return [name for name in side.variants if name in self.rows and name != self._case.baseline.name]

    def _accuse(self, side: Side, tampered: Tampered) -> None:
        """Says that a variant is wrong, if no other can have done it, nor harmed others by it."""
        accused, reason, kind = tampered.variants, tampered.reason, tampered.kind
        baseline, suspects = self._case.baseline.name, self._suspects(side)
        if not suspects or (len(suspects) == 1 and baseline not in accused):
            self.rows[suspects[0] if suspects else baseline].escalate(WRONG, reason, kind)
        elif not accused or not set(accused) <= set(suspects):
            raise SuspectsError(suspects, reason)
        elif any(self.rows[name].ranked for name in accused):
            raise SuspectsError(accused, reason)
        else:
            for name in accused:
                self.rows[name].escalate(WRONG, reason, kind)

    def _blame_baseline(self, side: Side, reason: str) -> None:
        """Finds out whether the baseline is at fault, or what a variant has done in its process."""
        suspects = self._suspects(side)
        if suspects and not self._confirm():
            raise SuspectsError(suspects, reason)

    def _bury(self, side: Side, name: str, how: str, kind: str) -> None:
        """Fails the variant in whose turn a process ended; if that is not the first, who ended them?"""
        reason = f"{name} {how}"
        if name == self._case.baseline.name:
            self._blame_baseline(side, reason)
        self._dead.add(name)
        dead = [other for other in self._suspects(side) if other in self._dead]
        if len(dead) > 1:
            raise SuspectsError(dead, reason)
        self.rows[name].escalate(FAILED, how, kind)

    def _fault(self, place: Place, error: UsageError | CaseError, kind: str | None = None) -> None:
        """Fails an environment, unless that is the doing of a variant whose code has run there."""
        side = self._sides[place.side]
        if place in self._begun:
            if side.number == 0:
                self._blame_baseline(side, str(error))
            elif len(suspects := self._suspects(side)) > 1:
                raise SuspectsError(suspects, str(error))
        self._fail(side, error, kind)

    def _fail(self, side: Side, error: UsageError | CaseError, kind: str | None = None) -> None:
        """Fails the rows of an environment; what the baseline's cannot do, the run cannot."""
        if side.number == 0 or side.control:
            raise error
        python = side.environment.python
        for name in side.variants:
            if name in self.rows:
                self.rows[name].escalate(FAILED, f"python={python}: {error}" if python else str(error), kind)


def record(rows: dict[str, Measurement], message: Message) -> None:
    """Writes a message about one variant into its row; any other message changes nothing."""
    match message:
        case Status(variant, status, reason, kind):
            rows[variant].escalate(status, reason, kind)
        case messages.LeftOut(variant):
            rows.pop(variant, None)
        case messages.Compiled(variant, cost):
            rows[variant].compiles.append(cost)
            if cost.graph_breaks:
                rows[variant].note(
                    f"graph breaks ({cost.graph_breaks}) split it into {cost.graphs} graphs: "
                    f"{'; '.join(cost.break_reasons)}; compile.fullgraph=true refuses what breaks"
                )
        case messages.Checked(variant, finding):
            row = rows[variant]
            row.error = finding.error
            row.comparable = finding.not_comparable is None
            row.no_op = finding.no_op
            if finding.no_op:
                row.find(kinds.NO_WORK, HANDS_BACK)
            if finding.not_comparable is not None:
                row.reason = f"not comparable: {finding.not_comparable}"
                row.find(kinds.NON_DETERMINISM, row.reason)
            for note in finding.notes:
                row.note(note)
        case messages.Recompiled(variant, count):
            rows[variant].recompiles = max(rows[variant].recompiles or 0, count)
        case messages.Peak(variant, size):
            rows[variant].peak_memory_bytes = size
        case messages.Profiled(variant, profile, timeline):
            row = rows[variant]
            row.profile = profile
            row.timeline = timeline
            if profile.operator_calls == 0:
                row.no_op = True
                row.find(kinds.NO_WORK, NO_OPERATOR)
            for note in profile.notes:
                row.note(note)
        case messages.Probed(variant, values):
            rows[variant].probed.update(values)
        case messages.Note(variant, text, kind):
            rows[variant].note(text, kind)
