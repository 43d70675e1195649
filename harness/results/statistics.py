"""Estimates, confidence intervals, the stopping rule and verdicts, from raw samples.

One process is one sample. Samples of the same process share its memory layout, its compiled code and the state of the
machine, so their scatter says little about the next process (Kalibera and Jones 2013). A process therefore contributes
one number, the median of its logarithms, and intervals come from the scatter between processes.

Intervals are Student's t of a trimmed mean (Tukey and McLaughlin 1963; Yuen 1974). Sampling stops when they are narrow
enough, which selects the runs whose processes agree by accident: at a nominal 95 %, an interval that ignores this
covers the truth in 90 % of runs. `StoppingRule` corrects for it; benchmarks/coverage.py simulates the whole procedure.

References
----------
- Anscombe, "Sequential estimation", J. R. Stat. Soc. B 15, 1953.
- Chow and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", Ann. Math.
  Stat. 36, 1965.
- Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013.
- O'Brien and Fleming, "A multiple testing procedure for clinical trials", Biometrics 35, 1979.
- Šidák, "Rectangular confidence regions for the means of multivariate normal distributions", J. Am. Stat. Assoc. 62,
  1967.
- Singham and Schruben, "Finite-sample performance of absolute precision stopping rules", INFORMS J. Comput. 24, 2012.
- Tukey and McLaughlin, "Less vulnerable confidence and significance procedures for location based on a single sample:
  trimming/Winsorization 1", Sankhyā A 25, 1963.
- Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61, 1974.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.configuration.settings import LatencySettings

TRIMMED = 0.125  # share of the processes dropped at each end: none of fewer than eight
STOPPING_CORRECTION = 0.5  # relative widening of an interval that ends the sampling after many processes
FIRST_LOOK = 0.5  # share of the precision that the minimum number of processes has to reach
EQUIVALENT = 0.05  # relative difference that is never more than "same", however noisy the machine
MINIMUM_PROCESSES = 2  # for a claim: fewer say nothing about the scatter between processes
RESAMPLES = 999  # of the bootstrap
SPEEDUP_VERDICTS = {"above": "faster", "below": "slower", "equal": "same", "unclear": "unclear"}

Groups = Sequence[np.ndarray]  # positive values of each process: seconds per call, or ratios of them
Ratios = Sequence[Groups]  # of several variants


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
    from scipy import stats  # takes a second to import: while the first process measures, not before it starts

    remaining = count - 2 * int(TRIMMED * count)
    return float(stats.t.ppf((1 + confidence) / 2, remaining - 1))


def interval(groups: Groups, confidence: float) -> Interval:
    """The typical value over a fixed number of processes; `groups` holds the positive samples of each.

    Empty groups are ignored. A single process gives a bootstrap over its samples, which shows their scatter and
    supports no claim. Raises ValueError if there are no samples.
    """
    logs = _logs(groups)
    if len(logs) < MINIMUM_PROCESSES:
        bounds = _bootstrap(logs[0], confidence)
        return Interval(float(np.exp(np.median(logs[0]))), *np.exp(bounds).tolist())
    return _around(*_estimate(logs, confidence))


@dataclass(frozen=True)
class StoppingRule:
    """When to stop sampling, and the intervals of ratios that are valid in spite of it.

    Stopping at a narrow interval favours samples that agree by accident (Anscombe 1953, Chow and Robbins 1965), and
    with few samples coverage is lost (Singham and Schruben 2012). Two things restore it:

    - the minimum number of processes has to do better than later ones, since the fewer there are the more often they
      agree by accident: FIRST_LOOK times the precision (strict early looks are due to O'Brien and Fleming 1979);
    - after n processes, more than the minimum, intervals narrower than the precision are widened by the factor
      1 + STOPPING_CORRECTION * (1 - minimum / n) / comparisons ** 2: selection grows with the number of looks, and
      falls with the number of ratios, since sampling goes on for the widest. An interval is not widened beyond the
      precision, which it has to be below for sampling to stop, so that runs that end otherwise keep theirs.

    Both constants were found by simulation: with the default settings a single ratio is covered in 94.2 to 96.5 % of
    runs at a nominal 95 %, for effects of any standard deviation with normal and heavier tails.

    `precision` is the relative half-width that every ratio has to reach; `seconds` the time for sampling; `confidence`
    that with which all compared intervals hold jointly.
    """

    minimum: int
    maximum: int
    seconds: float
    precision: float
    confidence: float

    @classmethod
    def of(cls, settings: LatencySettings) -> StoppingRule:
        """The rule that the configuration's section `latency` asks for."""
        return cls(
            settings.processes, settings.max_processes, settings.seconds, settings.precision, settings.confidence
        )

    def interval(self, ratios: Groups, comparisons: int) -> Interval:
        """The interval of one of `comparisons` ratios; `ratios` holds the values of each process.

        A single process gives a bootstrap, as in `interval`.
        """
        confidence = level(self.confidence, comparisons)
        logs = _logs(ratios)
        if len(logs) < MINIMUM_PROCESSES:
            return interval(ratios, confidence)
        centre, half_width = _estimate(logs, confidence)
        return _around(centre, float(self.widened(half_width, len(logs), comparisons)))

    def widened(self, half_widths: np.ndarray | float, processes: int, comparisons: int) -> np.ndarray:
        """Logarithmic half-widths, of any shape, corrected for stopping after `processes`."""
        half_widths = np.asarray(half_widths)
        precision = np.arcsinh(self.precision)  # as a logarithmic half-width
        factor = self._factor(processes, comparisons)
        return np.maximum(half_widths, np.minimum(factor * half_widths, precision))

    def precise(self, half_widths: np.ndarray | float, processes: int, comparisons: int) -> np.ndarray:
        """Whether logarithmic half-widths, uncorrected and of any shape, suffice to stop after `processes`."""
        share = FIRST_LOOK if processes <= self.minimum else 1.0
        precision = share * np.arcsinh(self.precision)
        return self._factor(processes, comparisons) * np.asarray(half_widths) <= precision

    def reason(self, clocks: Sequence[Ratios], complete: int, elapsed: float) -> str | None:
        """Why to stop after `complete` processes and `elapsed` seconds of sampling; None if to go on.

        `clocks` are ratios of latencies and of device times: for each variant that can be ranked and is not the
        baseline, those of each process. The ratios of one clock hold jointly, and all of them have to be known.
        """
        if complete < self.minimum:
            return None
        measured = [[groups for groups in ratios if any(map(len, groups))] for ratios in clocks]
        compared = [(groups, len(ratios)) for ratios in measured for groups in ratios]
        if not compared:
            return "nothing to compare"
        width = max(self.interval(*one).half_width for one in compared)
        if all(self._known(*one) for one in compared):
            return f"every ratio is known to ±{width:.1%}"
        if complete >= self.maximum:
            return f"latency.max_processes={complete} are spent; the widest interval is ±{width:.1%}"
        if elapsed >= self.seconds:
            return f"latency.seconds={self.seconds:g} are spent; the widest interval is ±{width:.1%}"
        return None

    def _known(self, groups: Groups, comparisons: int) -> bool:
        logs = _logs(groups)
        if len(logs) < MINIMUM_PROCESSES:
            return False
        _, half_width = _estimate(logs, level(self.confidence, comparisons))
        return bool(self.precise(half_width, len(logs), comparisons))

    def _factor(self, processes: int, comparisons: int) -> float:
        return 1 + STOPPING_CORRECTION * max(1 - self.minimum / processes, 0) / max(comparisons, 1) ** 2


def noise_floor(control: Interval, min_effect: float) -> float:
    """The smallest relative difference that may be claimed: `min_effect`, or what the A/A control differs by."""
    return float(np.exp(max(abs(np.log(control.value)), np.log1p(min_effect)))) - 1


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


def _logs(groups: Groups) -> list[np.ndarray]:
    logs = [np.log(group) for group in groups if len(group)]
    if not logs:
        raise ValueError("an interval needs at least one sample")
    return logs


def _estimate(logs: Groups, confidence: float) -> tuple[float, float]:
    """Centre and half-width, in logarithms, of the interval over at least two processes.

    The half-width is at least one standard error of the process medians as known from within processes: medians that
    agree more closely do so by accident. If processes do not differ this raises coverage at three processes from
    95 to 96 %, at five by less than half a point; a bound at the nominal level would raise it to 98.5 %.
    """
    mean, error, _ = trimmed_mean(np.array([np.median(log) for log in logs]))
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


def _around(centre: float, half_width: float) -> Interval:
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
