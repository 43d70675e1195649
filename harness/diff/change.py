"""Change: how a variant's latency differs between two runs, and what can be claimed from it.

Two runs differ in more than their code: a neighbour on the machine or a lower clock slows all that a run measures,
often by more than the change that is looked for. Two things tell the code's change from the machine's:

- a variant of the same case, its *witness*, saw the same machine. Latencies over the witness's, paired within rounds,
  are compared between the runs: what the machine does to both cancels;
- noise only adds time, so that the least latency of a run is its steadiest (Chen and Revels, Robust benchmarking in
  noisy environments, 2016). Code that is slower has no block of calls as fast as before.

A claim needs both. Within a run a process is one sample: the median of its logarithms. Between two runs the
difference of their trimmed means is taken, with the interval of Yuen's test: Welch's t on trimmed means, degrees of
freedom after Satterthwaite (Yuen, The two-sample trimmed t for unequal population variances, 1974).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from harness.results import statistics
from harness.results.statistics import Interval

Groups = Sequence[np.ndarray]  # seconds per call, of each process

LEAST_PROCESSES = 2  # whose scatter is known


@dataclass(frozen=True)
class Change:
    """One variant's change between two runs; ratios are new latency / old latency, so 1.2 is 20 % slower."""

    verdict: str  # faster, slower, same, unclear
    reason: str | None  # why it is unclear
    latency: Interval | None  # typical latency; None: too few processes for an interval
    least: float  # least latency
    beside: Interval | None  # typical latency over the witness's
    witness: str | None


def changes(
    old: Mapping[str, Groups], new: Mapping[str, Groups], floor: float, confidence: float, absolute: bool = False
) -> dict[str, Change]:
    """Each variant's change; `old` and `new` hold the same variants of one case, each with samples.

    No change below `floor`, a relative difference, is claimed. With `absolute`, the typical latency is judged as it
    is, and no witness is asked: for machines whose speed is known to be fixed.
    """
    least = {name: _least(new[name]) / _least(old[name]) for name in old}
    found = {}
    for name in old:
        latency = ratio(old[name], new[name], confidence)
        witness, beside = _witness(name, old, new, least, floor, confidence)
        judged = latency if absolute else beside
        verdict, reason = _judge(latency, least[name], judged, witness, floor, absolute)
        found[name] = Change(verdict, reason, latency, least[name], beside, witness)
    return found


def ratio(old: Groups, new: Groups, confidence: float) -> Interval | None:
    """New / old with its interval; None where a side has too few processes to know how they scatter."""
    before, after = _centres(old), _centres(new)
    if min(len(before), len(after)) < LEAST_PROCESSES:
        return None
    centre = float(stats.trim_mean(after, statistics.TRIMMED) - stats.trim_mean(before, statistics.TRIMMED))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of centres without any scatter, as a coarse clock gives
        test = stats.ttest_ind(after, before, equal_var=False, trim=statistics.TRIMMED)
        bounds = test.confidence_interval(confidence)
    low, high = (bounds.low, bounds.high) if np.isfinite(bounds.low) else (centre, centre)
    return Interval(*np.exp([centre, low, high]).tolist())


def _centres(groups: Groups) -> np.ndarray:
    return np.array([np.median(np.log(group)) for group in groups if len(group)])


def _least(groups: Groups) -> float:
    return min(float(group.min()) for group in groups if len(group))


def _witness(
    name: str,
    old: Mapping[str, Groups],
    new: Mapping[str, Groups],
    least: Mapping[str, float],
    floor: float,
    confidence: float,
) -> tuple[str | None, Interval | None]:
    """The other variant against which this one is known best; where one did not move itself, such a one.

    One that moved the other way is no witness: either of the two may be the cause.
    """
    known = {}
    for other in old:
        if other == name or _sign(least[other], floor) * _sign(least[name], floor) < 0:
            continue
        before, after = (statistics.paired(list(side[name]), list(side[other])) for side in (old, new))
        beside = ratio(before, after, confidence)
        if beside is not None:
            known[other] = beside
    unmoved = [other for other in known if _sign(least[other], floor) == 0]
    best = min(unmoved or known, key=lambda other: known[other].high / known[other].low, default=None)
    return best, known.get(best) if best is not None else None


def _judge(
    latency: Interval | None,
    least: float,
    judged: Interval | None,
    witness: str | None,
    floor: float,
    absolute: bool,
) -> tuple[str, str | None]:
    if latency is None:
        return "unclear", f"fewer than {LEAST_PROCESSES} processes in a run: how they scatter is not known"
    own = ("same", "slower", "faster")[_sign(least, floor)]
    verdict = _verdict(judged, floor) if judged is not None else "unclear"
    if verdict == own:
        return verdict, None
    if _verdict(latency, floor) == "same":
        return "same", None
    if judged is None:
        return "unclear", "no other variant in its case tells the code's change from the machine's"
    if verdict == "unclear":
        return "unclear", "the interval is too wide: processes differ too much, or are too few"
    if own == "same":
        what = "its processes are" if absolute else f"beside {witness} it is"
        return "unclear", f"{what} {verdict}, but its least latency is the same"
    return "unclear", f"it is {own}, and {witness} with it: the machine, or what they share"


def _sign(change: float, floor: float) -> int:
    """1 where the change is up by more than the floor, -1 where it is down, 0 between."""
    return int(change > 1 + floor) - int(change < 1 / (1 + floor))


def _verdict(change: Interval, floor: float) -> str:
    """statistics.verdict judges speed, the reciprocal."""
    return statistics.verdict(Interval(1 / change.value, 1 / change.high, 1 / change.low), floor)
