"""Timing: the latency or the device time of a variant: its typical value, its ratio to the baseline, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from harness.results import samples, statistics
from harness.results.measurement import CONTROL
from harness.results.statistics import Groups, Interval, StoppingRule

if TYPE_CHECKING:
    from harness.results.comparison import Comparison
    from harness.results.entry import Entry


class Clock:
    """What the variants of a case were timed by, the host's clock or the device's, and what their timings share.

    `seconds` are those per call, by variant and process, `(control)` among them; `every_round` are the same with the
    noisy rounds, for the noise floor. No variant is ranked whose call takes less than `shortest` seconds.
    """

    def __init__(
        self,
        comparison: Comparison,
        seconds: Mapping[str, Groups],
        every_round: Mapping[str, Groups],
        shortest: float = 0.0,
    ):
        self.comparison = comparison
        self.seconds = seconds
        self.every_round = every_round
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
        settings = self.comparison.settings
        if not self.baseline.entry.comparable or not self.baseline.processes:
            return None
        pairs = samples.paired(self.every_round[self.baseline.entry.name], self.every_round[CONTROL])
        control = statistics.interval(pairs, settings.confidence) if pairs else Interval(1.0, 1.0, 1.0)
        return statistics.noise_floor(control, settings.min_effect)


class Timing:
    """One variant's times by one clock; seconds per call."""

    def __init__(self, clock: Clock, entry: Entry):
        self.clock = clock
        self.entry = entry

    @cached_property
    def processes(self) -> list[np.ndarray]:
        """The seconds of each process that timed it, without the noisy rounds."""
        return [group for group in self.clock.seconds[self.entry.name] if len(group)]

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
        return samples.paired(self.clock.seconds[base.name], self.clock.seconds[self.entry.name])

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
        return StoppingRule.of(self.clock.comparison.settings).interval(self.pairs, self.clock.comparisons)

    @cached_property
    def verdict(self) -> str | None:
        """`baseline`, `faster`, `slower`, `same` or `unclear`; None if it is not ranked or not right."""
        if self.speedup is None:
            return None
        if self is self.clock.baseline:
            return "baseline"
        if not self.claimed:
            return None
        floor = self.clock.noise_floor
        return "unclear" if floor is None else statistics.verdict(self.speedup, floor, len(self.pairs))
