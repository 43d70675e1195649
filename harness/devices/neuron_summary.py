"""Figures of a capture, from neuron-explorer's summary as JSON or from its Parquet tables."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# A column, and its key in the summary, whose values are shares of one whatever their name says
PERCENT = {
    "tensor_engine_pct": "tensor_engine_active_time_percent",
    "vector_engine_pct": "vector_engine_active_time_percent",
    "scalar_engine_pct": "scalar_engine_active_time_percent",
    "gpsimd_engine_pct": "gpsimd_engine_active_time_percent",
    "dma_pct": "dma_active_time_percent",
    "mfu_pct": "mfu_estimated_percent",
}
AMOUNT = {"hbm_read_bytes": "hbm_read_bytes", "hbm_write_bytes": "hbm_write_bytes"}
COLUMNS = (*PERCENT, *AMOUNT)
THROTTLED = "throttled_pct"
ROUNDED = 1.01  # what a share of one may come to
BEGIN = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)

TABLES = SUMMARY, THROTTLING, METADATA = "Summary", "ThrottleSummary", "Metadata"
SCHEMA = "profile_schema_version"


def of_text(text: str) -> dict[str, float]:
    """The known figures in a program's output, by column; {} if there are none."""
    return next((found for value in _values(text) if (found := of_value(value))), {})


def of_value(value: Any) -> dict[str, float]:
    """The known figures of a summary, whether its root is a dict by core, a flat dict or a list (of rows).

    Over several cores shares are averaged and amounts added up; shares become percentages from 0 to 100. None are taken
    of a summary that has one above 1: its unit is not the documented one.
    """
    groups = list(_groups(value))
    shares = _known(groups, PERCENT)
    metrics = {}
    if max((max(values) for values in shares.values()), default=0.0) <= ROUNDED:
        metrics = {column: 100 * sum(values) / len(values) for column, values in shares.items()}
    return metrics | {column: sum(values) for column, values in _known(groups, AMOUNT).items()}


def of_throttling(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The percentage of the capture in which a core was throttled, of the core that was it longest; {} if not known.

    A core has a row for each type of throttling and may have one for all of them.
    """
    whole = [row for row in rows if row.get("throttle_type") == "all"]
    shares = [_number(row.get("throttle_active_time_percent")) for row in whole or rows]
    known = [share for share in shares if share is not None]
    return {THROTTLED: 100 * max(known)} if known and max(known) <= ROUNDED else {}


def lowest_limit(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The percentage of its capacity to which throttling held the core that it held lowest; None if not known."""
    limits = [_number(row.get("max_achievable_util_with_throttling_percent")) for row in rows]
    known = [limit for limit in limits if limit is not None]
    return 100 * min(known) if known else None


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of the table `name`, of all files below `folder` that hold it or a numbered part of it.

    Raises ImportError without pyarrow, and whatever that raises for a file that cannot be read.
    """
    from pyarrow import parquet  # optional, and slow to import

    files = sorted([*folder.rglob(f"{name}.parquet"), *folder.rglob(f"{name}_[0-9]*.parquet")])
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


def _values(text: str) -> Iterator[Any]:
    """The JSON objects and arrays in a program's output that begin a line: its log may stand between them."""
    decoder = json.JSONDecoder()
    reached = 0
    for begin in BEGIN.finditer(text):
        if begin.end() > reached:
            with contextlib.suppress(ValueError, RecursionError):
                value, reached = decoder.raw_decode(text, begin.end() - 1)
                yield value


def _known(groups: Sequence[Mapping[str, Any]], keys: Mapping[str, str]) -> dict[str, list[float]]:
    """By column, the figures that the groups have for its key."""
    found = {column: [_number(group.get(key)) for group in groups] for column, key in keys.items()}
    known = {column: [value for value in values if value is not None] for column, values in found.items()}
    return {column: values for column, values in known.items() if values}


def _groups(value: Any) -> Iterator[Mapping[str, Any]]:
    """The innermost mappings that hold a known key: one for each core."""
    known = {*PERCENT.values(), *AMOUNT.values()}
    if isinstance(value, Mapping):
        if known & value.keys():
            yield value
        else:
            for inner in value.values():
                yield from _groups(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _groups(inner)


def _number(value: Any) -> float | None:
    """A figure, none of which is negative; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
