"""Tables: a model's hot spots and decisions as texts for people."""

from __future__ import annotations

from harness.model.analysis import Analysis
from harness.model.groups import HotSpots, Row
from harness.report import formatting
from harness.report.tables import Table
from harness.results.statistics import Interval

MOST_ROWS = 20


def hotspots(spots: HotSpots, most: int | None = MOST_ROWS) -> Table:
    """The rows that share the step, the costliest first."""
    rows = spots.rows if most is None else spots.rows[:most]
    lines = [_line(row) for row in rows]
    if len(rows) < len(spots.rows):
        rest = spots.rows[len(rows) :]
        us = sum(row.host_us for row in rest)
        lines.append(
            [f"… {len(rest)} more", "", "", formatting.time(us), formatting.percent(sum(r.share for r in rest)), "", ""]
        )
    headers = ["Group", "Share", "Time in a step", "Count", "Self CPU", "Where", "Shapes"]
    return Table("Hot spots", headers, [False, True, True, True, True, False, False], lines)


def _line(row: Row) -> list[str]:
    return [
        row.group,
        formatting.percent(row.share),
        formatting.time(_us(row)),
        formatting.count(row.count),
        formatting.time(row.self_cpu_us),
        row.module,
        row.shapes,
    ]


def _us(row: Row) -> float:
    return row.host_us if row.device_time_us is None else row.device_time_us


def decisions(analysis: Analysis) -> Table:
    """A row for each replacement."""
    lines = [
        [
            each.replacement,
            each.decision,
            _gain(each.predicted),
            _gain(each.measured),
            each.status,
            each.reason,
        ]
        for each in analysis.decisions
    ]
    headers = ["Replacement", "Decision", "Predicted", "Measured", "Status", "Reason"]
    return Table("Decisions", headers, [False, False, True, True, False, False], lines)


def _gain(interval: Interval | None) -> str:
    if interval is None:
        return formatting.NOTHING
    low, high = formatting.digits(interval.low, 3), formatting.digits(interval.high, 3)
    return f"{formatting.times_factor(interval.value)} ({low}–{high})"
