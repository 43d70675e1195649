"""Notices: what is odd in the runs of a history, each told and none of it the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from harness.history import words
from harness.history.reading import Reading
from harness.history.runs import NONE, Run, Runs
from harness.history.series import Group
from harness.report import formatting

ENOUGH = 3  # runs that a variant needs on its side to pass for a renamed one


def of_reading(reading: Reading) -> Iterator[str]:
    """What is not kept, what is left out, and which clocks are wrong."""
    if reading.told is not None:
        yield reading.told
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in reading.problems:
        reasons[f"{reason}: left out"].append(name)
    for run in reading.runs[reading.runs.column("clock") != NONE]:
        reasons[f"{run.clock}: it stands at the commit's time"].append(run.name)
    for run in reading.runs[reading.runs.ahead]:
        reasons[f"its clock gives {words.day(run.time)} UTC, which is yet to come: it stands last"].append(run.name)
    reasons["a copy of another file: counted once"] += reading.copies
    yield from (f"{_named(names)}: {reason}" for reason, names in reasons.items() if names)


def of_runs(runs: Runs) -> Iterator[str]:
    """Two machines of one name."""
    machines: dict[str, set[str]] = defaultdict(set)
    for setup in runs.setups.values():
        if host := setup.conditions.get("host"):
            machines[host].add(f"{setup.conditions.get('cores')} cores of {setup.conditions.get('cpu')}")
    for host, several in sorted(machines.items()):
        if len(several) > 1:
            listed = formatting.listed(sorted(words.safe(machine) for machine in several))
            yield f"the host {words.safe(host)} is {len(several)} machines, each with series of its own: {listed}"


def of_groups(groups: Sequence[Group]) -> Iterator[str]:
    """Variants that end where another begins."""
    renamed: dict[tuple[str, str], int] = defaultdict(int)
    for group in groups:
        places = {name: _places(group, name) for name in group.variants}
        for old, ended in places.items():
            for new, begun in places.items():
                if ended[1] + 1 == begun[0] and min(ended[1] - ended[0], begun[1] - begun[0]) >= ENOUGH - 1:
                    renamed[old, new] += 1
    for (old, new), count in renamed.items():
        first, second = words.safe(old), words.safe(new)
        where = f"{first} ends where {second} begins, in {words.count(count, 'case')}"
        yield f"{where}: if it was renamed, --rename {first}={second} makes one series of both"


def distinct(runs: Runs) -> tuple[Runs, list[str]]:
    """Runs without those that are equal in time and figures to an earlier one; and a notice of these."""
    cases, _ = runs.numbered(lambda setup: (setup.case, setup.machine))
    order = np.lexsort((runs.times, cases))  # those of a case at a time are neighbours, in their order
    alike = (np.diff(cases[order]) == 0) & (np.diff(runs.times[order]) == 0)
    again = np.zeros(len(runs), bool)
    seen: list[Run] = []
    for place in np.flatnonzero(alike):
        run, other = runs[int(order[place + 1])], runs[int(order[place])]
        seen = [*seen, other] if place and alike[place - 1] else [other]
        again[order[place + 1]] = any(other.results == run.results for other in seen)
    if not again.any():
        return runs, []
    return runs[~again], [f"{_named(runs.names[again].tolist())}: the same run as in another file: counted once"]


def _places(group: Group, name: str) -> tuple[int, int]:
    held = np.flatnonzero(group.rows[name] != NONE)
    return int(held[0]), int(held[-1])


def _named(names: Sequence[str]) -> str:
    """The first name, and how many more there are."""
    return formatting.some([words.safe(name, 200) for name in names], 1)
