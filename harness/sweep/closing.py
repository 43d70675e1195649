"""Closing: what is said when a sweep has ended, of its own accord or not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from harness.comparison import Row
from harness.report import axes, terminal
from harness.report import sweep as report
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
    """Prints the sweep's table, its sentences and the place of its files to stdout."""
    out = terminal.console()
    rows = sweep.rows
    found = axes.found(rows)
    table = report.table(rows[:MOST_ROWS], found)
    terminal.show(out, replace(table, title=report.title_of(rows, found), rows=_once(table.rows, rows, len(found))))
    if len(rows) > MOST_ROWS:
        out.print(f"… {len(rows) - MOST_ROWS:,} more rows in {sweep.folder / gathering.FILE}", soft_wrap=True)
    for sentence in report.summary(rows, found):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print(f"Results: {sweep.folder}", markup=False, soft_wrap=True)


def _once(lines: list[list[str]], rows: list[Row], swept: int) -> list[list[str]]:
    """The lines with what was swept, their first cells, said once a case."""
    before = [None, *(row["case"] for row in rows)]
    return [
        ["" if row["case"] == last and number < swept else cell for number, cell in enumerate(line)]
        for line, row, last in zip(lines, rows, before, strict=False)
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
