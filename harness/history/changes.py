"""Changes: since which run a variant is slower, faster or wrong, in whichever measure shows it best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from harness.history import steps
from harness.history.record import ABSOLUTE, MEASURES, RATIOS
from harness.history.series import Group, Series
from harness.results import statistics
from harness.results.measurement import OK, SKIPPED
from harness.results.statistics import Interval

STATUS = "status"  # the measure of a change of status
NEAR = 1  # runs within which steps of two measures are one change
PHASES = 2**0.5  # standard deviations by which loud hours beside a step move it further than noise of the same size
ALIKE = 0.5  # of a change: by how much two variants may differ that changed alike


@dataclass(eq=False)
class Change:
    """One variant of one case is otherwise since a run."""

    group: Group
    variant: str
    measure: str  # the steadiest that shows it, or STATUS
    place: int  # of the first run after it, in the group
    before: int  # of the last run before it
    ratio: Interval | None  # of the measure, after / before; None of a status
    within: int = 0  # runs on either side that the place is known to
    evidence: dict[str, Interval] = field(default_factory=dict)  # of every measure that shows it
    status: tuple[str, str] | None = None  # before and after
    until: int | None = None  # the first run in which the former status is back
    cause: str = ""
    reason: str = ""

    @property
    def broken(self) -> bool:
        """Whether the variant was right, and is not."""
        return self.status is not None and self.status[0] == OK

    @property
    def over(self) -> bool:
        """Whether it was broken for a while."""
        return self.until is not None

    @property
    def beside(self) -> bool:
        """Whether it moved beside other variants of its case, which shared the machine with it."""
        return self.measure in RATIOS


def of_group(group: Group, threshold: float, confidence: float) -> list[Change]:
    """All changes of a group, in the order of time; none of a measure below `threshold`, a share.

    A ratio says that one of two variants moved. If all others moved alike beside the baseline, it is the baseline.
    """
    found = {
        measure: {name: _moves(group, name, measure, threshold, confidence) for name in group.variants}
        for measure in MEASURES
    }
    for ratio in RATIOS:
        _attribute(group, found[ratio])
    changes = []
    for name in group.variants:
        changes += _merged([move for measure in MEASURES for move in found[measure][name]])
        changes += _statuses(group, name)
    return sorted(changes, key=lambda change: change.place)


def shift(series: Series, before: int, after: int, runs: int) -> float | None:
    """By how much, in logarithms, a series moved between two runs, from up to `runs` runs on either side."""
    old = series.logs[series.places <= before][-runs:]
    new = series.logs[series.places >= after][:runs]
    return float(np.median(new) - np.median(old)) if len(old) and len(new) else None


def _moves(group: Group, name: str, measure: str, threshold: float, confidence: float) -> list[Change]:
    series = group.series(name, measure)
    if not len(series.places):
        return []
    correlated = measure in ABSOLUTE
    places = steps.steps(series.logs, float(np.log1p(threshold)), correlated)
    bounds = [0, *places, len(series.places)]
    moves = []
    for start, place, end in zip(bounds, places, bounds[2:], strict=False):
        change = ratio(series.logs[start:place], series.logs[place:end], confidence)
        deviation = steps.scatter(series.logs, correlated) * (PHASES if correlated else 1)
        within = steps.uncertainty(float(np.log(change.value)), deviation)
        at, before = int(series.places[place]), int(series.places[place - 1])
        moves.append(Change(group, name, measure, at, before, change, min(within, place - start, end - place)))
    return moves


def ratio(before: np.ndarray, after: np.ndarray, confidence: float) -> Interval:
    """After / before of the typical value, from logarithms; the interval is Yuen's, with the fewer degrees of freedom.

    Both sides need two values.
    """
    (old, old_error, _), (new, new_error, _) = statistics.trimmed_mean(before), statistics.trimmed_mean(after)
    half = statistics.critical_value(min(len(before), len(after)), confidence) * np.hypot(old_error, new_error)
    centre = float(new - old)
    return Interval(*np.exp([centre, centre - half, centre + half]).tolist())


def _attribute(group: Group, found: dict[str, list[Change]]) -> None:
    """Leaves each move of a ratio, by variant, to the variant that moved; the others' are its echo."""
    base = group.baseline
    others = [name for name in group.variants if name != base]
    moves = [change for name in others for change in found[name]]
    kept = []
    for own in found.get(base, []):
        echoes = [change for change in moves if abs(change.place - own.place) <= NEAR and _opposite(change, own)]
        measured = [name for name in others if _measured(group, name, own)]
        if len(measured) >= 2 and len({change.variant for change in echoes}) == len(measured):
            kept.append(own)
            moves = [change for change in moves if change not in echoes]
    if base in found:
        found[base] = kept
    for name in others:
        found[name] = [change for change in moves if change.variant == name]


def _measured(group: Group, name: str, change: Change) -> bool:
    """Whether a variant has the change's measure on both sides of it."""
    results = (group.runs[place].results.get(name) for place in (change.before, change.place))
    return all(result is not None and change.measure in result.figures for result in results)


def _opposite(change: Change, own: Change) -> bool:
    """Whether a change is as large as another, in the other direction."""
    first, second = _size(change), _size(own)
    return abs(first + second) <= ALIKE * abs(second)


def _size(change: Change) -> float:
    return float(np.log(change.ratio.value)) if change.ratio else 0.0


def _merged(moves: Sequence[Change]) -> list[Change]:
    """One change for all measures that show it; `moves` are those of one variant, the steadiest measure first."""
    merged: list[Change] = []
    for move in moves:
        if move.ratio is None:
            continue
        near = [change for change in merged if _same(change, move)]
        change = min(near, key=lambda other: abs(other.place - move.place), default=move)
        change.evidence.setdefault(move.measure, move.ratio)
        if change is move:
            merged.append(move)
    return merged


def _same(change: Change, move: Change) -> bool:
    """Whether a move in another measure is the same change: as far as its place is known, in the same direction."""
    apart = abs(change.place - move.place)
    if move.measure in change.evidence or apart > max(move.within, NEAR):
        return False
    return apart <= NEAR or (_size(change) > 0) == (_size(move) > 0)


def _statuses(group: Group, name: str) -> list[Change]:
    """A change for each time that the variant was not right, and, if it never was again, that is all of it."""
    changes: list[Change] = []
    if group.statuses(name) <= {OK, SKIPPED, None}:  # nearly always
        return changes
    statuses = enumerate(group.texts(name, "status"))
    known = [(place, status) for place, status in statuses if status not in (SKIPPED, None)]
    for (before, old), (place, new) in pairwise(known):
        if old == OK and new != OK:
            reason = group.runs[place].results[name].reason
            changes.append(Change(group, name, STATUS, place, before, None, status=(old, new), reason=reason))
        elif new == OK and old != OK and changes:
            changes[-1].until = place
        elif new == OK and old != OK:
            changes.append(Change(group, name, STATUS, place, before, None, status=(old, new)))
    return changes
