"""Entry: one variant's part in a comparison, from which its row of comparison.csv is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.measure.observations import CompileCost, Error, OperatorRow, Profile, Timeline
from harness.results import roofline
from harness.results.measurement import DEGRADED, OK, Measurement
from harness.results.roofline import Bound
from harness.results.statistics import Interval
from harness.results.timing import Timing

if TYPE_CHECKING:
    from harness.results.comparison import Comparison

COLD = 4  # a first compile that takes this many times as long as later ones found no code in a cache


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
    def environment(self) -> str | None:
        """What is of its environment alone; None for the baseline's."""
        number = self.measurement.environment
        return str(self.comparison.document["environments"][number]["differs"]) if number else None

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

    @property
    def host(self) -> Timing:
        """Its timing by the host's clock."""
        return self.comparison.host_clock.timings[self.name]

    @property
    def device(self) -> Timing:
        """Its timing by the device's own clock."""
        return self.comparison.device_clock.timings[self.name]

    @property
    def latency(self) -> Interval | None:
        """Seconds per call of wall time."""
        return self.host.typical

    @property
    def device_time(self) -> Interval | None:
        """Seconds per call that its executions take on the device."""
        return self.device.typical

    @property
    def device_time_us(self) -> float | None:
        """Its device time in µs; of results that hold no samples of it the mean of the profile."""
        if self.device_time is not None:
            return self.device_time.value * 1e6
        return self.profile.device_time_us if self.profile else None

    def percentile(self, percent: float) -> float | None:
        """A percentile of all samples, in µs, whatever the machine was like."""
        groups = [group for group in self.comparison.host_clock.samples.seconds[self.name] if len(group)]
        return float(np.percentile(np.concatenate(groups), percent)) * 1e6 if groups else None

    @property
    def comparable(self) -> bool:
        """Whether a ratio of its times has a meaning: not of a variant that is wrong, or that does nothing."""
        return self.measurement.status in (OK, DEGRADED) and not self.measurement.no_op

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
        if self.host.verdict != "faster" or self.compile_cost is None or self.compile_cached:
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
