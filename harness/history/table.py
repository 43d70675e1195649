"""The table: series.csv, a row for each figure of each variant in each run; its columns are declared here."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
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
    "value": "in the unit of the measure; empty if the variant was not right, or not measured",
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
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_rows(groups, changes))


def _rows(groups: Sequence[Group], changes: Sequence[Change]) -> Iterator[Sequence[Any]]:
    """The rows, by case and machine, variant, measure and time; the values are in the order of COLUMNS."""
    changed = {(id(change.group), change.variant, change.measure, change.place): change for change in changes}
    for group in groups:
        times = [datetime.fromtimestamp(run.time, timezone.utc).isoformat(timespec="seconds") for run in group.runs]
        for variant in group.variants:
            results = group.results(variant)
            measures = [measure for measure in MEASURES if len(group.series(variant, measure).places)]
            broken = any(result and result.status != OK for result in results)
            for measure in [*measures, *([STATUS] if broken else [])]:
                for place, (run, result) in enumerate(zip(group.runs, results, strict=True)):
                    if result is None:
                        continue
                    change = changed.get((id(group), variant, measure, place))
                    right = int(result.status == OK)
                    figure = (right, None, None) if measure == STATUS else result.figures.get(measure, UNKNOWN)
                    by = None if change is None else change.ratio.value if change.ratio else right
                    cause, reason = (change.cause, change.reason) if change else (None, result.reason)
                    described = group.case.op, variant, group.title, times[place], run.commit
                    yield *described, *figure, by, cause, measure, result.status, reason, group.machine, run.name


def documentation() -> str:
    """The table of docs/history.md."""
    lines = [f"| `{name}` | {meaning} |" for name, meaning in COLUMNS.items()]
    return "\n".join(["| column | meaning |", "|---|---|", *lines])


if __name__ == "__main__":
    print(documentation())
