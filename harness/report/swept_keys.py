"""Axes: what a sweep varies, found from its rows, and the rows by what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.results.comparison import AFTER_DIMS, BEFORE_DIMS, Row

ORDINARY = ("op", "device", "dtype", "mode")  # columns that may be swept, besides dims and keys of the configuration
NEITHER = {*BEFORE_DIMS, *AFTER_DIMS, "case"} - {*ORDINARY}


@dataclass(frozen=True)
class Axis:
    """A swept key: its column and its values, numbers in order, others as the sweep had them."""

    column: str
    values: tuple[Any, ...]

    @property
    def label(self) -> str:
        """`hidden` for the column dim_hidden; a key of the configuration without what says where it stands."""
        return self.column.removeprefix("dim_").removeprefix("op.variants.").removeprefix("worker.")

    @cached_property
    def numeric(self) -> bool:
        """Whether the values are positions on a line."""
        return all(_number(value) for value in self.values)

    def at(self, row: Row) -> float:
        """The position of a row that has one: the number itself, or the place among the values."""
        value = row[self.column]
        return float(value) if self.numeric else float(self.values.index(value))

    def has(self, row: Row) -> bool:
        """Whether a row has a position."""
        return row.get(self.column) is not None


def found(rows: Sequence[Row]) -> list[Axis]:
    """Whatever differs between the rows' cases, numbers first."""
    columns = [column for column in dict.fromkeys(key for row in rows for key in row) if column not in NEITHER]
    axes = []
    for column in columns:
        values = list(dict.fromkeys(row[column] for row in rows if row.get(column) is not None))
        if len(values) > 1:
            axes.append(Axis(column, tuple(sorted(values) if all(map(_number, values)) else values)))
    return sorted(axes, key=lambda axis: not axis.numeric)


def groups(rows: Sequence[Row], axes: Sequence[Axis]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by their values on these axes, in the axes' order; a row without such a value is in none."""
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row.get(axis.column) for axis in axes)
        if None not in key:
            parts.setdefault(key, []).append(row)
    order = [{value: place for place, value in enumerate(axis.values)} for axis in axes]

    def place(key: tuple[Any, ...]) -> list[int]:
        return [places[value] for places, value in zip(order, key, strict=True)]

    return {key: parts[key] for key in sorted(parts, key=place)}


def named(axes: Sequence[Axis], values: Sequence[Any]) -> str:
    """`rows=4 dtype=bfloat16`."""
    return " ".join(f"{axis.label}={value}" for axis, value in zip(axes, values, strict=True))


def baselines(rows: Sequence[Row]) -> Mapping[str, str]:
    """The baseline of each operation."""
    return {row["op"]: row["variant"] for row in rows if row["verdict"] == "baseline"}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
