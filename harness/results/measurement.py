"""Measurement: everything measured of one variant in one case; statistics are derived from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.operation import ACROSS as ACROSS
from harness.configuration.operation import CONTROL as CONTROL
from harness.configuration.operation import CONTROLS as CONTROLS
from harness.measure.observations import CompileCost, Error, Found, Profile, Timeline, from_plain

OK, WRONG, FAILED, SKIPPED, DEGRADED = "ok", "wrong", "failed", "skipped", "degraded"
SEVERITY = (OK, DEGRADED, WRONG, SKIPPED, FAILED)  # a worse status is never overwritten by a better one


@dataclass
class Measurement:
    """One variant's status and observations."""

    variant: str
    environment: int = 0  # its number among the run's; 0: the baseline's
    status: str = OK
    reason: str | None = None
    error: Error | None = None
    comparable: bool = True  # False: random, so that its correctness is not known
    no_op: bool = False  # hands back its input, or runs no operator: a ratio would have no meaning
    compiles: list[CompileCost] = field(default_factory=list)  # one of each process
    recompiles: int | None = None  # while it was timed
    profile: Profile | None = None
    timeline: Timeline | None = None
    peak_memory_bytes: int | None = None
    probed: dict[str, Any] = field(default_factory=dict)  # columns that a probe has measured
    capture: Mapping[str, Any] | None = None  # devices.base.Capture as a dict
    engines: Mapping[str, float] | None = None  # the metrics of devices.base.Summary
    notes: list[str] = field(default_factory=list)
    findings: list[Found] = field(default_factory=list)  # all that tells against it

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Measurement:
        """The measurement that results.json holds as `asdict` gives it."""
        return from_plain(cls, plain)

    @property
    def ranked(self) -> bool:
        """Whether it takes part in comparisons: right, as declared, and of comparable outputs."""
        return self.status == OK and self.comparable and not self.no_op

    def escalate(self, status: str, reason: str, kind: str | None = None) -> None:
        """Takes the status, unless a worse one is known.

        Reasons of equal weight are joined, and why a variant is wrong follows how it was degraded. `kind` is that of
        the finding; None: as the status.
        """
        if status != SKIPPED:
            self.find(kind or status, reason)
        if SEVERITY.index(status) > SEVERITY.index(self.status):
            self.reason = f"{self.reason}; {reason}" if (self.status, status) == (DEGRADED, WRONG) else reason
            self.status = status
        elif status == self.status and form(reason) not in form(self.reason or ""):  # as of another process
            self.reason = f"{self.reason}; {reason}"

    def note(self, text: str, kind: str | None = None) -> None:
        """Adds a warning, once; with a kind it is a finding as well."""
        if text not in self.notes:
            self.notes.append(text)
        if kind is not None:
            self.find(kind, text)

    def find(self, kind: str, reason: str) -> None:
        """Adds a finding, once."""
        if not any(found.kind == kind and form(found.reason) == form(reason) for found in self.findings):
            self.findings.append(Found(kind, reason))


@dataclass
class Outcome:
    """A case's measurements, with their device and environment."""

    measurements: list[Measurement]
    samples: list[list[Any]]  # variant, process, and the rest of a measure.latency.Sample
    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    device_samples: list[list[Any]] = field(default_factory=list)  # variant, process, call, seconds on the device
    machine: Mapping[str, Any] = field(default_factory=dict)  # results.machine.Machine as a dict
    work: Mapping[str, float] | None = None
    environments: list[dict[str, Any]] = field(default_factory=list)  # what is of each alone, and what it then was
    stopped: str = ""  # why sampling ended
    warnings: list[str] = field(default_factory=list)


def form(text: str) -> str:
    """A text without its numbers: what two that say the same of different processes have in common."""
    return re.sub(r"\d[\d.,]*", "#", text)


def merged(texts: Sequence[str]) -> list[str]:
    """Warnings that differ in their numbers only, as one."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(form(text), []).append(text)
    return [
        group[0] if len(group) == 1 else f"{max(group, key=_first_number)} (the most of {len(group)} processes)"
        for group in alike.values()
    ]


def _first_number(text: str) -> float:
    match = re.search(r"\d[\d,]*(\.\d+)?", text)
    return float(match[0].replace(",", "")) if match else 0.0
