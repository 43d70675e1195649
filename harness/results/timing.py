"""Timing: the latency or the device time of a variant: its typical value, its ratio to the baseline, the verdict."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from harness.results import statistics
from harness.results.measurement import ACROSS, CONTROL
from harness.results.samples import CONDITIONS, QUIET, STARVED, Samples
from harness.results.statistics import Interval
from harness.results.stopping import StoppingRule

if TYPE_CHECKING:
    from harness.results.comparison import Comparison
    from harness.results.entry import Entry


class Clock:
    """What the variants of a case were timed by, the host's clock or the device's, and what their timings share.

    No variant is ranked whose call takes less than `shortest` seconds.
    """

    def __init__(self, comparison: Comparison, samples: Samples, shortest: float = 0.0):
        self.comparison = comparison
        self.samples = samples
        self.shortest = shortest

    @cached_property
    def timings(self) -> dict[str, Timing]:
        """Each variant's timing, by its name."""
        return {name: Timing(self, entry) for name, entry in self.comparison.entries.items()}

    @property
    def baseline(self) -> Timing:
        """The timing that the others are compared with."""
        return self.timings[self.comparison.baseline.name]

    @cached_property
    def comparisons(self) -> int:
        """How many ratios are claimed, and have to hold jointly."""
        return sum(timing.claimed and timing is not self.baseline for timing in self.timings.values())

    @cached_property
    def noise_floor(self) -> float | None:
        """The smallest relative difference that is claimed; None if there is no baseline to compare with."""
        return self._floor(CONTROL)

    @cached_property
    def noise_floor_across(self) -> float | None:
        """The same of a variant in another environment: what processes of the same environment differ by."""
        return self._floor(ACROSS)

    def _floor(self, control: str) -> float | None:
        if not self.baseline.entry.comparable or not self.baseline.processes:
            return None
        pairs = self.samples.paired(self.baseline.entry.name, control)
        return statistics.noise_floor(pairs, self.comparison.settings.min_effect)


class Timing:
    """One variant's times by one clock; seconds per call."""

    def __init__(self, clock: Clock, entry: Entry):
        self.clock = clock
        self.entry = entry

    @cached_property
    def processes(self) -> list[np.ndarray]:
        """The seconds that count of each process that timed it."""
        return [group for group in self.clock.samples.of(self.entry.name) if len(group)]

    @property
    def samples(self) -> int:
        """How many there are in all."""
        return sum(map(len, self.processes))

    @cached_property
    def typical(self) -> Interval | None:
        """The typical time, with an interval that holds by itself."""
        confidence = self.clock.comparison.settings.confidence
        return statistics.interval(self.processes, confidence) if self.processes else None

    @cached_property
    def pairs(self) -> list[np.ndarray]:
        """The baseline's time over its own, sample by sample in each process that timed both."""
        base = self.clock.baseline.entry
        if not base.comparable:
            return []
        pairs = self.clock.samples.paired(base.name, self.entry.name)
        return [group for group in pairs if len(group)]

    @property
    def noise_floor(self) -> float | None:
        """The smallest relative difference that is claimed of it; None if there is no baseline to compare with."""
        return self.clock.noise_floor_across if self.entry.measurement.environment else self.clock.noise_floor

    @property
    def condition(self) -> str | None:
        """What the machine was like for the samples that count; None if there are none."""
        name = self.entry.name
        return CONDITIONS[self.clock.samples.condition(name)] if self.processes else None

    @property
    def quiet_share(self) -> float | None:
        """The share of all its samples for which the machine was quiet."""
        return self.clock.samples.share(self.entry.name, QUIET) if self.processes else None

    @cached_property
    def starved(self) -> bool:
        """Whether its threads, or the baseline's, lacked the cores that they use: its ratio says nothing of it."""
        names = self.clock.baseline.entry.name, self.entry.name
        return bool(self.pairs) and self.clock.samples.condition(*names) == STARVED

    @property
    def too_short(self) -> bool:
        """Whether its call is as short as the loop around it."""
        return self.typical is not None and self.typical.value < self.clock.shortest

    @cached_property
    def ranked(self) -> bool:
        """Whether it has a ratio to the baseline."""
        return self.entry.comparable and bool(self.pairs) and not self.too_short

    @property
    def claimed(self) -> bool:
        """Whether a verdict is given on that ratio: only if the variant is right, as declared."""
        return self.ranked and self.entry.measurement.ranked

    @cached_property
    def speedup(self) -> Interval | None:
        """How many times as fast as the baseline it is, with an interval that holds jointly with all claimed ones."""
        if not self.ranked:
            return None
        if self is self.clock.baseline:
            return Interval(1.0, 1.0, 1.0)
        return self.rule.interval(self.pairs, self.clock.comparisons)

    @property
    def rule(self) -> StoppingRule:
        """That by which sampling ended."""
        return StoppingRule.of(self.clock.comparison.settings)

    @cached_property
    def verdict(self) -> str | None:
        """`baseline`, `faster`, `slower`, `same` or `unclear`; None if it is not ranked or not right."""
        if self.speedup is None:
            return None
        if self is self.clock.baseline:
            return "baseline"
        if not self.claimed:
            return None
        floor = self.noise_floor
        if floor is None or self.starved:
            return "unclear"
        return statistics.verdict(self.speedup, floor, len(self.pairs))

    @cached_property
    def clear_after(self) -> int | None:
        """How many processes an unclear verdict would likely take to become clear; None if no number would do."""
        floor = self.noise_floor
        if self.verdict != "unclear" or floor is None or self.starved:
            return None
        return self.rule.clear_after(self.pairs, self.clock.comparisons, floor)

    @property
    def clear_after_s(self) -> float | None:
        """Seconds that these would sample, if as many were spent on those that there are as were allowed."""
        seconds = self.clock.comparison.settings.seconds
        return None if self.clear_after is None else self.clear_after * seconds / len(self.pairs)
