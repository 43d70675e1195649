"""Estimates, confidence intervals and verdicts, from raw samples.

One process is one sample. Samples of the same process share its memory layout, its compiled code and the state of the
machine, so their scatter says little about the next process (Kalibera and Jones 2013). A process therefore contributes
one number, the median of its logarithms, and intervals come from the scatter between processes.

Intervals are Student's t of a trimmed mean (Tukey and McLaughlin 1963; Yuen 1974). What they are worth where sampling
stopped for what was seen is the matter of harness.results.stopping.

References
----------
- Abramowitz and Stegun, "Handbook of mathematical functions", 1964.
- Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013.
- Šidák, "Rectangular confidence regions for the means of multivariate normal distributions", J. Am. Stat. Assoc. 62,
  1967.
- Tukey and McLaughlin, "Less vulnerable confidence and significance procedures for location based on a single sample:
  trimming/Winsorization 1", Sankhyā A 25, 1963.
- Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61, 1974.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

TRIMMED = 0.125  # share of the processes dropped at each end: none of fewer than eight
EQUIVALENT = 0.05  # relative difference that is never more than "same", however noisy the machine
MINIMUM_PROCESSES = 2  # for a claim: fewer say nothing about the scatter between processes
RESAMPLES = 999  # of the bootstrap
SPEEDUP_VERDICTS = {"above": "faster", "below": "slower", "equal": "same", "unclear": "unclear"}

Groups = Sequence[np.ndarray]  # positive values of each process: seconds per call, or ratios of them


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its confidence interval, all in the unit of the estimate."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width, relative to the value."""
        return (self.high - self.low) / (2 * self.value)


def level(confidence: float, comparisons: int) -> float:
    """Confidence of each of several intervals that hold jointly with `confidence` (Šidák 1967)."""
    return float(confidence ** (1 / max(comparisons, 1)))


