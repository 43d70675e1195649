"""The band: new runs against many earlier ones of the same case and machine, since it changed last.

A new run is slower if its ratio to the baseline lies above the band in which one more of the earlier runs would lie: a
prediction interval of Student's t, from the scatter of runs and not from that within one (Hahn and Meeker 1991).

References
----------
- Hahn and Meeker, "Statistical intervals: a guide for practitioners", Wiley, 1991.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.history import series
from harness.history.changes import STATUS, Change
from harness.history.history import History
from harness.history.record import MEASURES, RATIOS
from harness.history.runs import Run, Runs
from harness.history.series import Group
from harness.history.words import BROKEN, SLOWER
from harness.results import statistics
from harness.results.measurement import OK
from harness.results.statistics import Interval

FEWEST = 5  # earlier runs that make a band
MOST = 30  # of the newest that do
SAME, UNCLEAR, FASTER, FIXED, NEW = "same", "unclear", "faster", "fixed", "new"
VERDICTS = (BROKEN, SLOWER, FASTER, FIXED, UNCLEAR, NEW, SAME)  # in the order in which they are shown
Figures = tuple[Interval | None, float | None, Interval | None]  # the band, the new value, and new / old
UNKNOWN: Figures = (None, None, None)
MISSING = "missing"  # the status of a variant that the new runs lack


@dataclass(frozen=True)
class Judgement:
    """One variant of one case of the new runs."""

    group: Group  # of the new runs
    variant: str
    status: str  # of the newest run, or MISSING
    verdict: str  # one of VERDICTS
    measure: str | None  # that was judged; None if none could be
    band: Interval | None  # of the earlier runs: their typical value, and where one more would lie
    value: float | None  # the new one
    ratio: Interval | None  # new / old
    reason: str

    @property
    def severity(self) -> tuple[int, float]:
        """To sort by: the worst first."""
        return VERDICTS.index(self.verdict), -abs(float(np.log(self.ratio.value))) if self.ratio else 0.0


def judge(old: History, runs: Runs, threshold: float, confidence: float) -> list[Judgement]:
    """Every variant of the new runs, and those that they lack, the worst first; all claims hold with `confidence`."""
    earlier = {(group.case, group.machine, group.settings): group for group in old.groups}
    pairs = [(new, _earlier(new, earlier)) for new in series.groups(runs)]
    names = [(new, before, name) for new, before in pairs for name in _names(new, before)]
    each = statistics.level(confidence, len(names))
    judged = [_judge(old, before, new, name, threshold, each) for new, before, name in names]
    return sorted(judged, key=lambda judgement: judgement.severity)


def failures(judged: Sequence[Judgement], level: str | None) -> list[Judgement]:
    """Those on which a gate of this level fails."""
    failing = {BROKEN: (BROKEN,), SLOWER: (BROKEN, SLOWER), None: ()}[level]
    return [judgement for judgement in judged if judgement.verdict in failing]


def _earlier(new: Group, earlier: dict) -> Group | None:
    """The series that new runs go on with; few runs may not show which settings distinguish them."""
    exact = earlier.get((new.case, new.machine, new.settings))
    alike = [group for (case, machine, _), group in earlier.items() if (case, machine) == (new.case, new.machine)]
    if exact is not None or len(alike) <= 1:
        return exact or next(iter(alike), None)
    return next((group for group in alike if _has(new.runs[-1], group.settings)), None)


def _has(run: Run, settings: Sequence[str]) -> bool:
    return all(
        run.conditions.get(key, "unset") == value for key, _, value in (each.partition("=") for each in settings)
    )


def _names(new: Group, before: Group | None) -> list[str]:
    """The variants of the new runs, and those of the last earlier one."""
    return list(dict.fromkeys([*new.variants, *(before.runs[-1].results if before else ())]))


def _judge(old: History, before: Group | None, new: Group, name: str, threshold: float, confidence: float) -> Judgement:
    now, last = new.last(name), before.last(name) if before else None
    status, reason = (now.status, now.reason) if now else (MISSING, "")

    def judgement(verdict: str, reason: str, measure: str | None = None, figures: Figures = UNKNOWN) -> Judgement:
        return Judgement(new, name, status, verdict, measure, *figures, reason)

    if status != OK:
        was_right = last is not None and last.status == OK
        return judgement(BROKEN if was_right else UNCLEAR, f"{status}{f': {reason}' if reason else ''}", STATUS)
    if before is None or last is None:
        return judgement(NEW, "no earlier runs of this case on this machine")
    if last.status != OK:
        return judgement(FIXED, f"was {last.status}", STATUS)
    others = len(new.variants) > 1
    measures = [measure for measure in MEASURES if measure in RATIOS or not others]
    known = [measure for measure in measures if len(new.series(name, measure).places)]
    if name == new.baseline and others:
        return judgement(SAME, "the others are judged beside it")
    if not known:
        return judgement(UNCLEAR, "no time that counts: its threads lacked cores, or its call is too short")
    for measure in known:
        band, value, ratio = _band(old, before, new, name, measure, confidence)
        if band is not None and ratio is not None:
            verdict = _verdict(ratio, threshold)
            return judgement(verdict, "" if measure in RATIOS else "a single variant", measure, (band, value, ratio))
    return judgement(UNCLEAR, f"fewer than {FEWEST} earlier runs since it changed last")


def _band(old: History, before: Group, new: Group, name: str, measure: str, confidence: float) -> Figures:
    """The band, the new value, and new / old with the interval that it gives; unknown if earlier runs are too few."""
    start = max(
        (change.place for change in old.changes if change.group is before and _moves(change, name, measure)), default=0
    )
    earlier = before.series(name, measure).between(start, len(before.runs))[-MOST:]
    now = new.series(name, measure).logs
    if len(earlier) < FEWEST:
        return UNKNOWN
    middle, value = float(np.mean(earlier)), float(np.mean(now))
    error = float(np.std(earlier, ddof=1)) * np.sqrt(1 / len(now) + 1 / len(earlier))
    half = statistics.students_t(len(earlier) - 1, confidence) * error
    band = Interval(*np.exp([middle, middle - half, middle + half]).tolist())
    ratio = Interval(*np.exp([value - middle, value - middle - half, value - middle + half]).tolist())
    return band, float(np.exp(value)), ratio


def _moves(change: Change, name: str, measure: str) -> bool:
    return change.variant == name and measure in change.evidence


def _verdict(ratio: Interval, threshold: float) -> str:
    """Slower or faster if it is so by the threshold, and outside of the band; else the same within the threshold."""
    if ratio.low > 1 and ratio.value > 1 + threshold:
        return SLOWER
    if ratio.high < 1 and ratio.value < 1 / (1 + threshold):
        return FASTER
    return SAME if 1 / (1 + threshold) <= ratio.value <= 1 + threshold else UNCLEAR
