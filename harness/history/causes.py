"""Causes: whether a change is the code's, the machine's, the method's or the environment's, and why it is thought so.

Witnesses decide between the code and the machine: other variants of the case, which ran on the machine at that time,
and other cases of the same days. What the runs say of themselves decides the rest: a setting, a version or a host that
is another one from the run of the change on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from harness.history.changes import ALIKE, NEAR, Change, shift
from harness.history.record import ABSOLUTE, CONFIGURED
from harness.history.series import Group, differing
from harness.report import formatting
from harness.results.conditions import SETTINGS
from harness.results.measurement import OK

CODE, MACHINE, METHOD, ENVIRONMENT, UNCLEAR = CAUSES = ("code", "machine", "method", "environment", "unclear")

HOST = "host"
SIDE = 3  # runs on either side of a change in which a condition has to be the same
AROUND = 10  # runs on either side in which a condition that keeps changing says nothing
OFTEN = 1 / 3  # of the runs
NAMED = 3  # conditions in a reason
FEW = 2  # other cases that are witnesses of the machine
ENOUGH = 4  # of them that are witnesses of the code, as they stayed where they were
MOST = 10  # of them that are asked
STILL = 0.25  # of a change: up to which another case has not moved
LARGER = 2.0  # a machine's change, over that of a ratio, from which on it may have caused it

Differences = Sequence[tuple[str, str, str]]  # name, old and new value


@dataclass
class Coincidence:
    """What else is otherwise since the run of a change."""

    method: list[tuple[str, str, str]] = field(default_factory=list)
    environment: list[tuple[str, str, str]] = field(default_factory=list)
    host: list[tuple[str, str, str]] = field(default_factory=list)
    own: list[tuple[str, str, str]] = field(default_factory=list)  # how the variant is configured
    restless: list[str] = field(default_factory=list)  # names of conditions that keep changing


def classify(change: Change, beside: Sequence[Change], groups: Sequence[Group]) -> None:
    """Sets a change's cause and reason; `beside` are all changes of its group, `groups` all of the history."""
    found = _coincidence(change)
    if change.status is not None:
        change.cause, reason = _of_status(change, found)
        change.reason = f"{change.reason} ({reason})" if change.reason else reason
    elif found.method:
        change.cause, change.reason = METHOD, _texts(found.method)
    elif found.environment:
        change.cause, change.reason = ENVIRONMENT, _texts(found.environment)
    elif change.beside:
        change.cause, change.reason = _of_ratio(change, found, beside)
    else:
        change.cause, change.reason = _of_time(change, groups)


def commits(change: Change) -> str | None:
    """`1a2b3c4 → 5d6e7f8`; None if they are not known, or the same."""
    old, new = change.group.runs[change.before], change.group.runs[change.place]
    if old.commit is None or new.commit is None or (old.commit == new.commit and not (old.changed or new.changed)):
        return None
    return f"{old.commit_name} → {new.commit_name}"


def _of_status(change: Change, found: Coincidence) -> tuple[str, str]:
    """The cause of a change of status: of code, unless a version changed, or all variants failed with it."""
    results = change.group.runs[change.place].results.values()
    if found.method:
        return METHOD, _texts(found.method)
    if found.environment:
        return ENVIRONMENT, _texts(found.environment)
    if change.broken and len(results) > 1 and all(result.status != OK for result in results):
        return UNCLEAR, "all variants of the run"
    if _same_commit(change):
        return UNCLEAR, "the commit is the same"
    return CODE, f"commit {commits(change)}" if commits(change) else "the rest of its case is as before"


def _of_ratio(change: Change, found: Coincidence, beside: Sequence[Change]) -> tuple[str, str]:
    """The cause of a variant's move beside its witnesses."""
    base = change.group.baseline
    moved = f"it moved beside {'the other variants' if change.variant == base else base}"
    if found.own:
        return CODE, f"{moved}: {_texts(found.own)}"
    if found.host:
        return UNCLEAR, f"{moved}, but on another host: {_texts(found.host)}"
    machine = [other for other in beside if other.measure in ABSOLUTE and abs(other.place - change.place) <= NEAR]
    if any(abs(_log(other)) > LARGER * abs(_log(change)) for other in machine):
        return UNCLEAR, f"{moved} just when the machine moved by {_signed(_log(machine[0]))}"
    if found.restless:
        return UNCLEAR, f"{moved}, but {formatting.listed(found.restless[:NAMED])} changes as often as the code"
    if _same_commit(change):
        return UNCLEAR, f"{moved}, but the commit is the same"
    known = commits(change)
    return CODE, f"{moved}: commit {known}" if known else moved


