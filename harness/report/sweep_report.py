"""The report of a sweep: its charts and its page, from the rows of all its cases."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.report import page, terminal
from harness.report import swept_keys as axes
from harness.report import tables as cells
from harness.report.swept_keys import Axis
from harness.report.tables import Table
from harness.results import folder as results
from harness.results import sweep as sweeps
from harness.results.comparison import Row
from harness.results.folder import Document
from harness.results.sweep import Sweep

MOST_CROSSOVERS = 12
INTERRUPTED = 130
MOST_ROWS = 300  # in the terminal; sweep.csv has them all


@dataclass(frozen=True)
class Job:
    """One case of a sweep, as its page names it."""

    name: str  # what sets it apart from the others: `hidden=256 dtype=bfloat16`
    folder: str  # relative to the sweep's folder; its report.html is linked to
    missing: str | None = None  # why it has no rows; None: it has


def write(folder: Path, rows: Sequence[Row], jobs: Sequence[Job], command: str, config: Mapping[str, Any]) -> None:
    """Writes sweep.png, speedup.png (where two keys or more are swept), both as .svg too, and report.html.

    `rows` are those of comparison.csv of all cases, as numbers (a cell that is not known is None), in the order of
    the sweep; `jobs` are all cases that were asked for, those without rows too. `command` makes the sweep again, and
    `config` is the resolved configuration of its first case. What is swept is found from the rows: whatever differs
    between them among op, device, dtype, mode, the dims, and columns that comparison.csv does not have.
    """
    from harness.report.charts import style
    from harness.report.charts import sweep as charts

    found = axes.found(rows)
    title = title_of(rows, found)
    drawn = []
    if found:
        drawn.append(style.save(folder, "sweep", lambda: charts.draw_lines(rows, found, title)))
    if len(found) > 1:
        drawn.append(style.save(folder, "speedup", lambda: charts.draw_map(rows, found, title)))
    done = [job for job in jobs if job.missing is None]
    text = page.of_sweep(
        title,
        f"{len(done):,} of {len(jobs):,} cases have results",
        summary(rows, found),
        [f"{job.name}: {job.missing}" for job in jobs if job.missing],
        table(rows, found),
        [asdict(job) for job in jobs],
        drawn,
        command,
        config,
        _first(folder, done),
    )
    with results.atomic(folder / "report.html") as file:
        file.write(text)


def summary(rows: Sequence[Row], found: Sequence[Axis]) -> list[str]:
    """Each variant's verdicts over all cases, then where the better of two changes."""
    sentences = []
    baselines = set(axes.baselines(rows).values())
    for name in dict.fromkeys(row["variant"] for row in rows):
        mine = [row for row in rows if row["variant"] == name]
        if name in baselines and all(row["verdict"] in ("baseline", None) for row in mine):
            lost = [row for row in mine if row["verdict"] is None]
            if lost:
                sentences.append(f"{name}, the baseline, has no result in {len(lost):,} of {len(mine):,} cases.")
            continue
        sentences.append(_tally(name, mine))
    changes = crossovers(rows, found)
    sentences += changes[:MOST_CROSSOVERS]
    if len(changes) > MOST_CROSSOVERS:
        sentences.append(f"{len(changes) - MOST_CROSSOVERS} more crossovers are in the table.")
    return sentences


def crossovers(rows: Sequence[Row], found: Sequence[Axis]) -> list[str]:
    """Where along a numeric axis a variant turns from slower to faster or back; what is unclear decides nothing."""
    sentences = []
    names = axes.baselines(rows)
    for axis in (axis for axis in found if axis.numeric):
        others = [other for other in found if other is not axis]
        for values, part in axes.groups(rows, others).items():
            where = f" at {axes.named(others, values)}" if others else ""
            for name in dict.fromkeys(row["variant"] for row in part):
                mine = [row for row in part if row["variant"] == name and row["verdict"] in ("faster", "slower")]
                mine = sorted(filter(axis.has, mine), key=axis.at)
                sentences += [
                    f"{name} is {before['verdict']} than {names[before['op']]} up to {axis.label}="
                    f"{before[axis.column]} and {after['verdict']} from {axis.label}={after[axis.column]}{where}."
                    for before, after in itertools.pairwise(mine)
                    if before["verdict"] != after["verdict"]
                ]
    return sentences


