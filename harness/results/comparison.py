"""Comparison: a case's measurements against its baseline; derived from results alone, each part computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from harness.configuration.operation import CaseKey
from harness.configuration.settings import LatencySettings
from harness.measure.observations import from_plain
from harness.results import columns, statistics
from harness.results.columns import Column, Row
from harness.results.entry import Entry
from harness.results.measurement import CONTROL, Measurement
from harness.results.statistics import Interval, StoppingRule
from harness.results.storage import Document

Groups = Sequence[np.ndarray]  # seconds per call of each process


class Comparison:
    """A case's measurements against its baseline: the source of every table, sentence, chart and page."""

    def __init__(self, document: Document):
        self.document = document  # what results.json holds

    @cached_property
    def case(self) -> Mapping[str, Any]:
        """The case that was measured: op, dims, dtype, device, mode, seed, baseline, variants."""
        return self.document["case"]

    @cached_property
    def accelerator(self) -> bool:
        """Whether the device has a clock of its own, which reports device time."""
        return bool(self.document["device"].get("accelerator"))

    @cached_property
    def settings(self) -> LatencySettings:
        """How its latency was measured: the configuration's section of this name."""
        return from_plain(LatencySettings, self.document["config"]["latency"])

    @cached_property
    def key(self) -> CaseKey:
        """The identity of the case, equal for the same case of another run."""
        return CaseKey.of(self.case)

    @cached_property
    def title(self) -> str:
        """`rmsnorm rows=4 hidden=512 · bfloat16 · forward · cpu`."""
        return self.key.title

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
        """Each variant's seconds per call in every process, in the order of rounds, without the noisy ones."""
        return statistics.without_noisy_rounds(self.all_rounds, CONTROL)

    @cached_property
    def all_rounds(self) -> dict[str, list[np.ndarray]]:
        """The same, with the noisy rounds."""
        return statistics.by_process(self.document["samples"]["rows"], [*self.entries, CONTROL])

    @cached_property
    def comparisons(self) -> int:
        """How many ratios are claimed, and have to hold jointly."""
        return sum(entry.claimed and entry is not self.baseline for entry in self.entries.values())

    @cached_property
    def stopping_rule(self) -> StoppingRule:
        """When sampling ended."""
        return StoppingRule.of(self.settings)

    @cached_property
    def noise_floor(self) -> float | None:
        """The smallest relative difference that is claimed; None if there is no baseline to compare with."""
        if not self.baseline.comparable:
            return None
        pairs = statistics.paired(self.all_rounds[self.baseline.name], self.all_rounds[CONTROL])
        control = statistics.interval(pairs, self.settings.confidence) if pairs else Interval(1.0, 1.0, 1.0)
        return statistics.noise_floor(control, self.settings.min_effect)

    def latency(self, seconds: Groups) -> Interval | None:
        """The typical seconds per call, with an interval that holds by itself."""
        return statistics.interval(seconds, self.settings.confidence) if seconds else None

    def ratio(self, pairs: Groups) -> Interval:
        """A speedup, with an interval that holds jointly with those of all that are claimed."""
        return self.stopping_rule.interval(pairs, self.comparisons)

    def verdict(self, ratio: Interval, processes: int) -> str:
        """The verdict on a speedup: unclear for a single process, whose scatter says little of the next."""
        return "unclear" if self.noise_floor is None else statistics.verdict(ratio, self.noise_floor, processes)
