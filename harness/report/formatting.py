"""Formatting: numbers as people read them, with units and intervals; the same in tables, sentences and charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.errors import some as some
from harness.results.column import Column, Row

NOTHING = "n/a"
WIDE = 0.5  # the half-width from which an interval is written by its bounds
VAGUE = 10  # an interval that reaches this many times beyond its value, either way, is not shown
UNKNOWN = "(unknown)"
FACTOR = 10.0  # a change beyond this is written as a factor, not as a percentage
HOST, DEVICE = "", "device_"  # how the names of columns begin that hold a speedup or a verdict by one of the clocks


@dataclass(frozen=True)
class Unit:
    """A unit with its prefix, which several numbers may be written in."""

    name: str
    size: float  # in the unit without a prefix; in microseconds for times

    @classmethod
    def of(cls, family: Family, values: Sequence[float | None]) -> Unit:
        """The largest unit of a family in which the largest value is no less than the family's `minimum`."""
        largest = max((abs(value) for value in values if value is not None), default=0.0)
        fitting = [unit for unit in family.units if largest >= family.minimum * unit.size]
        return fitting[-1] if fitting else family.units[0]

    def number(self, value: float, decimals: int = 0, significant: int = 4) -> str:
        """The number alone."""
        return digits(value / self.size, significant, decimals)

    def text(self, value: float | None, decimals: int = 0, significant: int = 4) -> str:
        """The number with its unit."""
        return NOTHING if value is None else f"{self.number(value, decimals, significant)} {self.name}".rstrip()


@dataclass(frozen=True)
class Family:
    """Units that differ in their prefix, the smallest first."""

    units: tuple[Unit, ...]
    minimum: float = 1.0  # a value is written in a unit from this many of it on


TIME = Family((Unit("µs", 1.0), Unit("ms", 1e3), Unit("s", 1e6)), minimum=10.0)  # four digits and more
BINARY = Family(tuple(Unit(name, 1024.0**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))))


def per_second(unit: str) -> Family:
    """`GFLOP/s`: a rate with its SI prefix."""
    return Family(
        tuple(Unit(prefix + unit, 1000.0**power) for power, prefix in enumerate(("", "k", "M", "G", "T", "P")))
    )


def time_unit(values: Sequence[float | None]) -> Unit:
    """The unit in which the largest of these times, in microseconds, has four digits or more."""
    return Unit.of(TIME, values)


def time(us: float | None, decimals: int = 0, significant: int = 4) -> str:
    """A time in the unit that suits it."""
    return time_unit([us]).text(us, decimals, significant)


def duration(seconds: float | None) -> str:
    """Seconds, or milliseconds if they are few."""
    if seconds is None:
        return "–"  # nothing was to take any
    return f"{digits(seconds, 3)} s" if seconds >= 0.1 else f"{digits(seconds * 1e3, 3)} ms"


def size(count: float | None) -> str:
    """Bytes in a binary unit."""
    unit = Unit.of(BINARY, [count])
    return unit.text(count, significant=3) if unit.size > 1 or count is None else f"{count:,.0f} B"


def rate(value: float | None, unit: str = "") -> str:
    """`1.20 TFLOP/s`."""
    return Unit.of(per_second(unit), [value]).text(value, significant=3)


def percent(share: float) -> str:
    """A share as a percentage of one or two digits."""
    return f"{100 * share:.1f}%" if share < 0.0995 else f"{100 * share:,.0f}%"


def fraction(share: float) -> str:
    """A share as a percentage, to two digits if it is small."""
    return f"{digits(100 * share, 2)}%" if 0 < share < 0.001 else percent(share)


def count(value: Any) -> str:
    """A whole number."""
    return NOTHING if value is None else f"{value:,}"


def digits(value: float, significant: int = 4, decimals: int = 0) -> str:
    """A number to so many significant digits, with thousands separated, never in exponent form."""
    if value == 0:
        return "0"
    return f"{value:,.{max(significant - 1 - math.floor(math.log10(abs(value))), decimals)}f}"


