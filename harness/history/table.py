"""The table: series.csv, a row for each figure of each variant in each run; its columns are declared here."""

from __future__ import annotations

import contextlib
import csv
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.history import kept
from harness.history.changes import STATUS, Change
from harness.history.kept import Kept, Portion
from harness.history.record import MEASURES
from harness.history.runs import NONE
from harness.history.series import Group
from harness.history.store import Store
from harness.results.measurement import OK

FILE = "series.csv"
CODE = kept.key(Path(__file__).read_bytes())  # lines that other code wrote are written again
PORTION = 128  # runs
COLUMNS = {
    "op": "the operation",
    "variant": "the variant",
    "case": "the case, with the settings that distinguish it from others of its op, dims, dtype, mode and device",
    "time": "when it was measured, in UTC; not before its commit",
    "commit": "of the repository in which the run was started",
    "value": "in the unit of the measure; empty if the variant was not right, was not measured, or lacked cores",
    "lo": "lower bound of its interval",
    "hi": "upper bound of its interval",
    "change": "at the first run of a new level: that over the level before, so that 1.1 is 10 % more; of `status` its "
    "new value",
    "cause": "of that change: `code`, `machine`, `method`, `environment` or `unclear`",
    "measure": "`relative`: latency relative to the baseline's, of the baseline to the median of the others'; "
    "`device_relative`: the same of device time; `device_time_us`, `latency_us`: as in comparison.csv; `status`: 1 if "
    "right, as declared, else 0, for variants that were not always",
    "status": "as in comparison.csv",
    "reason": "why it is not `ok`, or the reason of the cause",
    "machine": "CPU and cores, and the accelerator",
    "run": "the file that holds the run's results",
}


def write(folder: Path, groups: Sequence[Group], changes: Sequence[Change], kept_in: Path) -> None:
    """Writes series.csv into a folder; an unknown value is an empty cell.

    Lines that are as they were are copied from the former file; the store that the runs are from knows where they are.
    """
    path, before = folder / FILE, Kept()
    with contextlib.suppress(OSError, sqlite3.Error), Store(kept_in) as store:
        before = store.written(path)
    now = kept.write(path, _portions(groups, changes), before)
    with contextlib.suppress(OSError, sqlite3.Error), Store(kept_in) as store:
        store.keep_written(path, now)


def _portions(groups: Sequence[Group], changes: Sequence[Change]) -> Iterator[Portion]:
    """The header, and the lines by group, variant, measure and time."""
    yield kept.key(CODE), lambda: f"{_cells(*COLUMNS)}\n"
    for group in groups:
        moved = [change for change in changes if change.group is group]
        parts = [Part(group, slice(start, start + PORTION)) for start in range(0, len(group.runs), PORTION)]
        for variant, measure in _series(group):
            several = [change for change in moved if (change.variant, change.measure) == (variant, measure)]
            yield from (part.portion(variant, measure, several) for part in parts)


def _series(group: Group) -> Iterator[tuple[str, str]]:
    """The variants and measures that have lines: statuses are told of variants that were not always right."""
    for variant in group.variants:
        yield from ((variant, measure) for measure in MEASURES if len(group.series(variant, measure).places))
        if not group.statuses(variant) <= {OK, None}:
            yield variant, STATUS


class Part:
    """Neighbouring runs of a group. Cells that their lines share are written once for all of them."""

    def __init__(self, group: Group, places: slice):
        self.group = group
        self.places = places
        self.runs = group.runs[places]
        self.key = kept.key(CODE, group.machine, group.title, "\0".join(self.runs.names.tolist()))

    def portion(self, variant: str, measure: str, changes: Sequence[Change]) -> Portion:
        """The lines of a variant in a measure; the rows in the store say what a run measured."""
        known = {
            change.place - self.places.start: _change(change)
            for change in changes
            if self.places.start <= change.place < self.places.stop
        }
        rows = self.group.rows[variant][self.places]
        key = kept.key(self.key, variant, measure, repr(known), rows.tobytes())
        return key, lambda: self._text(variant, measure, known, rows)

    def _text(self, variant: str, measure: str, changes: Mapping[int, tuple[Any, str, str]], rows: np.ndarray) -> str:
        described = _cells(self.group.case.op, variant, self.group.title)
        places = np.flatnonzero(rows != NONE)
        columns = self.runs.columns
        results = columns.results[rows[places]]
        statuses, reasons = columns.named(results["status"]), columns.named(results["reason"])
        if measure == STATUS:
            figures = np.full((len(places), 3), np.nan)
            figures[:, 0] = [status == OK for status in statuses]
        else:
            figures = columns.figures[measure][rows[places]]
        lines = []
        write = cache(_cells)
        for place, status, reason, numbers in zip(places.tolist(), statuses, reasons, _numbers(figures), strict=True):
            by, cause, why = changes.get(place, (None, None, reason))
            state = write(by, cause, measure, status, why)
            lines.append(f"{described},{self._measured[place]},{numbers},{state},{self._origins[place]}\n")
        return "".join(lines)

    @cached_property
    def _measured(self) -> list[str]:
        commits = self.runs.columns.named(self.runs.column("commit"))
        return _written(zip(_instants(self.runs.times), commits, strict=True))

    @cached_property
    def _origins(self) -> list[str]:
        return _written((self.group.machine, name) for name in self.runs.names.tolist())


def _change(change: Change) -> tuple[Any, str, str]:
    """What a line says of a change: by how much, or the new status; its cause; and the reason of that."""
    return change.ratio.value if change.ratio else int(not change.broken), change.cause, change.reason


def _cells(*values: Any) -> str:
    """Cells of a line, with commas between them."""
    return _written([values])[0]


class _Lines(list[str]):
    """Lines as csv writes them."""

    write = list.append


def _written(rows: Iterable[Sequence[Any]]) -> list[str]:
    """The cells of each row, with commas between them."""
    lines = _Lines()
    csv.writer(lines, lineterminator="").writerows(rows)
    return lines


def _numbers(figures: np.ndarray) -> list[str]:
    """The cells of figures, of shape (rows, 3): seven digits of each, none of NaN."""
    text = "%.7g,%.7g,%.7g\n" * len(figures) % tuple(figures.ravel().tolist())  # all at once: a third of the time
    return text.replace("nan", "").splitlines()


def _instants(times: np.ndarray) -> list[str]:
    """Times in UTC: `2026-01-30T03:00:00+00:00`."""
    return [f"{text}+00:00" for text in np.datetime_as_string(np.floor(times).astype("datetime64[s]")).tolist()]


def documentation() -> str:
    """The table of docs/history.md."""
    lines = [f"| `{name}` | {meaning} |" for name, meaning in COLUMNS.items()]
    return "\n".join(["| column | meaning |", "|---|---|", *lines])


if __name__ == "__main__":
    print(documentation())
