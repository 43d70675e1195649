"""The report of a sweep: its charts and its page, from the rows of all its cases."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.report import drawing, formatting, page, rendering, swept_keys
from harness.report.swept_keys import SweptRows
from harness.report.tables import Table
from harness.results import storage, sweeps
from harness.results.column import Row
from harness.results.storage import Document
from harness.results.sweeps import Sweep

MOST_CROSSOVERS = 12
INTERRUPTED = 130
MOST_ROWS = 300  # in the terminal; sweep.csv has them all


@dataclass(frozen=True)
class Job:
    """One case of a sweep, as its page names it."""

    name: str  # what sets it apart from the others: `hidden=256 dtype=bfloat16`
    folder: str  # relative to the sweep's folder; its report.html is linked to
    missing: str | None = None  # why it has no rows; None if it has


@dataclass(frozen=True)
class SweepReport:
    """The content of a sweep's page."""

    folder: Path
    swept: SweptRows
    jobs: Sequence[Job]  # all planned cases, those without rows too
    command: str  # makes the sweep again
    config: Mapping[str, Any]  # the resolved configuration of the first case

    @property
    def subtitle(self) -> str:
        """How many cases have results."""
        done = sum(job.missing is None for job in self.jobs)
        return f"{done:,} of {len(self.jobs):,} cases have results"

    @property
    def sentences(self) -> list[str]:
        """Each variant's verdicts, and where they change."""
        return sentences(self.swept)

    @property
    def warnings(self) -> list[str]:
        """Why cases have no results."""
        return [f"{job.name}: {job.missing}" for job in self.jobs if job.missing]

    @cached_property
    def table(self) -> Table:
        """A line for each variant of each case."""
        return table(self.swept)

    @cached_property
    def first_document(self) -> Document | None:
        """The first results that can be read: their environment stands for that of all cases."""
        for job in self.jobs:
            try:
                if job.missing is None:
                    return storage.read(self.folder / job.folder)
            except UsageError:
                continue
        return None


def write(report: SweepReport, charts: Sequence[str] | None = None) -> None:
    """Writes the charts of these names, None for all, and report.html into the sweep's folder."""
    drawn = drawing.draw(report.folder, drawing.SWEEP, drawing.chosen(drawing.SWEEP, charts), report.swept)
    with storage.atomic(report.folder / "report.html") as file:
        file.write(page.of_sweep(report, drawn))


def sentences(swept: SweptRows) -> list[str]:
    """Each variant's verdicts over all cases, then where the better of two changes."""
    texts = []
    for name in swept.variants:
        rows = [row for row in swept.rows if row["variant"] == name]
        if name in swept.baselines.values() and all(row["verdict"] in ("baseline", None) for row in rows):
            lost = [row for row in rows if row["verdict"] is None]
            if lost:
                texts.append(f"{name}, the baseline, has no result in {len(lost):,} of {len(rows):,} cases.")
            continue
        texts.append(f"{name} is {_tally(rows)}.")
        if _on_device(rows):
            texts.append(f"On the device {name} is {_tally(rows, formatting.DEVICE)}.")
    changes = crossovers(swept)
    texts += changes[:MOST_CROSSOVERS]
    if len(changes) > MOST_CROSSOVERS:
        texts.append(f"{len(changes) - MOST_CROSSOVERS} more crossovers are in the table.")
    return texts


def crossovers(swept: SweptRows) -> list[str]:
    """Where along a numeric key a variant turns from slower to faster or back, ignoring unclear verdicts."""
    texts = []
    for key in (key for key in swept.keys if key.numeric):
        others = [other for other in swept.keys if other is not key]
        for values, part in swept_keys.groups(swept.rows, others).items():
            where = f" at {swept_keys.named(others, values)}" if others else ""
            for name in dict.fromkeys(row["variant"] for row in part):
                decided = [row for row in part if row["variant"] == name and row["verdict"] in ("faster", "slower")]
                texts += [
                    f"{name} is {before['verdict']} than {swept.baselines[before['op']]} up to {key.label}="
                    f"{before[key.column]} and {after['verdict']} from {key.label}={after[key.column]}{where}."
                    for before, after in itertools.pairwise(sorted(filter(key.has, decided), key=key.at))
                    if before["verdict"] != after["verdict"]
                ]
    return texts


