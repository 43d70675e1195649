"""Difference: all in which NEW differs from OLD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.diff import environment as doubts
from harness.diff import runs
from harness.diff.change import Change, changes
from harness.diff.environment import Doubt
from harness.diff.runs import Pair, Seen, pair
from harness.results import statistics
from harness.results.measurement import DEGRADED, OK, SEVERITY

BROKEN, SLOWER = "broken", "slower"
LEVELS = (BROKEN, SLOWER)  # each refuses what those before it refuse


@dataclass(frozen=True)
class Settings:
    """What may be claimed."""

    threshold: float  # no change below this is claimed
    confidence: float  # with which all claims of a comparison hold together
    absolute: bool  # whether latencies are judged without a witness


@dataclass(frozen=True)
class VariantDifference:
    """One variant of one case; None for a side that lacks it."""

    name: str
    old: Seen | None
    new: Seen | None
    change: Change | None  # None: there are not two latencies to compare

    @property
    def verdict(self) -> str | None:
        """`faster`, `slower`, `same` or `unclear`, where there are two latencies."""
        return self.change.verdict if self.change else None

    @property
    def broken(self) -> bool:
        """Whether it was measured before and is worse off than slower now: wrong, failed, missing."""
        if self.old is None or self.old.status not in (OK, DEGRADED):
            return False
        return self.new is None or SEVERITY.index(self.new.status) > SEVERITY.index(self.old.status)

    @property
    def fixed(self) -> bool:
        """Whether it is right now and was not."""
        return self.old is not None and self.old.status != OK and self.new is not None and self.new.status == OK


@dataclass(frozen=True)
class CaseDifference:
    """One case of either side."""

    pair: Pair
    floor: float | None  # no change below this is claimed; None where only one side has the case
    variants: list[VariantDifference]


@dataclass(frozen=True)
class Difference:
    """A whole comparison."""

    old: Path
    new: Path
    settings: Settings
    doubts: list[Doubt]
    troubles: list[str]
    cases: list[CaseDifference]

    @property
    def both(self) -> list[CaseDifference]:
        """The cases of both sides."""
        return [case for case in self.cases if case.pair.old and case.pair.new]


def difference(old: Path, new: Path, settings: Settings) -> Difference:
    """Compares what OLD and NEW name; raises UsageError where they cannot be compared."""
    pairs = pair(runs.read(old), runs.read(new))
    comparisons = sum(len(_timed(one)) for one in pairs)
    confidence = statistics.level(settings.confidence, comparisons)
    cases = [_case(one, settings, confidence) for one in pairs]
    return Difference(old, new, settings, doubts.doubts(pairs), doubts.troubles(pairs), cases)


def _case(one: Pair, settings: Settings, confidence: float) -> CaseDifference:
    old, new = (run.variants if run else {} for run in (one.old, one.new))
    floor, found = None, {}
    if one.old and one.new:
        floor = max(settings.threshold, one.old.noise_floor, one.new.noise_floor)
        names = _timed(one)
        before, after = ({name: side[name].timed for name in names} for side in (old, new))
        found = changes(before, after, floor, confidence, settings.absolute)
    names = list(dict.fromkeys([*new, *old]))
    rows = [VariantDifference(name, old.get(name), new.get(name), found.get(name)) for name in names]
    return CaseDifference(one, floor, rows)


def _timed(one: Pair) -> Sequence[str]:
    """The variants with a latency in both runs."""
    if not one.old or not one.new:
        return []
    return [name for name, seen in one.new.variants.items() if seen.timed and _has(one.old.variants.get(name))]


def _has(seen: Seen | None) -> bool:
    return seen is not None and bool(seen.timed)


def refused(difference: Difference, level: str | None) -> list[tuple[CaseDifference, VariantDifference]]:
    """What a gate of this level fails on; nothing where there is no gate."""
    return [
        (case, variant)
        for case in difference.cases
        for variant in case.variants
        if level is not None and (variant.broken or (level == SLOWER and variant.verdict == SLOWER))
    ]
