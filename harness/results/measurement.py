"""Measurement: what was seen of one variant in one case; raw samples are kept, statistics are derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from harness.measure.observations import CompileCost, Error, OperatorRow, Profile, Timeline

T = TypeVar("T")

OK, WRONG, FAILED, SKIPPED, DEGRADED = "ok", "wrong", "failed", "skipped", "degraded"
SEVERITY = (OK, DEGRADED, WRONG, SKIPPED, FAILED)  # a worse status is never overwritten by a better one

CONTROL = "(control)"  # the hidden second name of the baseline


@dataclass
class Measurement:
    """One variant's row, and all that stands behind it."""

    variant: str
    status: str = OK
    reason: str | None = None
    error: Error | None = None
    comparable: bool = True  # False: random, so that its correctness is not known
    no_op: bool = False  # hands back its input, or runs no operator: a ratio would have no meaning
    compiles: list[CompileCost] = field(default_factory=list)  # of each process
    recompiles: int | None = None  # while it was timed
    profile: Profile | None = None
    timeline: Timeline | None = None
    peak_memory_bytes: int | None = None
    capture: Mapping[str, Any] | None = None  # capture.Capture: what Neuron's profiler left
    engines: Mapping[str, float] = field(default_factory=dict)  # explorer.Summary's metrics
    probed: dict[str, Any] = field(default_factory=dict)  # by column: what its probe returned
    notes: list[str] = field(default_factory=list)

    def escalate(self, status: str, reason: str) -> None:
        """Takes the status, unless a worse one is known; reasons of equal weight are joined."""
        if SEVERITY.index(status) > SEVERITY.index(self.status):
            self.status, self.reason = status, reason
        elif status == self.status and reason not in (self.reason or ""):
            self.reason = f"{self.reason}; {reason}"

    def note(self, text: str) -> None:
        """Adds a warning, once."""
        if text not in self.notes:
            self.notes.append(text)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Measurement:
        """The measurement that a results.json holds.

        Raises KeyError and TypeError where it is not whole.
        """
        profile = content["profile"]
        if profile is not None:
            operators = tuple(_read(OperatorRow, row) for row in profile["operators"])
            profile = _read(Profile, {**profile, "operators": operators})
        return _read(
            cls,
            {
                **content,
                "error": content["error"] and _read(Error, content["error"]),
                "compiles": [_read(CompileCost, cost) for cost in content["compiles"]],
                "profile": profile,
                "timeline": content["timeline"] and _read(Timeline, content["timeline"]),
                "engines": content.get("engines") or {},
            },
        )


def _read(cls: type[T], content: Mapping[str, Any]) -> T:
    """A dataclass from its fields in JSON; what else is there is of another version, and ignored."""
    known = {each.name for each in fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in content.items() if name in known})


@dataclass
class Outcome:
    """A case's measurements, with what they were made under."""

    measurements: list[Measurement]
    samples: list[list[Any]]  # variant, process, round, calls, seconds per call
    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    work: Mapping[str, float] | None = None
    stopped: str = ""  # why sampling ended
    warnings: list[str] = field(default_factory=list)
