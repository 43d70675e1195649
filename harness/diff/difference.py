"""Difference: everything in which NEW differs from OLD, and what of it a gate fails on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.diff.change import Change, changes
from harness.diff.environment import EnvironmentDifference, RunWarning, environment_differences, run_warnings
from harness.diff.runs import Pair, VariantResult, pair, read
from harness.results import statistics
from harness.results.measurement import DEGRADED, OK, SEVERITY

BROKEN, SLOWER = "broken", "slower"
LEVELS = (BROKEN, SLOWER)  # each also fails on what those before it fail on


@dataclass(frozen=True)
class Settings:
    """Which changes may be claimed."""

    threshold: float  # the smallest relative change that is claimed
    confidence: float  # with which all claims of a comparison hold together
    absolute: bool  # whether latencies are compared as they are, without a control


@dataclass(frozen=True)
class VariantDifference:
    """One variant of one case; None for a side that lacks it."""

    name: str
    old: VariantResult | None
    new: VariantResult | None
    change: Change | None  # None: there are not two latencies to compare

    @property
    def verdict(self) -> str | None:
        """`faster`, `slower`, `same` or `unclear`; None if there are not two latencies."""
        return self.change.verdict if self.change else None

    @property
    def broken(self) -> bool:
        """Whether it was measured before and now has a worse status, or is missing."""
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
    min_change: float | None  # the smallest relative change that is claimed; None if only one side has the case
    variants: list[VariantDifference]


@dataclass(frozen=True)
class Difference:
    """A whole comparison."""

    old: Path
    new: Path
    settings: Settings
    environment_differences: list[EnvironmentDifference]
    warnings: list[RunWarning]
    cases: list[CaseDifference]

    @property
    def both(self) -> list[CaseDifference]:
        """The cases of both sides."""
        return [case for case in self.cases if case.pair.old and case.pair.new]


def difference(old: Path, new: Path, settings: Settings) -> Difference:
    """Compares two runs or sweeps; raises UsageError if they cannot be compared."""
    pairs = pair(read(old), read(new))
    comparisons = sum(len(_comparable(one)) for one in pairs)
    confidence = statistics.level(settings.confidence, comparisons)
    return Difference(
        old=old,
        new=new,
        settings=settings,
        environment_differences=environment_differences(pairs),
        warnings=run_warnings(pairs, settings.threshold),
        cases=[_case(one, settings, confidence) for one in pairs],
    )


def gate_failures(difference: Difference, level: str) -> list[tuple[CaseDifference, VariantDifference]]:
    """The cases and variants on which a gate of this level fails."""
    return [
        (case, variant)
        for case in difference.cases
        for variant in case.variants
        if variant.broken or (level == SLOWER and variant.verdict == SLOWER)
    ]


def _case(one: Pair, settings: Settings, confidence: float) -> CaseDifference:
    old = one.old.variants if one.old else {}
    new = one.new.variants if one.new else {}
    min_change = None
    changed: dict[str, Change] = {}
    if one.old and one.new:
        min_change = max(settings.threshold, one.old.noise_floor, one.new.noise_floor)
        names = _comparable(one)
        before = {name: old[name].samples for name in names}
        after = {name: new[name].samples for name in names}
        changed = changes(before, after, min_change, confidence, settings.absolute)
    variants = [
        VariantDifference(name, old.get(name), new.get(name), changed.get(name)) for name in dict.fromkeys([*new, *old])
    ]
    return CaseDifference(one, min_change, variants)


def _comparable(one: Pair) -> Sequence[str]:
    """The variants with a latency in both runs."""
    if not one.old or not one.new:
        return []
    old = one.old.variants
    return [name for name, result in one.new.variants.items() if result.samples and name in old and old[name].samples]
