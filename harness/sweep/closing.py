"""Closing: what is said when a sweep has ended, of its own accord or not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.comparison import Row
from harness.report import cells, terminal
from harness.report.cells import Table
from harness.sweep import gathering
from harness.sweep.gathering import Sweep

INTERRUPTED = 130
MOST_ROWS = 300  # in the terminal; sweep.csv has them all


def close(folder: Path, status: int) -> int:
    """Gathers the sweep, shows its table on stdout and what went wrong on stderr; returns the exit status.

    `status` is what the program would exit with for other reasons than its cases.
    """
    sweep = gathering.gather(folder)
    show(sweep)
    told = gathering.failures([case for case in sweep.cases if case.started], folder)
    if told:
        print("\n".join([f"What went wrong ({len(told)}):", *(f"  {line}" for line in told)]), file=sys.stderr)
    done = sum(case.missing is None for case in sweep.cases)
    if status == INTERRUPTED or done < len(sweep.cases):
        start = "interrupted: " if status == INTERRUPTED else ""
        print(f"{start}{done} of {_count(len(sweep.cases), 'case')} finished", file=sys.stderr)
    if any(case.again for case in sweep.cases):
        print(f"To measure what is missing or failed: {sweep.plan.resuming(folder)}", file=sys.stderr)
    return max(status, sweep.status)


def show(sweep: Sweep) -> None:
    """Prints the sweep's table and the place of its files to stdout."""
    out = terminal.console()
    rows = sweep.rows
    terminal.show(out, table(sweep, rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        out.print(f"… {len(rows) - MOST_ROWS:,} more rows in {sweep.folder / gathering.FILE}", soft_wrap=True)
    out.print(f"Results: {sweep.folder}", markup=False, soft_wrap=True)


def table(sweep: Sweep, rows: list[Row]) -> Table:
    """A line for each variant of each case; what was swept stands once a case."""
    swept = list(dict.fromkeys(key for case in sweep.cases for key in case.planned.swept))
    values = {case.planned.folder: case.planned.swept for case in sweep.cases}
    columns: list[tuple[str, bool, list[str]]] = [
        (key.removeprefix("op.dims."), _numeric(column), _once(rows, column))
        for key in swept
        for column in [[values[row["case"]].get(key) for row in rows]]
    ]
    columns += [
        ("Variant", False, [row["variant"] for row in rows]),
        ("Latency", True, _by_case(rows, cells.with_interval)),
        ("Speed-up", True, [cells.ratio(row) for row in rows]),
        ("Verdict", False, [cells.verdict(row) for row in rows]),
    ]
    if any(row["device_time_us"] is not None for row in rows):
        columns.append(("Device time", True, _by_case(rows, lambda case: cells.times(case, "device_time_us"))))
    columns.append(("Self CPU time", True, _by_case(rows, lambda case: cells.times(case, "self_cpu_us"))))
    columns.append(("Operator calls", True, [cells.count(row["operator_calls"]) for row in rows]))
    lines = [list(line) for line in zip(*(texts for _, _, texts in columns), strict=True)]
    return Table(_title(sweep), [header for header, _, _ in columns], [right for _, right, _ in columns], lines)


def _title(sweep: Sweep) -> str:
    """What all cases share, then how many there are."""
    rows = sweep.rows
    shared = [str(rows[0][key]) for key in ("op", "dtype", "mode", "device") if len({row[key] for row in rows}) == 1]
    return " · ".join([*filter(lambda text: text != "None", shared), _count(len(sweep.cases), "case")])


def _once(rows: list[Row], column: list[Any]) -> list[str]:
    texts, before = [], None
    for row, value in zip(rows, column, strict=True):
        texts.append("" if row["case"] == before else str(value))
        before = row["case"]
    return texts


def _by_case(rows: list[Row], texts: Callable[[list[Row]], list[str]]) -> list[str]:
    """A column in which each case has a unit of its own: over a sweep they differ by orders of magnitude."""
    return [text for _, case in groupby(rows, lambda row: row["case"]) for text in texts(list(case))]


def _numeric(column: list[Any]) -> bool:
    return all(isinstance(value, (int, float)) for value in column)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
