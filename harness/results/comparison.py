"""Comparison: a case's measurements against its baseline; derived from results alone, each part computed once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from harness.configuration.operation import CaseKey
from harness.configuration.settings import LatencySettings
from harness.measure.observations import from_plain
from harness.results import columns
from harness.results.column import Column, Row
from harness.results.entry import Entry
from harness.results.machine import Machine
from harness.results.measurement import CONTROLS, Measurement
from harness.results.samples import QUIET, Samples
from harness.results.storage import Document
from harness.results.timing import Clock

TOO_FAST_S = 5e-8  # a call this short is the loop around it


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
        rows = self.document["samples"]["rows"]
        conditions = self.host_clock.samples.conditions(rows)
        unknown = (None,) * (8 - len(rows[0]) if rows else 0)  # earlier versions kept less
        return columns.rows(
            columns.SAMPLES,
            [(*row, *unknown, seen == QUIET) for row, seen in zip(rows, conditions, strict=True)],
        )

    @cached_property
    def device_samples(self) -> list[Row]:
        """The rows of device_samples.csv, likewise."""
        return columns.rows(columns.DEVICE_SAMPLES, self._device_samples)

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
    def settings(self) -> LatencySettings:
        """How its latency was measured: the configuration's section of this name."""
        return from_plain(LatencySettings, self.document["config"]["latency"])

    @cached_property
    def machine(self) -> Machine:
        """What is known of the machine."""
        return Machine.of(self.document)

    @cached_property
    def host_clock(self) -> Clock:
        """What latencies were timed by."""
        rows = self.document["samples"]["rows"]
        return Clock(self, Samples.of_latencies(rows, [*self.entries, *CONTROLS], self.machine), TOO_FAST_S)

    @cached_property
    def device_clock(self) -> Clock:
        """What device times were timed by."""
        return Clock(self, Samples.of_device_times(self._device_samples, [*self.entries, *CONTROLS]))

    @property
    def _device_samples(self) -> list[list[Any]]:
        return self.document.get("device_samples", {}).get("rows", [])  # earlier versions kept none