def listed(texts: Sequence[str]) -> str:
    """`a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def cell(column: Column, value: Any) -> str:
    """A value as its column's kind and unit say."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    writers: dict[str, Callable[[float], str]] = {"µs": time, "s": duration, "B": size, "fraction": fraction}
    if column.unit == "%":
        return percent(value / 100)
    if column.unit in writers:
        return writers[column.unit](value)
    if column.unit.endswith("/s"):
        return rate(value, column.unit)
    return count(value) if isinstance(value, int) else f"{value:,.4g}"


def times_factor(value: float) -> str:
    """`1.05×`."""
    return f"{digits(value, 3)}×"


def change(ratio: float) -> str:
    """A ratio new / old as a percentage of change, or as a factor: `+12%`, `−1.5%`, `12.0×`."""
    if not 1 / FACTOR < ratio < FACTOR:
        return times_factor(ratio)
    share = percent(abs(ratio - 1))
    return share if share == percent(0) else f"{'+' if ratio > 1 else '−'}{share}"


def latency(row: Row, unit: Unit | None = None) -> str:
    """`12.50 µs ±1.2%`, in the unit that suits it or in a given one."""
    bounds = row["latency_lo_us"], row["latency_hi_us"]
    return _with_interval(row["latency_us"], *bounds, unit, row["samples"])


def device_time(row: Row, unit: Unit | None = None) -> str:
    """The same of the device time."""
    bounds = row["device_time_lo_us"], row["device_time_hi_us"]
    return _with_interval(row["device_time_us"], *bounds, unit, row["device_samples"])


def speedup(row: Row, clock: str = HOST) -> str:
    """`1.05× (1.04–1.06)`."""
    value = row[f"{clock}speedup"]
    if value is None:
        return NOTHING
    if row[f"{clock}verdict"] == "baseline":
        return "1.00×"
    unknown = vague_speedup(row, clock) or row[f"{clock}samples"] == 1
    span = UNKNOWN if unknown else f"({between(row, clock, '–')})"
    return f"{times_factor(value)} {span}"


def between(row: Row, clock: str = HOST, separator: str = " to ") -> str:
    """The bounds of a speedup: `1.04 to 1.06`."""
    return separator.join(digits(row[f"{clock}speedup_{bound}"], 3) for bound in ("lo", "hi"))


def vague_speedup(row: Row, clock: str = HOST) -> bool:
    """Whether a speedup's bounds are not worth showing."""
    return vague(row[f"{clock}speedup"], row[f"{clock}speedup_lo"], row[f"{clock}speedup_hi"])


def wide(value: float, low: float, high: float) -> bool:
    """Whether an interval is wider than its value: it is said in words, not drawn."""
    return (high - low) / 2 >= WIDE * value


def vague(value: float, low: float, high: float) -> bool:
    """Whether an interval is too wide for its bounds to be worth showing."""
    return high > VAGUE * value or low < value / VAGUE


def verdict(row: Row, clock: str = HOST) -> str:
    """The verdict if there is one, else the status; with the time that a clear one would take: `unclear (~9.4 s)`."""
    known = row[f"{clock}verdict"] or (row["status"] if row["status"] != "ok" else NOTHING)
    after = row["clear_after_s"] if clock == HOST else None
    return known if after is None else f"{known} (~{duration(after)})"


def _with_interval(
    value: float | None, low: float | None, high: float | None, unit: Unit | None, samples: int | None
) -> str:
    """A time with its interval; a single sample tells none."""
    unit = unit or time_unit([value])
    if value is None or low is None or high is None:  # results of earlier versions have device times without interval
        return unit.text(value)
    half = (high - low) / 2 / value
    span = f"({unit.number(low)}–{unit.number(high)})" if wide(value, low, high) else f"±{percent(half)}"
    return f"{unit.text(value)} {UNKNOWN if samples == 1 or vague(value, low, high) else span}"


def compiled_in(row: Row) -> str:
    """`1.52 s`, with the graph breaks if there are some."""
    breaks = row["graph_breaks"]
    return duration(row["compile_s"]) + (f", {breaks} break{'s' if breaks > 1 else ''}" if breaks else "")
