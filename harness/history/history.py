"""History: runs read, put into series, searched for changes, and these explained."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.configuration.errors import UsageError, unknown_key
from harness.history import causes, changes, findings, notices, series, sources, words
from harness.history.changes import Change
from harness.history.findings import Finding
from harness.history.record import Run
from harness.history.series import Group
from harness.history.store import Reading, Store
from harness.report import formatting

NAMED = 10  # values in an error


@dataclass(frozen=True)
class Settings:
    """What is read, and what is claimed."""

    store: Path
    threshold: float  # the smallest relative change that is claimed
    confidence: float  # of intervals
    renamed: Mapping[str, str] = field(default_factory=dict)  # new names of variants by old ones
    where: Mapping[str, str] = field(default_factory=dict)  # what runs have to be equal in, by name


@dataclass(frozen=True)
class History:
    """Many runs over time."""

    runs: Sequence[Run]
    groups: Sequence[Group]
    changes: Sequence[Change]
    findings: Sequence[Finding]  # the worst first
    notices: Sequence[str]
    new: int  # files that were read for the first time
    branch: str | None = None  # that some of them stand in

    @property
    def newest(self) -> float:
        """The time of the last run."""
        return max(run.time for run in self.runs)


def read(paths: Sequence[Path], branch: str | None, settings: Settings) -> tuple[list[Run], list[str], int]:
    """The runs in folders and in a branch, notices of what is odd in them, and how many files were new.

    Raises UsageError if there are none.
    """
    listed = [*sources.in_paths(paths), *(sources.in_branch(branch) if branch is not None else [])]
    with Store(settings.store) as store:
        reading = store.read(list({source.name: source for source in listed}.values()))
        problem = [store.problem] if store.problem else []
    told = [*problem, *notices.of_reading(reading)]
    runs, again = notices.distinct(notices.renamed(reading.runs, settings.renamed))
    told += [*again, *notices.of_runs(runs)]
    if not runs:
        raise UsageError(_nothing(paths, branch, reading))
    return list(_chosen(runs, settings.where)), told, reading.new


def history(paths: Sequence[Path], branch: str | None, settings: Settings) -> History:
    """The history of all runs in folders and in a branch; raises UsageError if there are none."""
    runs, told, new = read(paths, branch, settings)
    return replace(of_runs(runs, told, new, settings), branch=branch)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's garbage collector, which would look through all runs again and again: none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def of_runs(runs: Sequence[Run], told: Sequence[str], new: int, settings: Settings) -> History:
    """The history of runs that were read."""
    groups = series.groups(runs)
    found: list[Change] = []
    for group in groups:
        beside = changes.of_group(group, settings.threshold, settings.confidence)
        for change in beside:
            causes.classify(change, beside, groups)
        found += beside
    return History(runs, groups, found, findings.collect(found), [*told, *notices.of_groups(groups)], new)


def value(run: Run, key: str) -> str | None:
    """What a run says under a name: `op`, `dtype`, `device`, `mode`, `machine`, `commit`, a dim, or a condition."""
    case = run.case
    known = {"op": case.op, "dtype": case.dtype, "mode": case.mode, "device": case.device, "machine": run.machine}
    known |= {name: str(size) for name, size in case.dims}
    return known[key] if key in known else run.commit if key == "commit" else run.conditions.get(key)


def keys(runs: Sequence[Run]) -> list[str]:
    """All names that a run has a value of."""
    described = ["op", "dtype", "mode", "device", "machine", "commit"]
    dims = dict.fromkeys(name for run in runs for name, _ in run.case.dims)
    conditions = {id(run.conditions): run.conditions for run in runs}
    return [*described, *dims, *dict.fromkeys(name for known in conditions.values() for name in known)]


def _chosen(runs: Sequence[Run], where: Mapping[str, str]) -> Iterator[Run]:
    for key, wanted in where.items():
        known = keys(runs)
        if key not in known:
            raise unknown_key("", key, known)
        values = {found for run in runs if (found := value(run, key)) is not None}
        runs = [run for run in runs if value(run, key) == wanted]
        if not runs:
            there = formatting.some(sorted(map(words.safe, values)), NAMED)
            raise UsageError(f"--where {key}={wanted}: no such run; there are {there}")
    yield from runs


def _nothing(paths: Sequence[Path], branch: str | None, reading: Reading) -> str:
    where = ", ".join([*map(str, paths), *([f"the branch {branch}"] if branch is not None else [])])
    left_out = f"; {reading.problems[0][0]}: {reading.problems[0][1]}" if reading.problems else ""
    return f"{where}: no results of a run there{left_out}"
