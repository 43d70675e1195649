"""The table: series.csv, a row for each figure of each variant in each run; its columns are declared here."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.history.changes import STATUS, Change
from harness.history.record import MEASURES
from harness.history.runs import NONE
from harness.history.series import Group
from harness.results import storage
from harness.results.measurement import OK

FILE = "series.csv"
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


def write(folder: Path, groups: Sequence[Group], changes: Sequence[Change]) -> None:
    """Writes series.csv into a folder; an unknown value is an empty cell."""
    with storage.atomic(folder / FILE) as file:
        file.write(f"{_cells(*COLUMNS)}\n")
        for group in groups:
            file.write("".join(_lines(group, [change for change in changes if change.group is group])))


def _lines(group: Group, changes: Sequence[Change]) -> Iterator[str]:
    """The lines of a group, by variant, measure and time. Cells that lines share are written once for all of them."""
    runs = group.runs
    commits = map(runs.columns.text, runs.column("commit").tolist())
    measured = np.array(_written(zip(_instants(runs.times), commits, strict=True)), object)
    origins = np.array(_written((group.machine, name) for name in runs.names.tolist()), object)
    for variant, rows in group.rows.items():
        described = _cells(group.case.op, variant, group.title)
        places = np.flatnonzero(rows != NONE)
        statuses, reasons = group.texts(variant, "status"), group.texts(variant, "reason")
        measures = [measure for measure in MEASURES if len(group.series(variant, measure).places)]
        broken = not {*statuses} <= {OK, None}
        for measure in [*measures, *([STATUS] if broken else [])]:
            figures = np.full((len(runs), 3), np.nan)
            if measure == STATUS:
                figures[:, 0] = [status == OK for status in statuses]
            else:
                series = group.series(variant, measure)
                figures[series.places] = series.figures
            kinds = {each: _cells(None, None, measure, *each) for each in {*zip(statuses, reasons, strict=True)}}
            states = [kinds[each] for each in zip(statuses, reasons, strict=True)]
            for change in changes:
                if (change.variant, change.measure) == (variant, measure):
                    by = change.ratio.value if change.ratio else int(statuses[change.place] == OK)
                    states[change.place] = _cells(by, change.cause, measure, statuses[change.place], change.reason)
            held = zip(
                measured[places],
                _numbers(figures[places]),
                (states[place] for place in places),
                origins[places],
                strict=True,
            )
            for run, numbers, state, origin in held:
                yield f"{described},{run},{numbers},{state},{origin}\n"


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