def _of_time(change: Change, groups: Sequence[Group]) -> tuple[str, str]:
    """The cause of a time's change that the ratios to other variants do not show."""
    group = change.group
    own = _moved(change, change.variant)
    witnesses = [name for name in group.variants if name != change.variant and _alike(_moved(change, name), own)]
    yardstick = shift(group.yardstick, change.before, change.place, AROUND)
    if yardstick is not None and _alike(yardstick, own):
        return MACHINE, f"the machine's yardstick moved alike, by {_signed(yardstick)}"
    elsewhere = _elsewhere(change, groups)
    if len(elsewhere) >= FEW and _alike(float(np.median(elsewhere)), own):
        return MACHINE, f"other cases moved alike, by {_signed(float(np.median(elsewhere)))}"
    if len(elsewhere) >= ENOUGH and np.percentile(np.abs(elsewhere), 75) < STILL * abs(own):
        if _same_commit(change):
            return UNCLEAR, "other cases did not move, and the commit is the same"
        what = "all its variants" if witnesses else "it"
        known = commits(change)
        return CODE, f"{what} moved, and other cases did not{f': commit {known}' if known else ''}"
    if witnesses:
        return MACHINE, f"{formatting.listed(witnesses[:NAMED])} moved alike"
    return UNCLEAR, "no other variant tells the code from the machine"


def _moved(change: Change, name: str) -> float:
    """By how much, in logarithms, a variant moved then in the change's measure; 0 if it has no value on either side."""
    return shift(change.group.series(name, change.measure), change.before, change.place, AROUND) or 0.0


def _alike(moved: float, own: float) -> bool:
    return abs(moved - own) <= ALIKE * abs(own)


def _elsewhere(change: Change, groups: Sequence[Group]) -> list[float]:
    """By how much, in logarithms, the baselines of other cases of the machine moved at that time."""
    group = change.group
    start, end = group.runs[change.before].time, group.runs[change.place].time
    moved: list[float] = []
    for other in groups:
        if other.machine != group.machine or other.case == group.case:
            continue
        before, after = np.searchsorted(other.runs.times, start, "right") - 1, np.searchsorted(other.runs.times, end)
        by = shift(other.series(other.baseline, change.measure), int(before), int(after), AROUND)
        if by is not None:
            moved.append(by)
        if len(moved) == MOST:
            break
    return moved


def _coincidence(change: Change) -> Coincidence:
    """The conditions that are others from the change on, to within the run that its place is known to."""
    runs = change.group.runs
    if change.status is not None:  # known to the run
        before, after = [runs[change.before]], [runs[change.place]]
    else:
        near = max(change.within, NEAR)
        before = [*runs[max(change.before - near - SIDE + 1, 0) : max(change.before - near + 1, 1)]]
        after = [*runs[change.place + near : change.place + near + SIDE]] or [runs[-1]]
    around = runs[max(change.place - AROUND, 0) : change.place + AROUND]
    found = Coincidence()
    for name, old, new in differing(before[-1].conditions, after[0].conditions):
        olds = {run.conditions.get(name, "unset") for run in before}
        if olds & {run.conditions.get(name, "unset") for run in after}:
            continue
        switches = sum(old.conditions.get(name) != new.conditions.get(name) for old, new in pairwise(around))
        entry = (name, old, new)
        if switches > max(OFTEN * len(around), 1):
            if name != HOST:
                found.restless.append(name)
        elif name == HOST:
            found.host.append(entry)
        elif name.startswith(CONFIGURED):
            if name.startswith((f"{CONFIGURED}{change.variant}.", f"{CONFIGURED}{change.group.baseline}.")):
                found.own.append(entry)
        elif name == "harness" or name.startswith(SETTINGS):
            found.method.append(entry)
        else:
            found.environment.append(entry)
    return found


def _same_commit(change: Change) -> bool:
    old, new = change.group.runs[change.before], change.group.runs[change.place]
    return old.commit is not None and old.commit == new.commit and not (old.changed or new.changed)


def _log(change: Change) -> float:
    return float(np.log(change.ratio.value)) if change.ratio else 0.0


def _signed(log: float) -> str:
    return formatting.change(float(np.exp(log)))


def _texts(differences: Differences) -> str:
    return formatting.some([f"{name}: {old} → {new}" for name, old, new in differences], NAMED)
