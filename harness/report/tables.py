"""Tables: what people read of a run, as texts, the same for the terminal, Markdown and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report import formatting
from harness.results import columns
from harness.results.column import Column, Row
from harness.results.comparison import Comparison

FEW_OPERATORS = 12
NAMES = ("Variant", "Fastest variant", "Replacement")  # headers of columns whose words are names, without a colour


@dataclass(frozen=True)
class Table:
    """Headers and rows of texts; `right` says which columns hold numbers."""

    title: str
    headers: list[str]
    right: list[bool]
    rows: list[list[str]]


def comparison_table(comparison: Comparison, title: str) -> Table:
    """The comparison: a row for each variant; the columns that matter most come first."""
    rows = comparison.rows
    device = comparison.case["device"]

    def known(name: str) -> bool:
        return any(row[name] is not None for row in rows)

    texts: list[tuple[str, list[str]]] = [
        ("Variant", [row["variant"] for row in rows]),
        ("Latency", [formatting.latency(row) for row in rows]),
        ("Speedup", [formatting.speedup(row) for row in rows]),
        ("Verdict", [formatting.verdict(row) for row in rows]),
    ]
    if comparison.accelerator or known("device_time_us"):
        texts.append((f"{device.upper()} time", [formatting.device_time(row) for row in rows]))
    if known("device_verdict"):
        texts += [
            (f"{device.upper()} speedup", [formatting.speedup(row, formatting.DEVICE) for row in rows]),
            (f"{device.upper()} verdict", [formatting.verdict(row, formatting.DEVICE) for row in rows]),
        ]
    for name in ("self_cpu_us", "operator_calls", "peak_memory_bytes"):
        column = columns.find(name)
        if column and (known(name) or name in ("self_cpu_us", "operator_calls")):
            texts.append((column.header, [formatting.cell(column, row[name]) for row in rows]))
    if known("compile_s"):
        texts.append(("Compile", [formatting.compiled_in(row) for row in rows]))
    headers = [header for header, _ in texts]
    lines = [list(line) for line in zip(*(column for _, column in texts), strict=True)]
    return Table(title, headers, [not header.endswith(("Variant", "erdict")) for header in headers], lines)


def operator_table(comparison: Comparison, variant: str, most: int | None = FEW_OPERATORS) -> Table | None:
    """One variant's operators, the costliest first; None if its profile has none."""
    rows = comparison.operators_of(variant)
    if not rows:
        return None
    device = comparison.case["device"].upper()
    timed = any(row["device_time_us"] is not None for row in rows)
    shown, rest = (rows, []) if most is None or len(rows) <= most else (rows[: most - 1], rows[most - 1 :])
    headers = ["Name", "# Calls", "Self CPU"]
    if timed:
        headers += [f"Self {device}", f"% {device}"]
    lines = [_operator(row["operator"], [row], timed) for row in shown]
    if rest:
        lines.append(_operator(f"… {len(rest)} more", rest, timed))
    total = _operator("Total", rows, timed)
    lines.append([total[0], "", *total[2:4], *([""] if timed else [])])
    return Table(f"{variant}: operators, per call", headers, [header != "Name" for header in headers], lines)


def operator_tables(comparison: Comparison, most: int | None = FEW_OPERATORS) -> list[Table]:
    """One for each variant that has operators."""
    tables = [operator_table(comparison, name, most) for name in comparison.entries]
    return [table for table in tables if table is not None]


def declared_tables(comparison: Comparison, titles: Sequence[str] | None = None) -> list[Table]:
    """The tables that columns are declared to stand in, of these titles; without columns that nothing is known of."""
    tables = [_declared(comparison, title) for title in (columns.tables() if titles is None else titles)]
    return [table for table in tables if table is not None]


def _declared(comparison: Comparison, title: str) -> Table | None:
    def known(rows: Sequence[Row], column: Column) -> bool:
        return any(row[column.name] is not None for row in rows)

    shown = [column for column in columns.shown_in(title) if known(comparison.rows, column)]
    rows = [row for row in comparison.rows if any(row[column.name] is not None for column in shown)]
    if title == columns.TIMELINE and not any(row["device_busy_us"] is not None for row in rows):
        return None  # without a device's own timeline the other columns say nothing new
    if not rows:
        return None
    headers = ["Variant", *(column.header or column.name for column in shown)]
    lines = [[row["variant"], *(formatting.cell(column, row[column.name]) for column in shown)] for row in rows]
    return Table(title, headers, [False, *(column.kind in (int, float) for column in shown)], lines)


def _operator(name: str, rows: Sequence[Row], timed: bool) -> list[str]:
    """The cells of one operator, or the sums over several."""
    calls = formatting.count(sum(row["calls"] for row in rows))
    texts = [name, calls, formatting.time(sum(row["self_cpu_us"] for row in rows))]
    if timed:
        texts.append(formatting.time(sum(row["device_time_us"] for row in rows), decimals=1))
        texts.append(f"{sum(row['device_pct'] for row in rows):.1f}%")
    return texts
