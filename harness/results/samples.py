"""Samples: what variants took in every process, in order, and what the machine was like meanwhile.

Variants of several environments are in several processes. Those of a set of processes, one of each environment, took
turns: their n-th time slices are neighbours in time, and so are the n-th rounds of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from harness.results.machine import Machine
from harness.results.statistics import MINIMUM_PROCESSES, Groups

STARVED, SLOWED, QUIET = 0, 1, 2  # conditions: threads waited for a core; they did not; and the machine was at its best
BEST_FIRST = (QUIET, SLOWED, STARVED)
CONDITIONS = ("starved", "slowed", "quiet")
QUIET_SPEED = 1.1  # a round is quiet whose yardstick takes at most so many times the machine's best
WAITED = 0.02  # of a block's time, that its threads may have waited for a core
MOST_ROUNDS = 1 << 32  # of a time slice
FEW = 3  # rounds of a process that say what it usually takes; fewer if it has no more

Row = Sequence  # of samples, as results.json holds them: variant and process first
Rows = Mapping[str, Sequence[np.ndarray]]  # the numbers of rows, in their order, by variant and process


class Samples:
    """Samples of variants by process, or set of processes.

    `seconds` are those per call, `conditions` of the same form say what the machine was like; without them it was
    quiet throughout. `places`, likewise, ascend, and are equal for those that are paired; without them samples are
    paired in their order. Of the samples of a variant, or of two that were taken in the same rounds, those in the best
    condition count that enough processes have seen: which they are depends on the machine, not on what they took.
    """

    def __init__(
        self,
        seconds: Mapping[str, Groups],
        conditions: Mapping[str, Groups] | None = None,
        places: Mapping[str, Groups] | None = None,
    ):
        self.seconds = seconds
        self._places = places or {name: [np.arange(len(group)) for group in groups] for name, groups in seconds.items()}
        self._conditions = conditions or {
            name: [np.full(len(group), QUIET) for group in groups] for name, groups in seconds.items()
        }
        self._choices: dict[tuple[str, ...], Choice] = {}

    @classmethod
    def of_latencies(cls, rows: Sequence[Row], names: Sequence[str], machine: Machine) -> Samples:
        """Samples of rows of (variant, process, round, calls, seconds, yardstick, waited, slice)."""
        at = _by_process(rows, names)
        columns = [np.array(column) for column in list(zip(*rows, strict=True))[1:]] or [np.zeros(0)] * 7
        process, round_, _, seconds, *machines = columns
        if len(machines) < 2:  # of an earlier version, which did not look at the machine
            return cls(_taken(seconds, at))
        yardsticks, waited, *slices = machines  # a version that had no environments had no slices either
        rounds = _numbers(process, round_, *slices)
        fastest = np.full(len(rounds), np.inf)
        np.minimum.at(fastest, rounds, yardsticks)
        conditions = np.where(fastest[rounds] <= QUIET_SPEED * machine.best_s, QUIET, SLOWED)
        if machine.shared:
            conditions[waited > WAITED * seconds] = STARVED
        places = _taken(_places(slices[0], at), at) if slices else None
        return cls(_taken(seconds, at), _taken(conditions, at), places)

    @classmethod
    def of_device_times(cls, rows: Sequence[Row], names: Sequence[str]) -> Samples:
        """Samples of rows of (variant, process, call, seconds)."""
        return cls(_taken(np.array([row[-1] for row in rows], float), _by_process(rows, names)))

    def condition(self, *names: str) -> int:
        """The best condition in which enough processes have sampled all of `names` in the same rounds."""
        return self._choice(*names).condition

    def conditions(self, rows: Sequence[Row]) -> list[int]:
        """The conditions of rows of these samples, in the order in which they were given."""
        processes = {process: index for index, process in enumerate(sorted({row[1] for row in rows}))}
        reached: Counter[tuple[str, int]] = Counter()
        found = []
        for row in rows:
            key = row[0], processes[row[1]]
            found.append(int(self._conditions[key[0]][key[1]][reached[key]]))
            reached[key] += 1
        return found

    def of(self, name: str) -> list[np.ndarray]:
        """A variant's samples by process, in its best condition; of those processes that have enough of them."""
        return self._choice(name).of(self.seconds[name])

    def paired(self, baseline: str, other: str) -> list[np.ndarray]:
        """Ratios baseline / other by process, pair by pair, in the best condition of both."""
        if baseline == other:
            return [np.ones(len(group)) for group in self.of(baseline)]
        choice = self._choice(baseline, other)
        pairs = zip(self.seconds[baseline], self.seconds[other], choice.positions, strict=True)
        return choice.of([b[at] / o[among] for b, o, (at, among) in pairs])

    def share(self, name: str, condition: int) -> float:
        """The share of a variant's samples that are in this condition or a better one."""
        found = np.concatenate([*self._conditions[name], np.array([])])
        return float(np.mean(found >= condition)) if len(found) else 0.0

    def _matched(self, *names: str) -> list[list[np.ndarray]]:
        """By process: the positions of the samples of each of `names` whose places all of them have."""
        groups = zip(*(self._places[name] for name in names), strict=True)
        common = [(places, reduce(_shared, places)) for places in groups]
        return [[np.searchsorted(each, shared) for each in places] for places, shared in common]

    def _choice(self, *names: str) -> Choice:
        """The samples of `names` that count together."""
        if names not in self._choices:
            matched = self._matched(*names)
            groups = zip(*(self._conditions[name] for name in names), matched, strict=True)
            worst = [
                reduce(np.minimum, (each[at] for each, at in zip(conditions, positions, strict=True)))
                for *conditions, positions in groups
            ]
            choices = (Choice(condition, matched, [group >= condition for group in worst]) for condition in BEST_FIRST)
            self._choices[names] = next(each for each in choices if each.condition == STARVED or _enough(each.masks))
        return self._choices[names]