def table(swept: SweptRows) -> Table:
    """A line for each variant of each case, each number in a unit of its own."""
    rows = swept.rows
    columns: list[tuple[str, bool, Callable[[Row], str]]] = [
        (key.label, key.numeric, lambda row, name=key.column: _text(row.get(name)))  # type: ignore[misc]
        for key in swept.keys
    ]
    columns += [
        ("Variant", False, lambda row: row["variant"]),
        ("Latency", True, formatting.latency),
        ("Speedup", True, formatting.speedup),
        ("Verdict", False, formatting.verdict),
    ]
    if any(row["device_time_us"] is not None for row in rows):
        columns.append(("Device time", True, formatting.device_time))
    if _on_device(rows):
        columns += [
            ("Device speedup", True, lambda row: formatting.speedup(row, formatting.DEVICE)),
            ("Device verdict", False, lambda row: formatting.verdict(row, formatting.DEVICE)),
        ]
    if any(row["self_cpu_us"] is not None for row in rows):
        columns.append(("Self CPU time", True, lambda row: formatting.time(row["self_cpu_us"])))
    columns.append(("Operator calls", True, lambda row: formatting.count(row["operator_calls"])))
    if any(row["compile_s"] is not None for row in rows):
        columns.append(("Compile", True, lambda row: formatting.duration(row["compile_s"])))
    if any(row["reason"] for row in rows):
        columns.append(("Reason", False, lambda row: row["reason"] or ""))
    lines = [[text(row) for _, _, text in columns] for row in rows]
    return Table("Comparison", [name for name, _, _ in columns], [right for _, right, _ in columns], lines)


def _on_device(rows: Sequence[Row]) -> bool:
    """Whether any of the rows has a verdict on its device time."""
    return any(row["device_verdict"] is not None for row in rows)


def _tally(rows: Sequence[Row], clock: str = formatting.HOST) -> str:
    """`faster in 7 of 9 cases (1.02 to 2.41 times as fast), slower in 1 and unclear in 1.`"""
    parts = []
    for verdict in ("faster", "slower", "same", "unclear"):
        alike = [row for row in rows if row[f"{clock}verdict"] == verdict]
        if alike:
            ratios = [row[f"{clock}speedup"] for row in alike]
            low = formatting.digits(min(ratios), 3)
            high = formatting.digits(max(ratios), 3)
            span = f" ({low if low == high else f'{low} to {high}'} times as fast)"
            known = span if verdict in ("faster", "slower") else ""
            parts.append(f"{'as fast' if verdict == 'same' else verdict} in {len(alike):,}{known}")
    for status in ("degraded", "wrong", "failed", "skipped", "missing", "ok"):
        count = sum(row["status"] == status and row[f"{clock}verdict"] is None for row in rows)
        if count:
            parts.append(f"{'not ranked' if status == 'ok' else status} in {count:,}")
    return f"{formatting.listed(parts)} of {len(rows):,} cases"


def _text(value: Any) -> str:
    return formatting.NOTHING if value is None else str(value)


def collect(folder: Path) -> Sweep:
    """Reads a sweep's folder and writes sweep.csv, its charts and its page there.

    Raises UsageError if the folder is not a sweep's.
    """
    sweep = sweeps.read(folder)
    rows = sweep.rows
    storage.write_table(folder / sweeps.FILE, sweep.columns, rows)
    jobs = [Job(case.planned.name, case.planned.folder, case.missing) for case in sweep.cases]
    report = SweepReport(folder, SweptRows(rows), jobs, sweep.plan.command, sweep.plan.config)
    write(report, (sweep.plan.config.get("report") or {}).get("charts"))
    return sweep


def close(folder: Path, status: int) -> int:
    """Collects the sweep, shows its table on stdout and what went wrong on stderr; returns the exit status.

    `status` is what the program would exit with for other reasons than its cases.
    """
    sweep = collect(folder)
    show(sweep)
    failures = sweeps.failures([case for case in sweep.cases if case.started], folder)
    if failures:
        print("\n".join(["What went wrong:", *(f"  {line}" for line in failures)]), file=sys.stderr)
    done = sum(case.missing is None for case in sweep.cases)
    if status == INTERRUPTED or done < len(sweep.cases):
        start = "interrupted: " if status == INTERRUPTED else ""
        print(f"{start}{done} of {_count(len(sweep.cases), 'case')} finished", file=sys.stderr)
    if any(case.again for case in sweep.cases):
        print(f"To measure what is missing or failed: {sweep.plan.resuming(folder)}", file=sys.stderr)
    return max(status, sweep.status)


def show(sweep: Sweep) -> None:
    """Prints the sweep's table, its sentences and the path of its files to stdout."""
    out = rendering.console()
    swept = SweptRows(sweep.rows)
    rows = swept.rows
    shown = table(swept)
    lines = _once(shown.rows[:MOST_ROWS], rows, len(swept.keys))
    rendering.show(out, replace(shown, title=swept.title, rows=lines))
    if len(rows) > MOST_ROWS:
        out.print(f"… {len(rows) - MOST_ROWS:,} more rows in {sweep.folder / sweeps.FILE}", soft_wrap=True)
    for sentence in sentences(swept):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print(f"Results: {sweep.folder}", markup=False, soft_wrap=True)


def _once(lines: list[list[str]], rows: Sequence[Row], swept: int) -> list[list[str]]:
    """The lines with the swept keys, their first cells, once a case."""
    before = [None, *(row["case"] for row in rows)]
    return [
        ["" if row["case"] == last and number < swept else cell for number, cell in enumerate(line)]
        for line, row, last in zip(lines, rows, before, strict=False)
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
