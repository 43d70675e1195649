"""Entry: one variant's part in a comparison, from which its row of comparison.csv is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.measure.observations import CompileCost, Error, OperatorRow, Profile, Timeline
from harness.results import roofline, statistics
from harness.results.measurement import DEGRADED, OK, Measurement
from harness.results.roofline import Bound
from harness.results.statistics import Interval

if TYPE_CHECKING:
    from harness.results.comparison import Comparison

COLD = 4  # a first compile that takes this many times as long as later ones found no code in a cache
TOO_FAST_US = 0.05  # a call this short is the loop around it


@dataclass(frozen=True)
class OperatorEntry:
    """One operator of one variant: the source of a row of operators.csv."""

    variant: str
    row: OperatorRow
    device_pct: float | None  # of the variant's device time


class Entry:
    """One variant's part in a comparison: the source of a row of comparison.csv. Times are in seconds."""

    def __init__(self, comparison: Comparison, measurement: Measurement):
        self.comparison = comparison
        self.measurement = measurement

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.measurement.variant

    @property
    def case(self) -> Mapping[str, Any]:
        """The case that it was measured in."""
        return self.comparison.case

    @property
    def profile(self) -> Profile | None:
        """Its profile."""
        return self.measurement.profile

    @property
    def timeline(self) -> Timeline | None:
        """Its timeline, from the trace."""
        return self.measurement.timeline

    @property
    def error(self) -> Error | None:
        """Its difference from the reference."""
        return self.measurement.error

    @cached_property
    def timed(self) -> list[np.ndarray]:
        """Seconds per call of each process that timed it, without the noisy rounds."""
        return [group for group in self.comparison.by_process[self.name] if len(group)]

    @cached_property
    def latency(self) -> Interval | None:
        """Seconds per call."""
        return self.comparison.latency(self.timed)

    def percentile(self, percent: float) -> float | None:
        """A percentile of the samples of all rounds, in µs: slow calls in noisy rounds count too."""
        groups = [group for group in self.comparison.all_rounds[self.name] if len(group)]
        return float(np.percentile(np.concatenate(groups), percent)) * 1e6 if groups else None

    @property
    def comparable(self) -> bool:
        """Whether a ratio of its latency has a meaning: not of a variant that is wrong, or that does nothing."""
        return self.measurement.status in (OK, DEGRADED) and not self.measurement.no_op

    @cached_property
    def pairs(self) -> list[np.ndarray]:
        """The baseline's latency over its own, paired round by round in each process."""
        base = self.comparison.baseline
        if not base.comparable:
            return []
        seconds = self.comparison.by_process
        return statistics.paired(seconds[base.name], seconds[self.name])

    @property
    def too_fast(self) -> bool:
        """Whether its call is as short as the loop around it."""
        return self.latency is not None and self.latency.value * 1e6 < TOO_FAST_US

    @cached_property
    def ranked(self) -> bool:
        """Whether it has a ratio to the baseline."""
        return self.comparable and bool(self.pairs) and self.latency is not None and not self.too_fast

    @property
    def claimed(self) -> bool:
        """Whether a verdict is given on that ratio: only if it is right, as declared."""
        return self.ranked and self.measurement.ranked

    @cached_property
    def speedup(self) -> Interval | None:
        """How many times as fast as the baseline it is."""
        if not self.ranked:
            return None
        return Interval(1.0, 1.0, 1.0) if self is self.comparison.baseline else self.comparison.ratio(self.pairs)

    @cached_property
    def verdict(self) -> str | None:
        """The verdict of comparison.csv."""
        if self.speedup is None:
            return None
        if self is self.comparison.baseline:
            return "baseline"
        return self.comparison.verdict(self.speedup, len(self.pairs)) if self.claimed else None

    @property
    def operators(self) -> list[OperatorEntry]:
        """Its operators, the costliest first."""
        if self.profile is None:
            return []
        total = self.profile.device_time_us
        return [OperatorEntry(self.name, row, _percent(row.device_time_us, total)) for row in self.profile.operators]

    @property
    def profiler_overhead(self) -> float | None:
        """Host time under the profiler over the latency, if no device was timed."""
        if self.profile is None or self.profile.device_time_us or self.latency is None or not self.profile.host_us:
            return None
        return self.profile.host_us / (self.latency.value * 1e6)

    @property
    def gap_share(self) -> float | None:
        """The device's gaps over its span."""
        if self.timeline is None or self.timeline.device_gap_us is None or not self.timeline.device_span_us:
            return None
        return self.timeline.device_gap_us / self.timeline.device_span_us

    @property
    def compile_cost(self) -> CompileCost | None:
        """The cost in the first process, whose code later ones find in the cache."""
        return next(iter(self.measurement.compiles), None)

    @cached_property
    def compile_warm_s(self) -> float | None:
        """Seconds from a warm cache: the median of later processes."""
        later = [cost.seconds for cost in self.measurement.compiles[1:] if cost.cached]
        return float(np.median(later)) if later else None

    @property
    def compile_cached(self) -> bool | None:
        """Whether the first process found its code in a cache; a graph may be cached and its code still be built."""
        if self.compile_cost is None:
            return None
        built = self.compile_warm_s is not None and self.compile_cost.seconds > COLD * self.compile_warm_s
        return self.compile_cost.cached and not built

    @property
    def break_even_calls(self) -> int | None:
        """Calls after which the compile has paid for itself against the baseline; None after a warm compile."""
        base = self.comparison.baseline.latency
        if self.verdict != "faster" or self.compile_cost is None or self.compile_cached:
            return None
        if base is None or self.latency is None or base.value <= self.latency.value:
            return None
        return int(np.ceil(self.compile_cost.seconds / (base.value - self.latency.value)))

    def rate(self, what: str) -> float | None:
        """The declared work, `flops` or `bytes`, a second."""
        work = self.comparison.document["work"]
        if not work or self.latency is None or self.measurement.no_op:
            return None
        return float(work[what] / self.latency.value)

    @property
    def bound(self) -> Bound | None:
        """The bound that the machine's peaks put on the declared work."""
        peaks = self.comparison.document["device"].get("peaks")
        if not peaks or self.rate("bytes") is None:
            return None
        return roofline.bound(self.comparison.document["work"], peaks)


def _percent(part: float | None, total: float | None) -> float | None:
    return 100 * part / total if total and part is not None else None
