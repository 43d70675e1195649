"""Stopping: when sampling may end, what intervals are worth in spite of it, and what a clear verdict would take.

References
----------
- Anscombe, "Sequential estimation", J. R. Stat. Soc. B 15, 1953.
- Chow and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", Ann. Math.
  Stat. 36, 1965.
- Singham and Schruben, "Finite-sample performance of absolute precision stopping rules", INFORMS J. Comput. 24, 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.configuration.settings import LatencySettings
from harness.results.statistics import (
    MINIMUM_PROCESSES,
    Groups,
    Interval,
    around,
    distances,
    estimate,
    interval,
    level,
    logarithms,
)

STOPPING_CORRECTION = 0.5  # relative widening of an interval after many more processes than the minimum
MARGIN, CLEAR, HOPELESS = 1.25, 2.0, 3.0  # half-widths, see StoppingRule
MOST_PROCESSES = 1000  # that anybody would wait for


@dataclass(frozen=True)
class Compared:
    """What a stopping rule has to know of the ratios of one clock, which hold jointly.

    `ratios` holds, of each variant that can be ranked and is not the baseline, the ratios of each process; `floors` the
    noise floor of each.
    """

    ratios: Sequence[Groups]
    floors: Sequence[float]


@dataclass(frozen=True)
class StoppingRule:
    """When to stop sampling, and the intervals of ratios that are valid in spite of it.

    Sampling goes on while a verdict can still change. A ratio needs no more samples

    - if its verdict is clear, by MARGIN times its half-width, and it is known to the `precision`;
    - if it is clear beyond doubt: faster or slower by CLEAR times its half-width;
    - or if it stays unclear whatever follows: as narrow as its interval will be when time is up, it would still be
      HOPELESS times too wide.

    Stopping for what was seen favours samples that agree by accident (Anscombe 1953, Chow and Robbins 1965), and with
    few samples coverage is lost (Singham and Schruben 2012). MARGIN restores some of it. For the rest, after n
    processes, more than the minimum, intervals are wider by the factor
    1 + STOPPING_CORRECTION * (1 - minimum / n) / comparisons ** 2: selection grows with the number of looks, and falls
    with the number of ratios, since sampling goes on for the widest.

    The constants were found by simulation, benchmarks/coverage.py.

    `seconds` is the time for sampling, `confidence` that with which all compared intervals hold jointly.
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
        logs = logarithms(ratios)
        if len(logs) < MINIMUM_PROCESSES:
            return interval(ratios, confidence)
        centre, half_width = estimate(logs, confidence)
        return around(centre, float(self.widened(half_width, len(logs), comparisons)))

    def widened(self, half_widths: np.ndarray | float, processes: int, comparisons: int) -> np.ndarray:
        """Logarithmic half-widths, of any shape, corrected for stopping after `processes`."""
        factor = 1 + STOPPING_CORRECTION * max(1 - self.minimum / processes, 0) / max(comparisons, 1) ** 2
        return factor * np.asarray(half_widths)

    def settled(
        self,
        centres: np.ndarray | float,
        half_widths: np.ndarray | float,
        floors: np.ndarray | float,
        growth: float,
    ) -> np.ndarray:
        """Whether ratios need no more samples.

        The logarithms of the ratios, corrected half-widths and noise floors may have any shapes that go together.
        `growth` is how many times as many processes there will be when time is up.
        """
        beyond, within = distances(centres, floors)
        clear_by = np.maximum(beyond, within)
        half_widths = np.asarray(half_widths)
        clear = (clear_by >= MARGIN * half_widths) & (half_widths <= np.arcsinh(self.precision))
        hopeless = half_widths / np.sqrt(growth) > HOPELESS * clear_by
        return clear | (beyond >= CLEAR * half_widths) | hopeless

    def reason(self, clocks: Sequence[Compared], complete: int, elapsed: float) -> str | None:
        """Why to stop after `complete` processes and `elapsed` seconds of sampling; None if to go on.

        `clocks` are those of latencies and of device times: all their ratios have to need no more samples.
        """
        if complete < self.minimum:
            return None
        measured = [
            [(each, floor) for each, floor in zip(clock.ratios, clock.floors, strict=True) if any(map(len, each))]
            for clock in clocks
        ]
        if not any(measured):
            return "nothing to compare"
        width = max(self.interval(each, len(clock)).half_width for clock in measured for each, _ in clock)
        reached = f"the widest interval is ±{width:.1%}"
        if complete >= self.maximum:
            return f"latency.max_processes={complete} are spent; {reached}"
        if elapsed >= self.seconds:
            return f"latency.seconds={self.seconds:g} are spent; {reached}"
        growth = min(self.maximum / complete, self.seconds / elapsed if elapsed > 0 else np.inf)
        if all(self._settled(each, len(clock), floor, growth) for clock in measured for each, floor in clock):
            return f"more processes would change no verdict; {reached}"
        return None

    def clear_after(self, ratios: Groups, comparisons: int, floor: float) -> int | None:
        """How many processes would make the verdict on a ratio clear, if it is where it seems; None: too many."""
        logs = logarithms(ratios)
        if len(logs) < MINIMUM_PROCESSES:
            return None
        centre, half_width = estimate(logs, level(self.confidence, comparisons))
        clear_by = float(np.maximum(*distances(centre, floor)))
        needed = len(logs) * (half_width / clear_by) ** 2 if clear_by > 0 else np.inf
        return int(np.ceil(needed)) if needed <= MOST_PROCESSES else None

    def _settled(self, groups: Groups, comparisons: int, floor: float, growth: float) -> bool:
        logs = logarithms(groups)
        if len(logs) < MINIMUM_PROCESSES:
            return False
        centre, half_width = estimate(logs, level(self.confidence, comparisons))
        return bool(self.settled(centre, self.widened(half_width, len(logs), comparisons), floor, growth))
