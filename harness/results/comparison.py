"""Comparison: a case's measurements against its baseline; derived from results alone, each part computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.measure.observations import CompileCost, Error, OperatorRow, Profile, Timeline
from harness.results import columns, roofline, statistics
from harness.results.columns import Column, Row
from harness.results.measurement import CONTROL, DEGRADED, OK, Measurement
from harness.results.roofline import Bound
from harness.results.statistics import Interval, StoppingRule
from harness.results.storage import Document

COLD = 4  # a first compile that takes as many times as long as later ones found no code in a cache
TOO_FAST_US = 0.05  # a call this short is the loop around it

Groups = Sequence[np.ndarray]  # seconds per call of each process


class Comparison:
    """A case's measurements against its baseline: what every table, sentence, chart and page is made from."""

    def __init__(self, document: Document):
        self.document = document  # what results.json holds

    @cached_property
    def case(self) -> Mapping[str, Any]:
        """What was measured: op, dims, dtype, device, mode, seed, baseline, variants."""
        return self.document["case"]

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """How its latency was measured: the configuration's section of this name."""
        return self.document["config"]["latency"]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What the case is called: its operation, dims, dtype, mode and device."""
        dims = (f"{name}={size}" for name, size in self.case["dims"].items())
        return (self.case["op"], *dims, self.case["dtype"], self.case["mode"], self.case["device"])

    @cached_property
    def title(self) -> str:
        """`rmsnorm rows=4 hidden=512 · bfloat16 · forward · cpu`."""
        dims = len(self.case["dims"])
        return " · ".join([" ".join(self.words[: dims + 1]), *self.words[dims + 1 :]])

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of comparison.csv."""
        return columns.of_case(list(self.case["dims"]))

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of comparison.csv, in the order of the configuration."""
        return columns.rows(self.columns, list(self.entries.values()))

    @cached_property
    def operators(self) -> list[Row]:
        """The rows of operators.csv: each variant's operators, the costliest first."""
        return columns.rows(columns.OPERATORS, [entry for each in self.entries.values() for entry in each.operators])

    @cached_property
    def samples(self) -> list[Row]:
        """The rows of samples.csv; the baseline's second name is among them."""
        return columns.rows(columns.SAMPLES, self.document["samples"]["rows"])

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Each variant's part, by its name, in the order of the configuration."""
        measurements = [Measurement.from_json(content) for content in self.document["measurements"]]
        return {measurement.variant: Entry(self, measurement) for measurement in measurements}

    @cached_property
    def baseline(self) -> Entry:
        """The variant that the others are compared with."""
        return self.entries[self.case["baseline"]]

    @cached_property
    def baseline_row(self) -> Row:
        """Its row."""
        return next(row for row in self.rows if row["variant"] == self.baseline.name)

    def operators_of(self, variant: str) -> list[Row]:
        """The rows of operators.csv of one variant."""
        return [row for row in self.operators if row["variant"] == variant]

    # Statistics

    @cached_property
    def by_process(self) -> dict[str, list[np.ndarray]]:
        """Each variant's seconds per call in every process, in the order of rounds, without the disturbed ones."""
        return statistics.without_noisy_rounds(self.all_rounds, CONTROL)

    @cached_property
    def all_rounds(self) -> dict[str, list[np.ndarray]]:
        """The same of all rounds."""
        return statistics.by_process(self.document["samples"]["rows"], [*self.entries, CONTROL])

    @cached_property
    def comparisons(self) -> int:
        """How many ratios are claimed, and have to hold jointly."""
        return sum(entry.claimed and entry is not self.baseline for entry in self.entries.values())

    @cached_property
    def stopping_rule(self) -> StoppingRule:
        """When sampling ended."""
        minimum, maximum, seconds, precision, confidence = (
            self.settings[key] for key in ("processes", "max_processes", "seconds", "precision", "confidence")
        )
        return StoppingRule(minimum, maximum, seconds, precision, confidence)

    @cached_property
    def noise_floor(self) -> float | None:
        """The smallest relative difference that is claimed; None where there is no baseline to compare with."""
        if not self.baseline.comparable:
            return None
        pairs = statistics.paired(self.all_rounds[self.baseline.name], self.all_rounds[CONTROL])
        control = statistics.interval(pairs, self.settings["confidence"]) if pairs else Interval(1.0, 1.0, 1.0)
        return statistics.noise_floor(control, self.settings["min_effect"])

    def latency(self, seconds: Groups) -> Interval | None:
        """The typical seconds per call, with an interval that holds by itself."""
        return statistics.interval(seconds, self.settings["confidence"]) if seconds else None

    def ratio(self, pairs: Groups) -> Interval:
        """A speedup, with an interval that holds jointly with those of all that are claimed."""
        return self.stopping_rule.interval(pairs, self.comparisons)

    def verdict(self, ratio: Interval, processes: int) -> str:
        """What is claimed of a ratio: nothing from one process, whose scatter says little of the next."""
        return "unclear" if self.noise_floor is None else statistics.verdict(ratio, self.noise_floor, processes)


@dataclass(frozen=True)
class OperatorEntry:
    """One operator of one variant: the source of a row of operators.csv."""

    variant: str
    row: OperatorRow
    device_pct: float | None  # of the variant's device time


class Entry:
    """One variant's part in a comparison: the source of a row of comparison.csv. Times are in seconds."""

    def __init__(self, comparison: Comparison, measurement: Measurement):
        self.comparison, self.measurement = comparison, measurement

    @property
    def name(self) -> str:
        """The variant's."""
        return self.measurement.variant

    @property
    def case(self) -> Mapping[str, Any]:
        """The case that it was measured in."""
        return self.comparison.case

    @property
    def profile(self) -> Profile | None:
        """What the profiler recorded."""
        return self.measurement.profile

    @property
    def timeline(self) -> Timeline | None:
        """What the trace shows."""
        return self.measurement.timeline

    @property
    def error(self) -> Error | None:
        """Its difference from the reference."""
        return self.measurement.error

    @cached_property
    def timed(self) -> list[np.ndarray]:
        """Seconds per call of each process that timed it, without the disturbed rounds."""
        return [group for group in self.comparison.by_process[self.name] if len(group)]

    @cached_property
    def latency(self) -> Interval | None:
        """Seconds per call."""
        return self.comparison.latency(self.timed)

    def percentile(self, percent: float) -> float | None:
        """Of the samples of all rounds, in µs: whoever looks for slow calls looks for the disturbed ones too."""
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
        """Whether a verdict is given on that ratio: only where it is right, as declared."""
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
        """Host time under the profiler over the latency, where no device was timed."""
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
        """Of the first process, which compiled into a cache that later ones found."""
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
        """Calls after which the compile has paid for itself against the baseline; a warm compile does not tell."""
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
