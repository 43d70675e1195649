"""Steps: since which run the level of a series is another one, if that is no accident.

The series is searched in seeded intervals (Kovács et al. 2023): overlapping ones of every length, so that a level that
lasted for a few runs only is found in a long series as well. Within an interval the statistic of each split is CUSUM's,
the difference of the means of both sides in standard errors. Of the intervals in which it exceeds a threshold the
shortest is taken, which most likely holds a single step (Baranowski et al. 2019), and both sides are searched again.

Runs have outliers, which must not pass for steps. So values further than CLIP standard deviations from the median are
moved there, the bounded influence of Huber 1964, for which Fearnhead and Rigaill 2019 give the reasons; the standard
deviation is known from the differences of successive runs, which a step does not inflate. That makes the distribution
of the largest statistic of an unchanged series nearly the same for any noise, and `threshold` is its 99 % quantile for
the worst that was tried: benchmarks/history.py simulates how often an unchanged series has a step.

References
----------
- Bai, "Estimation of a change point in multiple regression models", Rev. Econ. Stat. 79, 1997.
- Baranowski, Chen and Fryzlewicz, "Narrowest-over-threshold detection of multiple change points and change-point-like
  features", J. R. Stat. Soc. B 81, 2019.
- Chakar, Lebarbier, Lévy-Leduc and Robin, "A robust approach for estimating change-points in the mean of an AR(1)
  process", Bernoulli 23, 2017.
- Fearnhead and Rigaill, "Changepoint detection in the presence of outliers", J. Am. Stat. Assoc. 114, 2019.
- Huber, "Robust estimation of a location parameter", Ann. Math. Stat. 35, 1964.
- Kovács, Bühlmann, Li and Munk, "Seeded binary segmentation: a general methodology for fast and optimal changepoint
  detection", Biometrika 110, 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from harness.results.statistics import median

THRESHOLD = 5.3  # standard errors, of a series of USUAL runs or fewer
USUAL = 60
DOUBLING = 0.14  # what a series of twice as many adds to it
CLIP = 3.0  # standard deviations
STEADY = 2 * 2**0.5  # likewise, of differences that tell how runs correlate
SHORTEST = 3  # runs on either side of a step
FEWEST = 8  # runs of a series that is searched
DECAY = 2**0.5  # of the lengths of intervals
MOST_CORRELATED = 0.8
BAI = 11.0  # the 97.5 % quantile of where the largest statistic of a step lies, in units of (deviation / size) ** 2
NORMAL = 0.6745 * 2**0.5  # median absolute difference of two values of a standard normal distribution
KEPT = 32  # lengths of series, of which the splits are kept: a megabyte each of a thousand runs


class Splits(NamedTuple):
    """Splits of intervals, those of the shortest first, each array of shape (splits,)."""

    start: np.ndarray  # the first run of the interval
    place: np.ndarray  # the first run after the split
    end: np.ndarray  # the first run after the interval
    share: np.ndarray  # of the interval's runs, before the split
    scale: np.ndarray  # the standard error of the sum before the split, less its share of the whole sum

    @classmethod
    def of(cls, starts: np.ndarray, lengths: np.ndarray) -> Splits:
        """All splits of intervals, SHORTEST runs or more on either side; both arrays have shape (intervals,)."""
        counts = lengths - 2 * SHORTEST + 1
        first = np.cumsum(counts) - counts
        start, length = np.repeat(starts, counts), np.repeat(lengths, counts)
        before = np.arange(len(start)) - np.repeat(first, counts) + SHORTEST
        return cls(start, start + before, start + length, before / length, np.sqrt(before * (length - before) / length))


def steps(values: np.ndarray, floor: float, correlated: bool = False) -> list[int]:
    """The first run of each new level, in order; `values` has shape (runs,) and an additive scale, such as logarithms.

    No step smaller than `floor` is reported, and none in fewer than FEWEST runs. If successive runs are `correlated`,
    as by a neighbour on the machine that stays for hours, a step has to exceed the scatter of their means over time.
    """
    deviation = max(scatter(values, correlated), floor / (2 * CLIP))  # runs that agree more need no smaller unit
    limit = threshold(len(values))
    return _pruned(values, _search(values, 0, deviation, limit), deviation, limit, floor)


def threshold(runs: int) -> float:
    """The statistic that a step of a series of so many runs exceeds."""
    return THRESHOLD + DOUBLING * max(float(np.log2(max(runs, 1) / USUAL)), 0.0)


def scatter(values: np.ndarray, correlated: bool = False) -> float:
    """The standard deviation of values around levels, from the differences of successive ones; 0 of a single one.

    If runs are `correlated`, it is that of independent ones whose means scatter as much. The correlation is estimated
    from differences, which a step does not change (Chakar et al. 2017).
    """
    if len(values) < 2:
        return 0.0
    near = np.abs(np.diff(values))
    unit = float(median(near)) / NORMAL
    if not correlated or len(values) < FEWEST or not unit:
        return unit
    apart = np.abs(values[2:] - values[:-2])
    most = STEADY * unit  # a step is no correlation, and medians would leave too little to estimate it from
    ratio = float(np.mean(np.minimum(apart, most) ** 2) / np.mean(np.minimum(near, most) ** 2))
    correlation = min(max(ratio - 1, 0.0), MOST_CORRELATED)
    return unit * float(np.sqrt(1 + correlation)) / (1 - correlation)


def uncertainty(size: float, deviation: float) -> int:
    """Runs on either side within which a step of this size lies with a confidence of 95 % (Bai 1997)."""
    return int(BAI * (deviation / size) ** 2) + 1


def largest(values: np.ndarray) -> np.ndarray:
    """The largest statistic of each series; `values` has shape (series, runs). For simulations."""
    units = median(np.abs(np.diff(values, axis=-1)))[:, None] / NORMAL
    splits = seeds(values.shape[-1])
    return np.array([_statistics(each, splits).max() for each in _clipped(values, units)])


@lru_cache(maxsize=KEPT)
def seeds(runs: int) -> Splits:
    """The splits of the seeded intervals of a series."""
    lengths = [2 * SHORTEST]
    while lengths[-1] < runs:
        lengths.append(min(int(np.ceil(lengths[-1] * DECAY)), runs))
    starts = [_starts(runs, length) for length in lengths]
    return Splits.of(np.concatenate(starts), np.repeat(lengths, list(map(len, starts))))


@lru_cache(maxsize=KEPT)
def _whole(runs: int) -> Splits:
    """The splits of a whole series."""
    return Splits.of(np.zeros(1, int), np.array([runs]))


def _starts(runs: int, length: int) -> np.ndarray:
    """The first runs of intervals of a length that cover a series and overlap by a half."""
    return np.unique(np.linspace(0, runs - length, 2 * -(-runs // length) - 1).astype(int))


def _search(values: np.ndarray, start: int, deviation: float, limit: float) -> list[int]:
    """The steps of a part of a series that starts at this run."""
    place = _narrowest(values, deviation, limit)
    if place is None:
        return []
    before = _search(values[:place], start, deviation, limit)
    return [*before, start + place, *_search(values[place:], start + place, deviation, limit)]


def _narrowest(values: np.ndarray, deviation: float, limit: float) -> int | None:
    """The step in the shortest interval that has one, of the largest statistic among those of that length."""
    if len(values) < FEWEST:
        return None
    splits = seeds(len(values))
    statistics = _statistics(_clipped(values, max(deviation, scatter(values))), splits)
    above = statistics > limit
    if not above.any():
        return None
    lengths = splits.end - splits.start
    narrowest = np.flatnonzero(lengths == lengths[above.argmax()])
    return int(splits.place[narrowest[statistics[narrowest].argmax()]])


def _pruned(values: np.ndarray, found: Sequence[int], deviation: float, limit: float, floor: float) -> list[int]:
    """Steps at their most likely runs, without those that are not distinct from their neighbours, the weakest first."""
    kept = list(found)
    while kept:
        bounds = [0, *kept, len(values)]
        kept, strengths = [], []
        for before, after in zip(bounds, bounds[2:], strict=False):
            start = max(before, kept[-1] if kept else 0)
            place, strength = _best(values[start:after], deviation)
            level = median(values[start + place : after]) - median(values[start : start + place])
            kept.append(start + place)
            strengths.append(strength if abs(level) >= floor else 0.0)
        if min(strengths) > limit:
            break
        del kept[int(np.argmin(strengths))]
    return kept


def _best(values: np.ndarray, deviation: float) -> tuple[int, float]:
    """The most likely step, and its statistic."""
    if len(values) < 2 * SHORTEST:
        return len(values) // 2, 0.0
    place, strength = _split(_clipped(values, deviation))
    levels = median(values[:place]), median(values[place:])
    within = np.clip(values, min(levels) - CLIP * deviation, max(levels) + CLIP * deviation)
    return _split(within)[0], strength  # clipped at both levels, it is found where the step is, if that is large


def _split(values: np.ndarray) -> tuple[int, float]:
    """The split of a whole series with the largest statistic, and that."""
    statistics = _statistics(values, _whole(len(values)))
    return SHORTEST + int(statistics.argmax()), float(statistics.max())


def _clipped(values: np.ndarray, deviation: float | np.ndarray) -> np.ndarray:
    """Values in standard deviations from their median, of at most CLIP."""
    return np.clip((values - median(values)[..., None]) / deviation, -CLIP, CLIP)


def _statistics(values: np.ndarray, splits: Splits) -> np.ndarray:
    """|CUSUM| of each split; `values` has shape (runs,), and unit variance."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    origin = sums.take(splits.start)
    part = sums.take(splits.end)
    part -= origin
    part *= splits.share
    found = sums.take(splits.place)
    found -= origin
    found -= part
    found /= splits.scale
    return np.abs(found, out=found)
