"""Series: the runs of each case on each machine in the order of time, and each variant's figures in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from harness.configuration.operation import CaseKey
from harness.history.record import Result, Setup
from harness.history.runs import NONE, Runs
from harness.results.conditions import SETTINGS

STAY = 2  # runs in a row, on average, up to which a condition alternates
VERSIONS = ("torch",)  # that may alternate as settings do: two releases measured side by side


@dataclass(frozen=True, eq=False)
class Series:
    """One variant of one case on one machine in one measure; only the runs that have a value."""

    places: np.ndarray  # of these runs in the group
    figures: np.ndarray  # (runs, 3): values, and the bounds of their intervals or NaN

    @cached_property
    def logs(self) -> np.ndarray:
        """Logarithms of the values."""
        return np.log(self.figures[:, 0])

    def between(self, start: int, end: int) -> np.ndarray:
        """The logarithms in the group's runs from `start` to before `end`."""
        return self.logs[np.searchsorted(self.places, start) : np.searchsorted(self.places, end)]


@dataclass(frozen=True, eq=False)
class Group:
    """All variants of one case on one machine; the runs are in the order of time."""

    case: CaseKey
    machine: str
    settings: tuple[str, ...]  # those that distinguish it from other groups of the case: `latency.cache=cold`
    runs: Runs

    @cached_property
    def title(self) -> str:
        """The case, with the settings that distinguish it."""
        return " · ".join([self.case.title, *self.settings])

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """The row of each run's result in the columns, by variant; NONE if the run does not have it.

        All variants that any run has, in the order of the last run that has them.
        """
        columns = self.runs.columns
        rows, of = columns.rows(self.runs.places)
        numbers = columns.results["variant"][rows]
        last_first = np.argsort(-of, kind="stable")
        found, first = np.unique(numbers[last_first], return_index=True)
        held = np.full((len(found), len(self.runs)), NONE)
        held[np.searchsorted(found, numbers), of] = rows
        return {columns.texts[found[variant]]: held[variant] for variant in np.argsort(first)}

    @property
    def variants(self) -> list[str]:
        """Their names."""
        return list(self.rows)

    @property
    def baseline(self) -> str:
        """That of the last run."""
        return self.runs[-1].baseline

    @cached_property
    def yardstick(self) -> Series:
        """The machine's yardstick in the runs that have it."""
        seconds = self.runs.column("yardstick")
        known = np.flatnonzero(~np.isnan(seconds))
        return Series(known, np.stack([seconds[known], *[np.full(len(known), np.nan)] * 2], axis=1))

    def texts(self, variant: str, column: str) -> list[str | None]:
        """A variant's `status` or `reason` in each run; None if the run does not have it."""
        columns, rows = self.runs.columns, self.rows[variant]
        numbers = np.where(rows == NONE, NONE, columns.results[column][rows])
        return columns.named(numbers)

    def statuses(self, variant: str) -> set[str | None]:
        """All that a variant has had; None if there are runs that do not have it."""
        rows = self.rows[variant]
        found = np.unique(self.runs.columns.results["status"][rows[rows != NONE]]).tolist()
        return {*self.runs.columns.named(np.array(found + [NONE] * bool((rows == NONE).any()), int))}

    def last(self, variant: str) -> Result | None:
        """A variant's result in the last run that has it."""
        rows = self.rows.get(variant)
        return None if rows is None else self.runs[int(np.flatnonzero(rows != NONE)[-1])].results[variant]

    def series(self, variant: str, measure: str) -> Series:
        """A variant's figures in one measure."""
        return self._series.get((variant, measure)) or Series(np.zeros(0, int), np.zeros((0, 3)))

    @cached_property
    def _series(self) -> dict[tuple[str, str], Series]:
        found = {}
        for name, rows in self.rows.items():
            places = np.flatnonzero(rows != NONE)
            for measure, figures in self.runs.columns.figures.items():
                measured = figures[rows[places]]
                known = ~np.isnan(measured[:, 0])
                found[name, measure] = Series(places[known], measured[known])
        return found


def groups(runs: Runs) -> list[Group]:
    """The groups of these runs, by case and machine."""
    by_name = np.array(sorted(range(len(runs)), key=runs.names.tolist().__getitem__), int)
    runs = runs[by_name]
    made = []
    for (case, machine), measured in _apart(runs[np.argsort(runs.times, kind="stable")], _case):
        keys = _alternating(measured)

        def settings(setup: Setup, keys: list[str] = keys) -> tuple[str, ...]:
            return tuple(f"{key}={setup.conditions.get(key, 'unset')}" for key in keys)

        made += [Group(case, machine, apart, several) for apart, several in _apart(measured, settings)]
    return made


def _case(setup: Setup) -> tuple[CaseKey, str]:
    return setup.case, setup.machine


def _apart(runs: Runs, key: Callable[[Setup], Hashable]) -> Iterator[tuple[Any, Runs]]:
    """Runs by a key of their setups, in the order in which they come."""
    numbers, keys = runs.numbered(key)
    order = np.argsort(numbers, kind="stable")
    parts = np.split(order, np.searchsorted(numbers[order], np.arange(1, len(keys))))
    yield from ((each, runs[part]) for each, part in zip(keys, parts, strict=True))


def _alternating(runs: Runs) -> list[str]:
    """The settings and versions that go back and forth between runs: their values make series of their own.

    One that changes now and then is a change of the series: only if it stays the same for up to STAY runs on average,
    and returns to earlier values, cases of one sweep differ in it.
    """
    switches: dict[str, int] = defaultdict(int)
    for _, differences in switched(runs):
        for key, _, _ in differences:
            if key.startswith(SETTINGS) or key in VERSIONS:
                switches[key] += 1
    return sorted(
        key
        for key, count in switches.items()
        if len(runs) <= STAY * (count + 1)
        and count > 2 * (len({setup.conditions.get(key) for setup in runs.setups.values()}) - 1)
    )


def switched(runs: Runs) -> list[tuple[int, list[tuple[str, str, str]]]]:
    """The runs whose conditions differ from those of the run before, with the differences."""
    setups, numbers = runs.columns.setups, runs.column("setup")
    differ = cache(lambda old, new: differing(setups[old].conditions, setups[new].conditions))
    places = np.flatnonzero(np.diff(numbers)) + 1
    pairs = zip(numbers[places - 1].tolist(), numbers[places].tolist(), strict=True)
    found = ((place, differ(*pair)) for place, pair in zip(places.tolist(), pairs, strict=True))
    return [(place, differences) for place, differences in found if differences]


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, old and new value of the conditions that differ."""
    names = dict.fromkeys([*before, *after])
    pairs = ((name, before.get(name, "unset"), after.get(name, "unset")) for name in names)
    return [(name, old, new) for name, old, new in pairs if old != new]
