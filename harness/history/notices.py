"""Notices: what is odd in the runs of a history, each told and none of it the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from harness.history import words
from harness.history.record import Run
from harness.history.series import Group
from harness.history.store import Reading
from harness.report import formatting

ENOUGH = 3  # runs that a variant needs on its side to pass for a renamed one


def of_reading(reading: Reading) -> Iterator[str]:
    """What is left out, and which clocks are wrong."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in reading.problems:
        reasons[f"{reason}: left out"].append(name)
    for run in reading.runs:
        if run.clock is not None:
            reasons[f"{run.clock}: it stands at the commit's time"].append(run.name)
    reasons["a copy of another file: counted once"] += reading.copies
    yield from (f"{_named(names)}: {reason}" for reason, names in reasons.items() if names)


def of_runs(runs: Sequence[Run]) -> Iterator[str]:
    """Two machines of one name."""
    machines: dict[str, set[str]] = defaultdict(set)
    for conditions in {id(run.setup): run.conditions for run in runs}.values():
        if host := conditions.get("host"):
            machines[host].add(f"{conditions.get('cores')} cores of {conditions.get('cpu')}")
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


def distinct(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Runs without those that are equal in time and figures to an earlier one; and a notice of these."""
    seen: dict[tuple, list[Run]] = defaultdict(list)
    kept: list[Run] = []
    again: list[Run] = []
    for run in runs:
        alike = seen[run.case, run.machine, run.time]
        (again if any(other.results == run.results for other in alike) else kept).append(run)
        alike.append(run)
    told = f"{_named([run.name for run in again])}: the same run as in another file: counted once" if again else None
    return kept, [told] if told else []


def renamed(runs: Sequence[Run], names: Mapping[str, str]) -> list[Run]:
    """Runs in which variants have their new names; one that holds both names keeps both."""
    return [run.renamed(names) for run in runs] if names else list(runs)


def _places(group: Group, name: str) -> tuple[int, int]:
    held = [result is not None for result in group.results(name)]
    return held.index(True), len(held) - 1 - held[::-1].index(True)


def _named(names: Sequence[str]) -> str:
    """The first name, and how many more there are."""
    return formatting.some([words.safe(name, 200) for name in names], 1)
