"""How a variant's latency or device time differs between two runs, and what can be claimed from it.

Two runs differ in more than their code: another load on the machine or a lower clock slows everything that a run
measures, often by more than the change of interest. Two things separate the code's change from the machine's:

- another variant of the same case, the *control*, saw the same machine. Times relative to the control's, paired within
  rounds, are compared between the runs: what the machine does to both cancels;
- noise only adds time, so the minimum is the steadiest figure of a run (Chen and Revels 2016). Code that is slower has
  no block of calls, or no profiled call, as fast as before.

A claim needs both. One process is one sample: the median of its logarithms. The interval of the difference between
two runs is that of Yuen's test, Welch's t on trimmed means.

References
----------
- Chen and Revels, "Robust benchmarking in noisy environments", 2016.
- Hoeffding, "A class of statistics with asymptotically normal distribution", Ann. Math. Stat. 19, 1948.
- Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61, 1974.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.results import statistics
from harness.results.samples import STARVED, Samples
from harness.results.statistics import MINIMUM_PROCESSES, Groups, Interval

VERDICTS = {"above": "slower", "below": "faster", "equal": "same", "unclear": "unclear"}  # by a ratio of times


@dataclass(frozen=True)
class Change:
    """One variant's change between two runs; ratios are new time / old time, so 1.2 is 20 % slower."""

    verdict: str  # faster, slower, same or unclear
    reason: str | None  # why it is unclear
    typical: Interval | None  # of the typical time; None if a run has too few processes
    minimum: float  # of the minimum
    relative: Interval | None  # of the typical time relative to the control's
    control: str | None  # the variant that separates the code's change from the machine's


def changes(
    old: Samples, new: Samples, floors: Mapping[str, float], confidence: float, absolute: bool = False
) -> dict[str, Change]:
    """The change of each of some variants, of which both runs of a case have samples.

    No change below a variant's floor, a relative difference, is claimed of it. With `absolute` the typical time is
    judged as it is, without a control: for machines whose speed is known to be fixed.
    """
    minima = {name: minimum_ratio(old.of(name), new.of(name)) for name in floors}
    sides = {"OLD": old, "NEW": new}
    starved = {name: side for side, run in sides.items() for name in floors if run.condition(name) == STARVED}
    result = {}
    for name, floor in floors.items():
        typical = ratio(old.of(name), new.of(name), confidence)
        others = {other: minimum for other, minimum in minima.items() if other not in starved and other != name}
        control, relative = _control(name, old, new, minima[name], others, floor, confidence)
        judged = typical if absolute else relative
        verdict, reason = judge(typical, minima[name], judged, control, floor, absolute)
        if name in starved:
            verdict, reason = "unclear", f"in {starved[name]} its threads lacked the cores that they use"
        result[name] = Change(verdict, reason, typical, minima[name], relative, control)
    return result


def ratio(old: Groups, new: Groups, confidence: float) -> Interval | None:
    """New / old with its interval; None if a side has too few processes to know how they scatter."""
    before, after = _medians(old), _medians(new)
    if min(len(before), len(after)) < MINIMUM_PROCESSES:
        return None
    from scipy import stats  # takes a second to import

    centre = float(statistics.trimmed_mean(after)[0] - statistics.trimmed_mean(before)[0])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # medians without any scatter, as a coarse clock gives
        test = stats.ttest_ind(after, before, equal_var=False, trim=statistics.TRIMMED)
        bounds = test.confidence_interval(confidence)
    low, high = (bounds.low, bounds.high) if np.isfinite(bounds.low) else (centre, centre)
    return Interval(*np.exp([centre, low, high]).tolist())


def minimum_ratio(old: Groups, new: Groups) -> float:
    """New / old of the minimum, as expected from equal numbers of processes and samples.

    The minimum falls with the number of samples, so that of the larger run is not compared as it is: `minimum` gives
    what it would be with the processes, and the typical number of samples per process, of the smaller one.
    """
    before, after = _measured(old), _measured(new)
    processes = min(len(before), len(after))
    samples = int(min(np.median([len(group) for group in side]) for side in (before, after)))
    return minimum(after, processes, samples) / minimum(before, processes, samples)


