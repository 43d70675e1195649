"""Findings: the changes that are one - of all cases of a variant, or of a whole machine - the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.history import causes, words
from harness.history.causes import CODE, ENVIRONMENT, METHOD, UNCLEAR
from harness.history.changes import Change
from harness.history.words import BROKEN, OUTCOMES, SLOWER
from harness.report import formatting

DAY_S = 86_400.0
OWN = (CODE, UNCLEAR)  # causes of one variant, and not of all that a machine measures


@dataclass
class Finding:
    """Changes of one cause, outcome and time; of one variant of an operation, unless the cause is one for all."""

    changes: list[Change] = field(default_factory=list)
    start: float = 0.0  # in seconds since 1970: no change is earlier
    end: float = 0.0  # and none is later

    @property
    def first(self) -> Change:
        """The one of them that changed most."""
        return max(self.changes, key=_size)

    @property
    def outcome(self) -> str:
        """`broken`, `slower`, `faster` or `fixed`."""
        return words.outcome(self.first)

    @property
    def cause(self) -> str:
        """As in series.csv."""
        return self.first.cause

    @property
    def lasting(self) -> bool:
        """Whether it is not a variant that was wrong for a while and is right again."""
        return any(not change.over for change in self.changes)

    @property
    def what(self) -> str:
        """`fused`, or how many variants moved."""
        names = list(dict.fromkeys(words.safe(change.variant) for change in self.changes))
        return formatting.some(names, 3)

    @property
    def where(self) -> str:
        """`rmsnorm rows=4 hidden=512 · bfloat16 · forward · cpu`, or the operations and how many cases."""
        titles = dict.fromkeys(change.group.title for change in self.changes)
        if len(titles) == 1:
            return words.safe(next(iter(titles)), 120)
        operations = list(dict.fromkeys(words.safe(change.group.case.op) for change in self.changes))
        return f"{formatting.some(operations, 3)} ({len(titles)} cases)"

    @property
    def size(self) -> str:
        """`+10.1% (+9.0% to +11.2%)`; of several the median and range; the statuses of what broke."""
        if self.first.status is not None:
            return " → ".join(self.first.status)
        if len(self.changes) == 1:
            return words.size(self.first.ratio)
        values = sorted(change.ratio.value for change in self.changes if change.ratio)
        low, middle, high = (formatting.change(float(value)) for value in (values[0], np.median(values), values[-1]))
        return middle if low == high else f"{middle} ({low} to {high})"

    @property
    def since(self) -> str:
        """The first run that has it: `2026-01-30 03:00`."""
        return words.day(self.time)

    @property
    def time(self) -> float:
        """Of the first run that has it, in seconds since 1970; of several changes the one in the middle."""
        return sorted(map(_end, self.changes))[len(self.changes) // 2]

    @property
    def commits(self) -> str:
        """`1a2b3c4 → 5d6e7f8`; empty if they are not known."""
        return causes.commits(self.first) or ""

    @property
    def severity(self) -> tuple[int, int, float]:
        """To sort by: what is still broken, what became slower by its own fault, the rest; the largest first."""
        rank = OUTCOMES.index(self.outcome) if self.lasting else len(OUTCOMES)
        return rank, 0 if self.cause in OWN else 1, -_size(self.first)


def collect(changes: Sequence[Change]) -> list[Finding]:
    """The findings that these changes make, the worst first."""
    found: dict[tuple, list[Finding]] = {}
    for change in sorted(changes, key=_end):
        start, end = _span(change)
        alike = found.setdefault(_key(change), [])
        finding = next((finding for finding in alike if start < finding.end and finding.start < end), None)
        if finding is None:
            finding = Finding(start=start, end=end)
            alike.append(finding)
        finding.changes.append(change)
        finding.start, finding.end = max(finding.start, start), min(finding.end, end)
    return sorted((finding for alike in found.values() for finding in alike), key=lambda finding: finding.severity)


def recent(findings: Sequence[Finding], newest: float, days: float) -> list[Finding]:
    """Those of the last days before the newest run."""
    return [finding for finding in findings if finding.time > newest - days * DAY_S]


def failures(findings: Sequence[Finding], level: str | None) -> list[Finding]:
    """Those on which a gate of this level fails: what is broken still, or, of `slower`, slower by its own fault too."""
    return [
        finding
        for finding in findings
        if (finding.outcome == BROKEN and finding.lasting and level is not None)
        or (finding.outcome == SLOWER and finding.cause == CODE and level == SLOWER)
    ]


def _key(change: Change) -> tuple:
    own = (change.variant, change.group.case.op) if change.cause in OWN else ()
    named = (change.reason,) if change.cause in (METHOD, ENVIRONMENT) else ()
    return change.group.machine, change.cause, words.outcome(change), change.status, *own, *named


def _size(change: Change) -> float:
    return abs(float(np.log(change.ratio.value))) if change.ratio else 0.0


def _span(change: Change) -> tuple[float, float]:
    """When it was, as far as that is known: of a time alone less well than of a ratio or a status."""
    runs = change.group.runs
    if change.beside:  # to the run
        return runs[change.before].time, runs[change.place].time
    return runs[max(change.before - change.within, 0)].time, runs[min(change.place + change.within, len(runs) - 1)].time


def _end(change: Change) -> float:
    return change.group.runs[change.place].time
