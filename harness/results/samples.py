"""Samples: what variants took in every process, in order, and what the machine was like meanwhile.

Variants of several environments are in several processes. Those of a set of processes, one of each environment, took
turns: their n-th time slices are neighbours in time, and so are the n-th rounds of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from harness.results.machine import Machine
from harness.results.statistics import MINIMUM_PROCESSES, Groups

STARVED, SLOWED, QUIET = 0, 1, 2  # conditions: threads waited for a core; they did not; and the machine was at its best
CONDITIONS = ("starved", "slowed", "quiet")
QUIET_SPEED = 1.1  # a round is quiet whose yardstick takes at most so many times the machine's best
WAITED = 0.02  # of a block's time, that its threads may have waited for a core
MOST_ROUNDS = 1 << 32  # of a time slice
FEW = 3  # rounds of a process that say what it usually takes; fewer if it has no more

Row = Sequence  # of samples, as results.json holds them: variant and process first


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

    @classmethod
    def of_latencies(cls, rows: Sequence[Row], names: Sequence[str], machine: Machine) -> Samples:
        """Samples of rows of (variant, process, round, calls, seconds, yardstick, waited, slice)."""
        seconds = _by_process(rows, names, 4)
        if not rows or len(rows[0]) <= 6:  # of an earlier version, which did not look at the machine
            return cls(seconds)
        rounds = [(row[1], row[2], *row[7:]) for row in rows]
        yardsticks: dict[tuple[int, ...], float] = {}
        for key, row in zip(rounds, rows, strict=True):
            yardsticks[key] = min(row[5], yardsticks.get(key, row[5]))
        limit = QUIET_SPEED * machine.best_s
        fast = (yardsticks[key] <= limit for key in rounds)
        speeds = _by_process(
            [(*row[:2], QUIET if quiet else SLOWED) for row, quiet in zip(rows, fast, strict=True)], names
        )
        waited = _by_process([(*row[:2], machine.shared and row[6] > WAITED * row[4]) for row in rows], names)
        conditions = {
            name: [np.where(starved, STARVED, speed) for starved, speed in zip(waited[name], speeds[name], strict=True)]
            for name in names
        }
        if len(rows[0]) <= 7:  # of a version that had no environments
            return cls(seconds, conditions)
        slices = _by_process(rows, names, 7)
        return cls(seconds, conditions, {name: list(map(_places, groups)) for name, groups in slices.items()})

    @classmethod
    def of_device_times(cls, rows: Sequence[Row], names: Sequence[str]) -> Samples:
        """Samples of rows of (variant, process, call, seconds)."""
        return cls(_by_process(rows, names))

    def condition(self, *names: str) -> int:
        """The best condition in which enough processes have sampled all of `names` in the same rounds."""
        together = self._together(*names)
        return next(
            (condition for condition in (QUIET, SLOWED) if _enough([group >= condition for group in together])), STARVED
        )

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
        return self._selected(self.seconds[name], name)

    def paired(self, baseline: str, other: str) -> list[np.ndarray]:
        """Ratios baseline / other by process, pair by pair, in the best condition of both."""
        if baseline == other:
            return [np.ones(len(group)) for group in self.of(baseline)]
        pairs = zip(self.seconds[baseline], self.seconds[other], self._matched(baseline, other), strict=True)
        return self._selected([b[at] / o[among] for b, o, (at, among) in pairs], baseline, other)

    def share(self, name: str, condition: int) -> float:
        """The share of a variant's samples that are in this condition or a better one."""
        found = np.concatenate([*self._conditions[name], np.array([])])
        return float(np.mean(found >= condition)) if len(found) else 0.0

    def _matched(self, *names: str) -> list[list[np.ndarray]]:
        """By process: the positions of the samples of each of `names` whose places all of them have."""
        groups = zip(*(self._places[name] for name in names), strict=True)
        common = [(places, reduce(np.intersect1d, places)) for places in groups]
        return [[np.searchsorted(each, shared) for each in places] for places, shared in common]

    def _together(self, *names: str) -> list[np.ndarray]:
        """The worst condition among `names`, by process and round."""
        groups = zip(*(self._conditions[name] for name in names), self._matched(*names), strict=True)
        return [
            np.min([each[at] for each, at in zip(conditions, positions, strict=True)], axis=0)
            for *conditions, positions in groups
        ]

    def _selected(self, groups: Groups, *names: str) -> list[np.ndarray]:
        masks = [group >= self.condition(*names) for group in self._together(*names)]
        return [group[mask] if _several(mask) else group[:0] for group, mask in zip(groups, masks, strict=True)]


def _by_process(rows: Sequence[Row], names: Sequence[str], value: int = -1) -> dict[str, list[np.ndarray]]:
    """A column of the rows, by variant and process, in the order of the rows."""
    processes = sorted({row[1] for row in rows})
    collected: dict[tuple[str, int], list[float]] = {(name, process): [] for name in names for process in processes}
    for row in rows:
        collected[row[0], row[1]].append(row[value])
    return {name: [np.array(collected[name, process]) for process in processes] for name in names}


def _places(slices: np.ndarray) -> np.ndarray:
    """The place of each sample of a process: which time slice of the process it is in, and which round of that."""
    _, first, slice_of = np.unique(slices, return_index=True, return_inverse=True)
    return slice_of * MOST_ROUNDS + np.arange(len(slices)) - first[slice_of]


def _several(mask: np.ndarray) -> bool:
    """Whether so many of a process's rounds are chosen that they say what it usually takes."""
    return bool(len(mask)) and int(mask.sum()) >= min(FEW, len(mask))


def _enough(masks: Sequence[np.ndarray]) -> bool:
    """Whether enough processes have several rounds chosen: half of them, and no fewer than a claim needs."""
    measured = sum(map(bool, map(len, masks)))
    needed = max(-(-measured // 2), min(MINIMUM_PROCESSES, measured))
    return measured > 0 and sum(map(_several, masks)) >= needed
