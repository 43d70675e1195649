"""Cells: the tables that people read, as texts, the same for the terminal, Markdown and pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.results.comparison import Row

NOTHING = "n/a"
FEW_OPERATORS = 12
WIDE = 0.5  # the half-width from which an interval is written by its bounds
VAGUE = 10  # an interval that reaches so many times beyond its value, either way, tells nothing
UNKNOWN = "(unknown)"


@dataclass(frozen=True)
class Table:
    """Headers and rows of texts; `right` says which columns hold numbers."""

    title: str
    headers: list[str]
    right: list[bool]
    rows: list[list[str]]


def comparison_table(rows: Sequence[Row], title: str) -> Table:
    """The comparison: a row for each variant; the columns that matter most come first."""
    device = any(row["device_time_us"] is not None for row in rows)
    accelerator = rows[0]["device"] != "cpu"
    label = rows[0]["device"].upper()
    compiled = any(row["compile_s"] is not None for row in rows)
    columns: list[tuple[str, list[str]]] = [
        ("Variant", [row["variant"] for row in rows]),
        ("Latency", with_interval(rows)),
        ("Speedup", [ratio(row) for row in rows]),
        ("Verdict", [verdict(row) for row in rows]),
    ]
    if device or accelerator:
        columns.append((f"{label} time", times(rows, "device_time_us")))
    columns += [
        ("Self CPU time", times(rows, "self_cpu_us")),
        ("Operator calls", [count(row["operator_calls"]) for row in rows]),
    ]
    if any(row["device_executions"] is not None for row in rows):
        columns.append(("Device executions", [count(row["device_executions"]) for row in rows]))
    if any(row["peak_memory_bytes"] is not None for row in rows):
        columns.append(("Peak memory", [size(row["peak_memory_bytes"]) for row in rows]))
    if compiled:
        columns.append(("Compile", [compiled_in(row) for row in rows]))
    headers = [header for header, _ in columns]
    texts = [list(row) for row in zip(*(column for _, column in columns), strict=True)]
    return Table(title, headers, [header not in ("Variant", "Verdict") for header in headers], texts)


def operator_table(rows: Sequence[Row], variant: str, device: str, most: int | None = FEW_OPERATORS) -> Table | None:
    """One variant's operators, the costliest first; None where its profile has none."""
    mine = [row for row in rows if row["variant"] == variant]
    if not mine:
        return None
    timed = any(row["device_time_us"] is not None for row in mine)
    shown, rest = (mine, []) if most is None or len(mine) <= most else (mine[: most - 1], mine[most - 1 :])
    headers = ["Name", "# Calls", "Self CPU"]
    if timed:
        headers += [f"Self {device.upper()}", f"% {device.upper()}"]
    lines = [_operator(row["operator"], [row], timed) for row in shown]
    if rest:
        lines.append(_operator(f"… {len(rest)} more", rest, timed))
    total = _operator("Total", mine, timed)
    lines.append([total[0], "", *total[2:4], *([""] if timed else [])])
    return Table(f"{variant}: operators, per call", headers, [header != "Name" for header in headers], lines)


def _operator(name: str, rows: Sequence[Row], timed: bool) -> list[str]:
    """The cells of one operator, or of several summed up."""
    texts = [name, count(sum(row["calls"] for row in rows)), time(sum(row["self_cpu_us"] for row in rows))]
    if timed:
        texts.append(time(sum(row["device_time_us"] for row in rows), decimals=1))
        texts.append(f"{sum(row['device_pct'] for row in rows):.1f}%")
    return texts


@dataclass(frozen=True)
class Unit:
    """A unit of time that several numbers are written in."""

    name: str
    microseconds: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Unit:
        """The largest unit in which the largest value still has four digits or more."""
        largest = max((abs(value) for value in values if value is not None), default=0.0)
        if largest >= 1e7:
            return cls("s", 1e6)
        return cls("ms", 1e3) if largest >= 1e4 else cls("µs", 1.0)

    def number(self, us: float, decimals: int = 0) -> str:
        """The number alone, to four significant digits, and no fewer decimals than asked for."""
        return digits(us / self.microseconds, decimals=decimals)

    def text(self, us: float | None, decimals: int = 0) -> str:
        """The number with its unit."""
        return NOTHING if us is None else f"{self.number(us, decimals)} {self.name}"


def time(us: float | None, decimals: int = 0) -> str:
    """A time in the unit that suits it."""
    return Unit.of([us]).text(us, decimals)


def times(rows: Sequence[Row], key: str) -> list[str]:
    """A column of times, each in the unit that suits it."""
    return [time(row[key]) for row in rows]


def with_interval(rows: Sequence[Row]) -> list[str]:
    """Latencies with their intervals."""
    texts = []
    for row in rows:
        unit = Unit.of([row["latency_us"]])
        if row["latency_us"] is None:
            texts.append(NOTHING)
            continue
        low, high = row["latency_lo_us"], row["latency_hi_us"]
        half = (high - low) / 2 / row["latency_us"]
        span = f"±{percent(half)}" if half < WIDE else f"({unit.number(low)}–{unit.number(high)})"
        span = UNKNOWN if vague(row["latency_us"], low, high) else span
        texts.append(f"{unit.number(row['latency_us'])} {unit.name} {span}")
    return texts


def ratio(row: Row) -> str:
    """`1.05× (1.04–1.06)`."""
    if row["speedup"] is None:
        return NOTHING
    if row["verdict"] == "baseline":
        return "1.00×"
    value, low, high = (row[key] for key in ("speedup", "speedup_lo", "speedup_hi"))
    span = UNKNOWN if vague(value, low, high) else f"({digits(low, 3)}–{digits(high, 3)})"
    return f"{times_factor(value)} {span}"


def vague(value: float, low: float, high: float) -> bool:
    """Whether an interval is so wide that its bounds would only pretend to be known."""
    return high > VAGUE * value or low < value / VAGUE


def times_factor(value: float) -> str:
    """`1.05×`."""
    return f"{digits(value, 3)}×"


def verdict(row: Row) -> str:
    """The verdict where there is one, else the status."""
    return row["verdict"] or (row["status"] if row["status"] != "ok" else NOTHING)


def count(value: Any) -> str:
    """A whole number."""
    return NOTHING if value is None else f"{value:,}"


def compiled_in(row: Row) -> str:
    """`1.52 s`, with the graph breaks where there are some."""
    breaks = row["graph_breaks"]
    return duration(row["compile_s"]) + (f", {breaks} break{'s' if breaks > 1 else ''}" if breaks else "")


def duration(seconds: float | None) -> str:
    """Seconds, or milliseconds where they are few."""
    if seconds is None:
        return "–"
    return f"{digits(seconds, 3)} s" if seconds >= 0.1 else f"{digits(seconds * 1e3, 3)} ms"


def size(count: float | None) -> str:
    """Bytes in a binary unit."""
    if count is None:
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" else f"{digits(count, 3)} {unit}"


def percent(share: float) -> str:
    """A share as a percentage of one or two digits."""
    return f"{100 * share:.1f}%" if share < 0.0995 else f"{100 * share:,.0f}%"


def digits(value: float, significant: int = 4, decimals: int = 0) -> str:
    """A number to so many significant digits, with thousands separated, never in exponent form."""
    if value == 0:
        return "0"
    return f"{value:,.{max(significant - 1 - math.floor(math.log10(abs(value))), decimals)}f}"
