"""The table: series.csv, a row for each figure of each variant in each run; its columns are declared here."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from harness.history.changes import STATUS, Change
from harness.history.record import MEASURES
from harness.history.series import Group
from harness.results import storage
from harness.results.measurement import OK

FILE = "series.csv"
UNKNOWN = (None, None, None)  # a figure
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
    measured = _written((_instant(run.time), run.commit) for run in group.runs)
    origins = _written((group.machine, run.name) for run in group.runs)
    states = cache(_cells)
    for variant in group.variants:
        described = _cells(group.case.op, variant, group.title)
        results = group.results(variant)
        measures = [measure for measure in MEASURES if len(group.series(variant, measure).places)]
        broken = any(result and result.status != OK for result in results)
        for measure in [*measures, *([STATUS] if broken else [])]:
            changed = {
                change.place: change for change in changes if (change.variant, change.measure) == (variant, measure)
            }
            for place, result in enumerate(results):
                if result is None:
                    continue
                change = changed.get(place)
                right = int(result.status == OK)
                figure = (right, None, None) if measure == STATUS else result.figures.get(measure, UNKNOWN)
                by = None if change is None else change.ratio.value if change.ratio else right
                cause, reason = (change.cause, change.reason) if change else (None, result.reason)
                state = states(by, cause, measure, result.status, reason)
                yield f"{described},{measured[place]},{_numbers(*figure)},{state},{origins[place]}\n"


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


def _numbers(value: float | None, low: float | None, high: float | None) -> str:
    if value is not None and low is not None and high is not None:  # three at once take half the time
        return f"{value:.7g},{low:.7g},{high:.7g}"
    return ",".join("" if each is None else f"{each:.7g}" for each in (value, low, high))


def _instant(time: float) -> str:
    return datetime.fromtimestamp(time, timezone.utc).isoformat(timespec="seconds")


def documentation() -> str:
    """The table of docs/history.md."""
    lines = [f"| `{name}` | {meaning} |" for name, meaning in COLUMNS.items()]
    return "\n".join(["| column | meaning |", "|---|---|", *lines])


if __name__ == "__main__":
    print(documentation())
