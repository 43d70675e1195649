"""Column: what is said of a column of a CSV once, and how its cells are written and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]  # values by column name; None if not known
Kind = type[str] | type[int] | type[float] | type[bool]


@dataclass(frozen=True)
class Column:
    """A column: the type, meaning and source of its values.

    `value` derives it from the row's source, for comparison.csv a harness.results.entry.Entry. Without it, a column
    with a `probe` holds what the probe returned. A probe is named as `package.module:function`. It is called once, in
    the first measuring process after the variant's profile, as `probe(call, device)`: `call()` is one call of the
    variant, `device` the harness.devices.base.Device. It returns a value of the column's kind, or None.
    """

    name: str
    kind: Kind
    meaning: str  # in Markdown
    value: Callable[[Any], Any] | None = None
    unit: str = ""
    header: str = ""  # in tables for people
    table: str = ""  # title of the table that shows it to people, next to the variant
    swept: bool = False  # whether it distinguishes cases of a sweep
    probe: str | None = None

    def of(self, source: Any) -> Any:
        """The value in the row of a source."""
        return source.measurement.probed.get(self.name) if self.value is None else self.value(source)

    def read(self, cell: str) -> Any:
        """The value in a cell of a CSV; raises ValueError if that is not of the column's kind."""
        if not cell:
            return None
        if self.kind is bool:
            return {"True": True, "False": False}[cell]
        return self.kind(cell)

    def accepts(self, value: Any) -> bool:
        """Whether a probe may return the value."""
        if value is None or isinstance(value, bool):
            return value is None or self.kind is bool
        return isinstance(value, (int, float) if self.kind is float else self.kind)
