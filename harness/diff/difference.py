"""Difference: everything in which NEW differs from OLD, and what of it a gate fails on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.configuration.errors import UsageError
from harness.diff.change import Change, changes
from harness.diff.environment import EnvironmentDifference, RunWarning, environment_differences, run_warnings
from harness.diff.runs import LATENCY, METRICS, Pair, VariantResult, pair, read
from harness.results import statistics
from harness.results.measurement import DEGRADED, OK, SEVERITY

BROKEN, SLOWER = "broken", "slower"
LEVELS = (BROKEN, SLOWER)  # each also fails on what those before it fail on


@dataclass(frozen=True)
class Settings:
    """Which changes may be claimed."""

    threshold: float  # the smallest relative change that is claimed
    confidence: float  # with which all claims of a comparison hold together
    absolute: bool  # whether times are compared as they are, without a control
    metrics: tuple[str, ...] = METRICS  # what is compared; device time is, if both runs have it


@dataclass(frozen=True)
class VariantDifference:
    """One variant of one case; None for a side that lacks it."""

    name: str
    old: VariantResult | None
    new: VariantResult | None
    changes: Mapping[str, Change]  # by metric; without those of which there are not two times to compare

    @property
    def verdicts(self) -> dict[str, str]:
        """By metric `faster`, `slower`, `same` or `unclear`, for what can be compared."""
        return {metric: change.verdict for metric, change in self.changes.items()}

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
    min_changes: Mapping[str, float]  # the smallest relative change that is claimed, by metric, if both sides have it
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
    compared = [(one, metric) for one in pairs for metric in settings.metrics]
    comparisons = sum(len(_comparable(*one)) for one in compared)
    if LATENCY not in settings.metrics and not comparisons:
        raise UsageError(f"--metric={','.join(settings.metrics)}: no variant has a device time in both OLD and NEW")
    confidence = statistics.level(settings.confidence, comparisons)
    return Difference(
        old=old,
        new=new,
        settings=settings,
        environment_differences=environment_differences(pairs),
        warnings=run_warnings(pairs, settings.threshold, settings.metrics),
        cases=[_case(one, settings, confidence) for one in pairs],
    )


def gate_failures(difference: Difference, level: str) -> list[tuple[CaseDifference, VariantDifference]]:
    """The cases and variants on which a gate of this level fails."""
    return [
        (case, variant)
        for case in difference.cases
        for variant in case.variants
        if variant.broken or (level == SLOWER and SLOWER in variant.verdicts.values())
    ]


def _case(one: Pair, settings: Settings, confidence: float) -> CaseDifference:
    old = one.old.variants if one.old else {}
    new = one.new.variants if one.new else {}
    min_changes: dict[str, float] = {}
    changed: dict[str, dict[str, Change]] = {name: {} for name in [*new, *old]}
    for metric in settings.metrics:
        names = _comparable(one, metric)
        if one.old and one.new and (names or metric == LATENCY):
            before, after = one.old.clocks[metric], one.new.clocks[metric]
            min_changes[metric] = max(settings.threshold, before.noise_floor, after.noise_floor)
            floors = {name: max(settings.threshold, *_noise_floors(one, name, metric)) for name in names}
            found = changes(before.samples, after.samples, floors, confidence, settings.absolute)
            for name, change in found.items():
                changed[name][metric] = change
    variants = [VariantDifference(name, old.get(name), new.get(name), changed[name]) for name in changed]
    return CaseDifference(one, min_changes, variants)


def _noise_floors(one: Pair, name: str, metric: str) -> list[float]:
    """That of a variant's environment in each of the two runs."""
    return [run.variants[name].times[metric].noise_floor for run in (one.old, one.new) if run]


def _comparable(one: Pair, metric: str) -> Sequence[str]:
    """The variants with such times in both runs."""
    if not one.old or not one.new:
        return []
    timed = [{name for name, side in run.variants.items() if side.times[metric].right} for run in (one.old, one.new)]
    return [name for name in one.new.variants if name in timed[0] & timed[1]]
