"""Series: the runs of each case on each machine in the order of time, and each variant's figures in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from harness.configuration.operation import CaseKey
from harness.history.record import MEASURES, Figure, Result, Run
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
    runs: Sequence[Run]

    @cached_property
    def title(self) -> str:
        """The case, with the settings that distinguish it."""
        return " · ".join([self.case.title, *self.settings])

    @cached_property
    def variants(self) -> list[str]:
        """All variants that any run has, in the order of the last run that has them."""
        return list(dict.fromkeys(name for run in reversed(self.runs) for name in run.results))

    @cached_property
    def times(self) -> np.ndarray:
        """When each run was, in seconds since 1970."""
        return np.array([run.time for run in self.runs])

    @property
    def baseline(self) -> str:
        """That of the last run."""
        return self.runs[-1].baseline

    @cached_property
    def yardstick(self) -> Series:
        """The machine's yardstick in the runs that have it."""
        known = [(place, run.yardstick) for place, run in enumerate(self.runs) if run.yardstick is not None]
        return _series_of([place for place, _ in known], [(seconds, None, None) for _, seconds in known])

    def results(self, variant: str) -> list[Result | None]:
        """A variant's result in each run; None if the run does not have it."""
        return self._results.get(variant) or [None] * len(self.runs)

    def series(self, variant: str, measure: str) -> Series:
        """A variant's figures in one measure."""
        return self._series.get((variant, measure)) or _series_of([], [])

    @cached_property
    def _results(self) -> dict[str, list[Result | None]]:
        return {name: [run.results.get(name) for run in self.runs] for name in self.variants}

    @cached_property
    def _series(self) -> dict[tuple[str, str], Series]:
        found: dict[tuple[str, str], tuple[list[int], list[Figure]]] = {
            (name, measure): ([], []) for name in self.variants for measure in MEASURES
        }
        for name, results in self._results.items():
            for place, result in enumerate(results):
                for measure, figure in result.figures.items() if result else ():
                    places, figures = found[name, measure]
                    places.append(place)
                    figures.append(figure)
        return {key: _series_of(places, figures) for key, (places, figures) in found.items()}


def groups(runs: Iterable[Run]) -> list[Group]:
    """The groups of these runs, by case and machine."""
    together: dict[tuple[CaseKey, str], list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.time, run.name)):
        together[run.case, run.machine].append(run)
    made = []
    for (case, machine), measured in together.items():
        keys = _alternating(measured)
        apart: dict[tuple[str, ...], list[Run]] = defaultdict(list)
        for run in measured:
            apart[tuple(f"{key}={run.conditions.get(key, 'unset')}" for key in keys)].append(run)
        made += [Group(case, machine, settings, several) for settings, several in apart.items()]
    return made


def _series_of(places: Sequence[int], figures: Sequence[Figure]) -> Series:
    return Series(np.array(places, int), np.array(figures, float).reshape(-1, 3))


def _alternating(runs: Sequence[Run]) -> list[str]:
    """The settings and versions that go back and forth between runs: their values make series of their own.

    One that changes now and then is a change of the series: only if it stays the same for up to STAY runs on average,
    and returns to earlier values, cases of one sweep differ in it.
    """
    switches: dict[str, int] = defaultdict(int)
    for before, after in pairwise(runs):
        for key, _, _ in differing(before.conditions, after.conditions):
            if key.startswith(SETTINGS) or key in VERSIONS:
                switches[key] += 1
    return sorted(
        key
        for key, count in switches.items()
        if len(runs) <= STAY * (count + 1) and count > 2 * (len({run.conditions.get(key) for run in runs}) - 1)
    )


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, old and new value of the conditions that differ."""
    if before is after:
        return []
    names = dict.fromkeys([*before, *after])
    pairs = ((name, before.get(name, "unset"), after.get(name, "unset")) for name in names)
    return [(name, old, new) for name, old, new in pairs if old != new]