class Choice(NamedTuple):
    """Which samples of some variants count: of rounds that have all of them, in the machine's best condition."""

    condition: int
    positions: Sequence[Sequence[np.ndarray]]  # by process, for each of them: where its samples of these rounds are
    masks: Sequence[np.ndarray]  # by process: which of these rounds are in the condition

    def of(self, groups: Groups) -> list[np.ndarray]:
        """Those of the values of these rounds that count, by process."""
        return [group[mask] if _several(mask) else group[:0] for group, mask in zip(groups, self.masks, strict=True)]


def _by_process(rows: Sequence[Row], names: Sequence[str]) -> Rows:
    processes = sorted({row[1] for row in rows})
    collected: dict[tuple[str, int], list[int]] = {(name, process): [] for name in names for process in processes}
    for number, row in enumerate(rows):
        collected[row[0], row[1]].append(number)
    return {name: [np.array(collected[name, process], int) for process in processes] for name in names}


def _taken(values: np.ndarray, at: Rows) -> dict[str, list[np.ndarray]]:
    """The values of these rows."""
    return {name: [values[rows] for rows in groups] for name, groups in at.items()}


def _numbers(*keys: np.ndarray) -> np.ndarray:
    """A number for each row, equal for those that are equal in all keys, each of shape (rows,)."""
    numbers: dict[tuple, int] = {}
    return np.array(
        [numbers.setdefault(key, len(numbers)) for key in zip(*(k.tolist() for k in keys), strict=True)], int
    )


def _places(slices: np.ndarray, at: Rows) -> np.ndarray:
    """The place of each sample of a variant in a process: which of its time slices there, and which round of that."""
    groups = [rows for groups in at.values() for rows in groups if len(rows)]
    if not groups:
        return slices
    order, group = np.concatenate(groups), np.repeat(np.arange(len(groups)), list(map(len, groups)))
    begins = np.append(True, (np.diff(slices[order]) != 0) | (np.diff(group) != 0))
    slice_of, first = np.cumsum(begins), np.flatnonzero(begins)
    of_group = slice_of[np.searchsorted(group, group)]  # the number of the first slice of a sample's group
    places = np.empty(len(slices), int)
    places[order] = (slice_of - of_group) * MOST_ROUNDS + np.arange(len(order)) - first[slice_of - 1]
    return places


def _shared(places: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The places that both have."""
    return places if np.array_equal(places, others) else np.intersect1d(places, others, assume_unique=True)


def _several(mask: np.ndarray) -> bool:
    """Whether so many of a process's rounds are chosen that they say what it usually takes."""
    return len(mask) > 0 and int(np.count_nonzero(mask)) >= min(FEW, len(mask))


def _enough(masks: Sequence[np.ndarray]) -> bool:
    """Whether enough processes have several rounds chosen: half of them, and no fewer than a claim needs."""
    measured = sum(map(bool, map(len, masks)))
    needed = max(-(-measured // 2), min(MINIMUM_PROCESSES, measured))
    return measured > 0 and sum(map(_several, masks)) >= needed
