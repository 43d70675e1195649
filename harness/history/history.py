"""History: runs read, put into series, searched for changes, and these explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.configuration.errors import UsageError, unknown_key
from harness.history import causes, changes, findings, notices, reading, series, words
from harness.history.changes import Change
from harness.history.findings import Finding
from harness.history.reading import Reading
from harness.history.runs import Run, Runs
from harness.history.series import Group
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

    runs: Runs
    groups: Sequence[Group]
    changes: Sequence[Change]
    findings: Sequence[Finding]  # the worst first
    notices: Sequence[str]
    new: int  # files that were read for the first time
    branch: str | None = None  # that some of them stand in

    @property
    def newest(self) -> float:
        """The time of the last run that is not yet to come."""
        return float(self.runs.times[~self.runs.ahead].max())


def read(paths: Sequence[Path], branch: str | None, settings: Settings) -> tuple[Runs, list[str], int]:
    """The runs in folders and in a branch, notices of what is odd in them, and how many files were new.

    Raises UsageError if there are none.
    """
    found = reading.read(settings.store, paths, branch)
    told = list(notices.of_reading(found))
    runs, again = notices.distinct(found.runs.renamed(settings.renamed))
    told += [*again, *notices.of_runs(runs)]
    if not runs:
        raise UsageError(_nothing(paths, branch, found))
    return _chosen(runs, settings.where), told, found.new


def history(paths: Sequence[Path], branch: str | None, settings: Settings) -> History:
    """The history of all runs in folders and in a branch; raises UsageError if there are none."""
    runs, told, new = read(paths, branch, settings)
    return replace(of_runs(runs, told, new, settings), branch=branch)


def of_runs(runs: Runs, told: Sequence[str], new: int, settings: Settings) -> History:
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


def keys(runs: Runs) -> list[str]:
    """All names that a run has a value of."""
    described = ["op", "dtype", "mode", "device", "machine", "commit"]
    setups = runs.setups.values()
    dims = dict.fromkeys(name for setup in setups for name, _ in setup.case.dims)
    return [*described, *dims, *dict.fromkeys(name for setup in setups for name in setup.conditions)]


def _chosen(runs: Runs, where: Mapping[str, str]) -> Runs:
    for key, wanted in where.items():
        known = keys(runs)
        if key not in known:
            raise unknown_key("", key, known)
        shared = runs.column("setup"), runs.column("commit" if key == "commit" else "setup")
        _, first, which = np.unique(np.stack(shared), axis=1, return_index=True, return_inverse=True)
        values = [value(run, key) for run in runs[first]]
        runs = runs[np.array([found == wanted for found in values])[which.ravel()]]
        if not runs:
            there = formatting.some(sorted({words.safe(found) for found in values if found is not None}), NAMED)
            raise UsageError(f"--where {key}={wanted}: no such run; there are {there}")
    return runs


def _nothing(paths: Sequence[Path], branch: str | None, found: Reading) -> str:
    where = ", ".join([*map(str, paths), *([f"the branch {branch}"] if branch is not None else [])])
    left_out = f"; {found.problems[0][0]}: {found.problems[0][1]}" if found.problems else ""
    return f"{where}: no results of a run there{left_out}"