def minimum(groups: Groups, processes: int, samples: int) -> float:
    """Expected minimum over `processes` of the groups and `samples` of each, as a geometric mean, in seconds.

    The average is over all choices without replacement, which is a U-statistic and so unbiased (Hoeffding 1948). The
    first group is in every choice: the first process of a run compiles and checks where later ones find their caches
    filled, so it has no equal but the other run's first. Groups with fewer samples contribute all of theirs.

    Raises ValueError for more processes than there are groups with samples.
    """
    groups = _measured(groups)
    if not 1 <= processes <= len(groups):
        raise ValueError(f"processes={processes}: expected 1 to {len(groups)}")
    values = np.unique(np.concatenate(groups))
    # the probability that a group's choice lies entirely above a value is hypergeometric
    survivals = [_survival(np.sort(group), values, min(samples, len(group))) for group in groups]
    first = survivals[0]
    others = survivals[1:]
    # over choices of groups, its mean product is an elementary symmetric polynomial
    sums = np.zeros((processes, len(values)))
    sums[0] = 1
    for other in others:
        sums[1:] += other * sums[:-1]
    above = first * sums[-1] / math.comb(len(others), processes - 1)
    weights = -np.diff(above, prepend=1.0)
    return float(np.exp(weights @ np.log(values)))


def _survival(ordered: np.ndarray, values: np.ndarray, samples: int) -> np.ndarray:
    """Probability that `samples` of a group, chosen without replacement, are all above each of the values."""
    from scipy import stats

    above = len(ordered) - np.searchsorted(ordered, values, side="right")
    return stats.hypergeom.pmf(samples, len(ordered), above, samples)


def _measured(groups: Groups) -> list[np.ndarray]:
    return [group for group in groups if len(group)]


def _medians(groups: Groups) -> np.ndarray:
    return np.array([np.median(np.log(group)) for group in _measured(groups)])


def _control(
    name: str,
    old: Samples,
    new: Samples,
    minimum: float,
    others: Mapping[str, float],
    floor: float,
    confidence: float,
) -> tuple[str | None, Interval | None]:
    """The other variant relative to which this one is known best, preferably one that did not change itself.

    `minimum` is the change of this one's minimum, `others` are those of the others, by name.
    A variant that changed in the opposite direction is no control: either of the two may be the cause.
    """
    known: dict[str, Interval] = {}
    directions = {other: _direction(change, floor) for other, change in others.items()}
    for other in others:
        if {_direction(minimum, floor), directions[other]} == {"slower", "faster"}:
            continue
        relative = ratio(old.paired(name, other), new.paired(name, other), confidence)
        if relative is not None:
            known[other] = relative
    if not known:
        return None, None
    unchanged = [other for other in known if directions[other] == "same"]
    best = min(unchanged or known, key=lambda other: known[other].high / known[other].low)
    return best, known[best]


def judge(
    typical: Interval | None,
    minimum: float,
    judged: Interval | None,
    control: str | None,
    floor: float,
    absolute: bool,
) -> tuple[str, str | None]:
    """The verdict, and the reason if it is unclear: a claim needs the judged interval and the minimum to agree."""
    if typical is None:
        return "unclear", f"fewer than {MINIMUM_PROCESSES} processes in a run: how they scatter is not known"
    by_minimum = _direction(minimum, floor)
    by_interval = _verdict(judged, floor) if judged is not None else "unclear"
    if by_interval == by_minimum:
        return by_interval, None
    if _verdict(typical, floor) == "same":
        return "same", None
    if judged is None:
        return "unclear", "no other variant in its case separates the code's change from the machine's"
    if by_interval == "unclear":
        return "unclear", "the interval is too wide: processes differ too much, or are too few"
    if absolute:
        return "unclear", f"its processes are {by_interval}, but its minimum is {by_minimum}"
    if by_minimum == "same":
        return "unclear", f"relative to {control} it is {by_interval}, but its minimum is the same"
    return "unclear", f"it is {by_minimum}, and {control} with it: the machine, or what they share"


def _direction(change: float, floor: float) -> str:
    """`slower` or `faster` if a ratio new / old differs from 1 by more than the floor, else `same`."""
    if change > 1 + floor:
        return "slower"
    return "faster" if change < 1 / (1 + floor) else "same"


def _verdict(change: Interval, floor: float) -> str:
    return VERDICTS[statistics.position(change, floor)]
