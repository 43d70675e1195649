"""Swept keys: the keys that a sweep varies, from its rows, and the rows grouped by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.results import columns
from harness.results.column import Row


@dataclass(frozen=True)
class SweptKey:
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
        """The position of a row that has one: the number itself, or the index among the values."""
        value = row[self.column]
        return float(value) if self.numeric else float(self.values.index(value))

    def has(self, row: Row) -> bool:
        """Whether a row has a position."""
        return row.get(self.column) is not None


@dataclass(frozen=True)
class SweptRows:
    """The rows of all cases of a sweep: the source of its table, sentences, charts and page.

    They are those of comparison.csv, typed (a cell that is not known is None), in the order of the sweep.
    """

    rows: Sequence[Row]

    @cached_property
    def keys(self) -> list[SweptKey]:
        """The keys in which the rows' cases differ, numeric ones first."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        keys = []
        for name in filter(columns.swept, names):
            values = list(dict.fromkeys(row[name] for row in self.rows if row.get(name) is not None))
            if len(values) > 1:
                keys.append(SweptKey(name, tuple(sorted(values) if all(map(_number, values)) else values)))
        return sorted(keys, key=lambda key: not key.numeric)

    @cached_property
    def variants(self) -> list[str]:
        """The names of all variants."""
        return list(dict.fromkeys(row["variant"] for row in self.rows))

    @cached_property
    def baselines(self) -> Mapping[str, str]:
        """The baseline of each operation."""
        return {row["op"]: row["variant"] for row in self.rows if row["verdict"] == "baseline"}

    @cached_property
    def title(self) -> str:
        """The values that all cases share, then the swept keys: `rmsnorm rows=4 · cpu · hidden × dtype`."""
        swept = {key.column for key in self.keys}
        dims = [name for name in (self.rows[0] if self.rows else {}) if name.startswith("dim_")]
        same = []
        for name in ("op", *dims, "dtype", "mode", "device"):
            values = {row.get(name) for row in self.rows} - {None}
            if name not in swept and values:
                label = f"{name.removeprefix('dim_')}=" if name in dims else ""
                same.append(f"{label}{values.pop()}")
        return " · ".join([*same, " × ".join(key.label for key in self.keys)] if self.keys else same)


def groups(rows: Sequence[Row], keys: Sequence[SweptKey]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by their values of these keys, in the keys' order; a row without such a value is in none."""
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        values = tuple(row.get(key.column) for key in keys)
        if None not in values:
            parts.setdefault(values, []).append(row)
    order = [{value: index for index, value in enumerate(key.values)} for key in keys]

    def position(values: tuple[Any, ...]) -> list[int]:
        return [indices[value] for indices, value in zip(order, values, strict=True)]

    return {values: parts[values] for values in sorted(parts, key=position)}


def named(keys: Sequence[SweptKey], values: Sequence[Any]) -> str:
    """`rows=4 dtype=bfloat16`."""
    return " ".join(f"{key.label}={value}" for key, value in zip(keys, values, strict=True))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
