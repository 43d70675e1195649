"""Medians, intervals and verdicts from raw samples; pure numpy and scipy, no tables.

One process is one sample: within a process samples share an address-space layout, a compile and a machine state, so
that their scatter says little of the next process. A ratio is therefore estimated once in each process, as the median
of ratios paired within rounds, and its interval comes from the scatter between processes (Kalibera and Jones,
Rigorous Benchmarking in Reasonable Time, 2013): a sixth of the processes is trimmed at each end and Student's t of
what is left taken, on logarithms (Tukey and McLaughlin, 1963). Where there is one process only, the interval is a
bootstrap over its rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BOOTSTRAPS = 999
DISTURBED = 1.2  # times what the yardstick takes in a quiet round
ALIKE = 0.05  # a difference that matters to nobody who chooses between implementations
TRIMMED = 0.17  # of the processes, at each end: one of six, two of twelve


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width, relative to the value."""
        return (self.high - self.low) / (2 * self.value)


def level(confidence: float, comparisons: int) -> float:
    """The confidence of each of several intervals that hold together with `confidence` (Šidák)."""
    return float(confidence ** (1 / max(comparisons, 1)))


def interval(groups: list[np.ndarray], confidence: float) -> Interval:
    """The typical positive value over processes; `groups` holds each process's samples."""
    from scipy import stats  # a second to import: while the first process measures, not before it starts

    logs = [np.log(group) for group in groups if len(group)]
    centres = np.array([np.median(group) for group in logs])
    if len(centres) > 1:
        centre = float(stats.trim_mean(centres, TRIMMED))
        low, high = stats.mstats.trimmed_mean_ci(centres, (TRIMMED, TRIMMED), (True, True), 1 - confidence)
        # so few centres may agree by chance: their scatter is no less than that of the samples behind them
        half = max(float(high - low) / 2, stats.norm.ppf((1 + confidence) / 2) * _standard_error(logs))
        return Interval(float(np.exp(centre)), float(np.exp(centre - half)), float(np.exp(centre + half)))
    centre = float(centres[0])
    low, high = _bootstrap(logs[0], confidence)
    return Interval(float(np.exp(centre)), float(np.exp(low)), float(np.exp(high)))


def by_process(samples: list[list], names: list[str]) -> dict[str, list[np.ndarray]]:
    """Each name's seconds per call in every process, in the order of rounds.

    `samples` are rows of (name, process, round, calls, seconds).
    """
    processes = sorted({sample[1] for sample in samples})
    collected: dict[tuple[str, int], list[float]] = {(name, process): [] for name in names for process in processes}
    for name, process, _, _, seconds in samples:
        collected[name, process].append(seconds)
    return {name: [np.array(collected[name, process]) for process in processes] for name in names}


def undisturbed(seconds: dict[str, list[np.ndarray]], yardstick: str) -> dict[str, list[np.ndarray]]:
    """The same without the rounds in which the machine was disturbed, as `yardstick` tells.

    That is a name which nothing is compared with, so that to choose by it favours nobody. A round stays in which it
    took little more than in the fastest fifth of its process's rounds; a fifth of them always do.
    """
    kept: dict[str, list[np.ndarray]] = {name: [] for name in seconds}
    for process, told in enumerate(seconds[yardstick]):
        quiet = told <= DISTURBED * np.percentile(told, 20) if len(told) else np.array([], bool)
        for name, groups in seconds.items():
            group = groups[process]
            kept[name].append(group[: len(quiet)][quiet[: len(group)]] if len(told) else group)
    return kept


def paired(baseline: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray]:
    """Ratios baseline / other, paired round by round in each process that saw both."""
    return [b[: len(o)] / o[: len(b)] for b, o in zip(baseline, other, strict=True) if len(b) and len(o)]


def noise_floor(twin: Interval, min_effect: float) -> float:
    """The least relative difference that may be claimed: no less than the baseline differs from itself by."""
    return float(np.exp(max(abs(np.log(twin.value)), np.log1p(min_effect)))) - 1


def verdict(ratio: Interval, floor: float) -> str:
    """`faster` and `slower` only where the whole interval lies beyond the floor, `same` where it lies within.

    A high floor, of a noisy machine, makes nothing the same.
    """
    margin = 1 + min(floor, ALIKE)
    if ratio.low > 1 + floor:
        return "faster"
    if ratio.high < 1 / (1 + floor):
        return "slower"
    if ratio.low >= 1 / margin and ratio.high <= margin:
        return "same"
    return "unclear"


def _standard_error(logs: list[np.ndarray]) -> float:
    """Of the mean of medians, if all processes were alike; a median's from the spread of its middle half."""
    variances = [np.pi / 2 * (np.subtract(*np.percentile(log, (75, 25))) / 1.349) ** 2 / len(log) for log in logs]
    return float(np.sqrt(sum(variances))) / len(logs)


def _bootstrap(values: np.ndarray, confidence: float) -> tuple[float, float]:
    if len(values) < 2:
        return float(values[0]), float(values[0])
    from scipy import stats

    result = stats.bootstrap(
        (values,),
        np.median,
        confidence_level=confidence,
        n_resamples=BOOTSTRAPS,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