def table(rows: Sequence[Row], found: Sequence[Axis]) -> Table:
    """A line for each variant of each case, each number in a unit of its own."""
    columns: list[tuple[str, bool, Callable[[Row], str]]] = [
        (axis.label, axis.numeric, lambda row, column=axis.column: _text(row.get(column)))  # type: ignore[misc]
        for axis in found
    ]
    columns += [
        ("Variant", False, lambda row: row["variant"]),
        ("Latency", True, lambda row: cells.with_interval([row])[0]),
        ("Speedup", True, cells.ratio),
        ("Verdict", False, cells.verdict),
    ]
    for key, name in (("device_time_us", "Device time"), ("self_cpu_us", "Self CPU time")):
        if any(row[key] is not None for row in rows):
            columns.append((name, True, lambda row, key=key: cells.times([row], key)[0]))  # type: ignore[misc]
    columns.append(("Operator calls", True, lambda row: cells.count(row["operator_calls"])))
    if any(row["compile_s"] is not None for row in rows):
        columns.append(("Compile", True, lambda row: cells.duration(row["compile_s"])))
    if any(row["reason"] for row in rows):
        columns.append(("Reason", False, lambda row: row["reason"] or ""))
    lines = [[text(row) for _, _, text in columns] for row in rows]
    return Table("Comparison", [name for name, _, _ in columns], [right for _, right, _ in columns], lines)


def _first(folder: Path, jobs: Sequence[Job]) -> Document | None:
    """What the first case left that can be read: it stands for the environment of all."""
    for job in jobs:
        try:
            return results.read(folder / job.folder)
        except UsageError:
            continue
    return None


def title_of(rows: Sequence[Row], found: Sequence[Axis]) -> str:
    """What is the same in all cases, then what was swept: `rmsnorm rows=4 · cpu · hidden × dtype`."""
    swept = {axis.column for axis in found}
    same = []
    for column in (
        "op",
        *(key for key in (rows[0] if rows else {}) if key.startswith("dim_")),
        "dtype",
        "mode",
        "device",
    ):
        values = {row.get(column) for row in rows} - {None}
        if column not in swept and values:
            name = f"{column.removeprefix('dim_')}=" if column.startswith("dim_") else ""
            same.append(f"{name}{values.pop()}")
    return f"{' · '.join(same)} · {' × '.join(axis.label for axis in found)}" if found else " · ".join(same)


def _tally(name: str, rows: Sequence[Row]) -> str:
    """`compiled is faster in 7 of 9 cases (1.02 to 2.41 times as fast), slower in 1 and unclear in 1.`"""
    parts = []
    for verdict in ("faster", "slower", "same", "unclear"):
        mine = [row for row in rows if row["verdict"] == verdict]
        if mine:
            ratios = [row["speedup"] for row in mine]
            low, high = (cells.digits(edge(ratios), 3) for edge in (min, max))
            span = f" ({low if low == high else f'{low} to {high}'} times as fast)"
            known = span if verdict in ("faster", "slower") else ""
            parts.append(f"{'as fast' if verdict == 'same' else verdict} in {len(mine):,}{known}")
    for status in ("degraded", "wrong", "failed", "skipped", "missing", "ok"):
        count = sum(row["status"] == status and row["verdict"] is None for row in rows)
        if count:
            parts.append(f"{'not ranked' if status == 'ok' else status} in {count:,}")
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{name} is {listed} of {len(rows):,} cases."


def _text(value: Any) -> str:
    return cells.NOTHING if value is None else str(value)


def gather(folder: Path) -> Sweep:
    """Reads a sweep's folder and writes sweep.csv, its charts and its page there.

    Raises UsageError where the folder is not a sweep's.
    """
    sweep = sweeps.read(folder)
    rows = sweep.rows
    results.write_table(folder / sweeps.FILE, sweep.columns, rows)
    jobs = [Job(case.planned.name, case.planned.folder, case.missing) for case in sweep.cases]
    write(folder, rows, jobs, sweep.plan.command, sweep.plan.config)
    return sweep


def close(folder: Path, status: int) -> int:
    """Gathers the sweep, shows its table on stdout and what went wrong on stderr; returns the exit status.

    `status` is what the program would exit with for other reasons than its cases.
    """
    sweep = gather(folder)
    show(sweep)
    told = sweeps.failures([case for case in sweep.cases if case.started], folder)
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
    shown = table(rows[:MOST_ROWS], found)
    terminal.show(out, replace(shown, title=title_of(rows, found), rows=_once(shown.rows, rows, len(found))))
    if len(rows) > MOST_ROWS:
        out.print(f"… {len(rows) - MOST_ROWS:,} more rows in {sweep.folder / sweeps.FILE}", soft_wrap=True)
    for sentence in summary(rows, found):
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