def trimmed_mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Trimmed mean with its standard error (Tukey and McLaughlin 1963, with the divisors of Yuen 1974).

    `values` has shape (..., n), n >= 2; int(TRIMMED * n) of the n values are dropped at each end. That and the standard
    error are those of scipy.stats.ttest_ind(trim=TRIMMED); if nothing is dropped, they are of Student's t-test.

    Returns the means and their standard errors, both of shape (...), and the degrees of freedom of Student's t.
    """
    ordered = np.sort(values, axis=-1)
    count = ordered.shape[-1]
    cut = int(TRIMMED * count)
    remaining = count - 2 * cut
    mean = ordered[..., cut : count - cut].mean(axis=-1)
    winsorized = np.clip(ordered, ordered[..., cut, None], ordered[..., count - cut - 1, None])
    error = winsorized.std(axis=-1, ddof=1) * np.sqrt((count - 1) / (remaining * (remaining - 1)))
    return mean, error, remaining - 1


@cache
def critical_value(count: int, confidence: float) -> float:
    """Half-width of the interval of a trimmed mean of `count` >= 2 values, in standard errors.

    Of normal samples a nominal 95 % covers 95.0 % if nothing is dropped, 94.6 % of eight and 94.9 % of twelve.
    """
    return students_t(count - 2 * int(TRIMMED * count) - 1, confidence)


@cache
def students_t(degrees: int, confidence: float) -> float:
    """What a variable of Student's t with `degrees` >= 1 exceeds in size with a probability of 1 - `confidence`.

    In the angle whose tangent is t / sqrt(degrees), the probability below is a finite sum (Abramowitz and Stegun,
    26.7.3 and 26.7.4) and concave, so that Newton's method climbs to the angle from 0. scipy.special has the same, and
    takes longer to import than all that a history of 50,000 runs does with it.
    """
    odd = degrees % 2
    slope = 2 * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)

    def below(angle: float) -> float:
        term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
        for place in range(2 + odd, degrees + 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (place - 1) / place
        return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total

    angle, further = 0.0, math.nan
    while further != angle:
        further, angle = (
            angle,
            max(angle, angle + (confidence - below(angle)) / (slope * math.cos(angle) ** (degrees - 1))),
        )
    return math.sqrt(degrees) * math.tan(min(angle, math.pi / 2))


def median(values: np.ndarray) -> np.ndarray:
    """The median along the last axis, as np.median gives it, which takes three times as long for a thousand values."""
    half = values.shape[-1] // 2
    if values.shape[-1] % 2:
        return np.partition(values, half)[..., half]
    return np.partition(values, (half - 1, half))[..., half - 1 : half + 1].sum(axis=-1) / 2


def interval(groups: Groups, confidence: float) -> Interval:
    """The typical value over a fixed number of processes; `groups` holds the positive samples of each.

    Empty groups are ignored. A single process gives a bootstrap over its samples, which shows their scatter and
    supports no claim. Raises ValueError if there are no samples.
    """
    logs = logarithms(groups)
    if len(logs) < MINIMUM_PROCESSES:
        bounds = _bootstrap(logs[0], confidence)
        return Interval(float(np.exp(median(logs[0]))), *np.exp(bounds).tolist())
    return around(*estimate(logs, confidence))


def distances(centres: np.ndarray | float, floors: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """How far the logarithms of ratios lie beyond the noise floor, and how far within what makes them the same."""
    size = np.abs(centres)
    return size - np.log1p(floors), np.log1p(np.minimum(floors, EQUIVALENT)) - size


def noise_floor(control: Groups, min_effect: float) -> float:
    """The smallest relative difference that may be claimed: `min_effect`, or what the A/A control differs by.

    `control` holds the ratios, by process, of the baseline to itself under another name; there may be none.
    """
    medians = [median(np.log(group)) for group in control if len(group)]
    difference = abs(float(trimmed_mean(np.array(medians))[0])) if len(medians) > 1 else abs(sum(medians))
    return float(np.exp(max(difference, np.log1p(min_effect)))) - 1


def position(ratio: Interval, floor: float) -> str:
    """If a ratio lies, judged by its whole interval: `above` or `below` 1, `equal` to it, or `unclear`.

    Above and below need the interval beyond the noise floor, equal needs it within; a high floor makes nothing equal.
    """
    if ratio.low > 1 + floor:
        return "above"
    if ratio.high < 1 / (1 + floor):
        return "below"
    margin = 1 + min(floor, EQUIVALENT)
    return "equal" if ratio.low >= 1 / margin and ratio.high <= margin else "unclear"


def verdict(speedup: Interval, floor: float, processes: int) -> str:
    """`faster`, `slower`, `same` or `unclear`; fewer than MINIMUM_PROCESSES processes are always `unclear`."""
    if processes < MINIMUM_PROCESSES:
        return "unclear"
    return SPEEDUP_VERDICTS[position(speedup, floor)]


def logarithms(groups: Groups) -> list[np.ndarray]:
    logs = [np.log(group) for group in groups if len(group)]
    if not logs:
        raise ValueError("an interval needs at least one sample")
    return logs


def estimate(logs: Groups, confidence: float) -> tuple[float, float]:
    """Centre and half-width, in logarithms, of the interval over at least two processes.

    The half-width is at least one standard error of the process medians as known from within processes: medians that
    agree more closely do so by accident. If processes do not differ this raises coverage at three processes from
    95 to 96 %, at five by less than half a point; a bound at the nominal level would raise it to 98.5 %.
    """
    mean, error, _ = trimmed_mean(np.array([median(log) for log in logs]))
    half_width = critical_value(len(logs), confidence) * float(error)
    return float(mean), max(half_width, _within_error(logs))


def _within_error(logs: Groups) -> float:
    """Standard error of the mean of medians if all processes were alike, from the interquartile ranges."""
    variances = [np.pi / 2 * (_interquartile_range(log) / 1.349) ** 2 / len(log) for log in logs]
    return float(np.sqrt(sum(variances))) / len(logs)


def _interquartile_range(values: np.ndarray) -> float:
    """As np.percentile gives it, which takes eight times as long for a few values."""
    low, high = np.interp([0.25 * (len(values) - 1), 0.75 * (len(values) - 1)], np.arange(len(values)), np.sort(values))
    return float(high - low)


def around(centre: float, half_width: float) -> Interval:
    return Interval(*np.exp([centre, centre - half_width, centre + half_width]).tolist())


def _bootstrap(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Percentile interval of the median."""
    if len(values) < 2:
        return float(values[0]), float(values[0])
    from scipy import stats

    result = stats.bootstrap(
        (values,),
        np.median,
        confidence_level=confidence,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
