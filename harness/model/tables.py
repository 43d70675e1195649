"""Tables: a model's hot spots, levels, operators and decisions as texts for people."""

from __future__ import annotations

from harness.model.analysis import Analysis
from harness.model.decide import JOINED
from harness.model.groups import GAPS, HotSpots, Row
from harness.model.names import short
from harness.report import formatting
from harness.report.tables import Table
from harness.results.statistics import Interval

MOST_ROWS = 16
HEADERS = ["Group", "Share", "Time in a step", "Count", "Where", "Self CPU", "Shapes"]
RIGHT = [False, True, True, True, False, True, False]


def hotspots(spots: HotSpots, most: int | None = MOST_ROWS) -> Table:
    """The rows that share the step, the costliest first."""
    few = most is None or len(spots.rows) <= most
    shown = spots.rows if few else spots.rows[: (most or 0) - 1]
    lines = [_line(spots, row) for row in shown]
    rest = spots.rows[len(shown) :]
    if rest:
        share = formatting.percent(sum(row.share for row in rest))
        lines.append([f"… {len(rest)} more", share, formatting.time(sum(map(spots.cost, rest))), "", "", "", ""])
    return Table("Hot spots", HEADERS, RIGHT, lines)


def levels(spots: HotSpots) -> Table:
    """Every group, at all levels, the costliest first: these contain one another."""
    groups = [group for group in spots.groups.values() if group.share > 0]
    return Table("All levels", HEADERS, RIGHT, [_line(spots, spots.row(group)) for group in groups])


def _line(spots: HotSpots, row: Row) -> list[str]:
    return [
        row.group,
        formatting.percent(row.share),
        formatting.time(row.host_us if row.group == GAPS else spots.cost(row)),
        formatting.count(row.count),
        row.module,
        formatting.time(row.self_cpu_us),
        row.shapes,
    ]


def decisions(analysis: Analysis) -> Table:
    """A row for each replacement; the reasons are sentences."""
    lines = [
        [each.replacement, each.decision, gain(each.predicted), gain(each.measured), each.status, _few(each.group)]
        for each in analysis.decisions
    ]
    headers = ["Replacement", "Decision", "Predicted", "Measured", "Status", "Group"]
    return Table("Decisions", headers, [False, False, True, True, False, False], lines)


def _few(groups: str) -> str:
    """`a + b and 3 more`."""
    return formatting.some(groups.split(JOINED), 1, JOINED)


def cases(analysis: Analysis) -> Table:
    """What each group's fastest variant gains alone, and what a step would gain at most."""
    lines = []
    for measured in analysis.measured.values():
        if measured.comparison is None:
            continue
        rows = [row for row in measured.comparison.rows if row["verdict"] == "faster"]
        best = max(rows, key=lambda row: row["speedup"], default=None)
        bound = analysis.bound(measured.group)
        lines.append(
            [
                measured.group.name,
                formatting.latency(measured.comparison.baseline_row),
                best["variant"] if best else formatting.NOTHING,
                formatting.speedup(best) if best else formatting.NOTHING,
                formatting.NOTHING if bound is None else formatting.times_factor(bound),
            ]
        )
    headers = ["Group", "A call alone", "Fastest variant", "Speedup", "A step, if it cost nothing"]
    return Table("Groups alone", headers, [False, True, False, True, True], lines)


def operators(analysis: Analysis) -> Table:
    """The step's operators by who calls them, the costliest first."""
    rows = analysis.recording.step.operators
    timed = any(row.device_us for row in rows)
    headers = ["Operator", "Called by", "# Calls", "Self CPU", *(["Device time"] if timed else []), "Shapes", "Dtypes"]
    lines = [
        [
            row.operator,
            short(row.caller),
            formatting.count(row.calls),
            formatting.time(row.self_cpu_us),
            *([formatting.time(row.device_us)] if timed else []),
            row.shapes,
            row.dtypes,
        ]
        for row in rows
    ]
    right = [False, False, True, True, *([True] if timed else []), False, False]
    return Table("Operators", headers, right, lines)


def gain(interval: Interval | None) -> str:
    """`1.05× (1.04–1.06)`."""
    if interval is None:
        return formatting.NOTHING
    vague = formatting.vague(interval.value, interval.low, interval.high)
    between = f"({formatting.digits(interval.low, 3)}–{formatting.digits(interval.high, 3)})"
    return f"{formatting.times_factor(interval.value)} {formatting.UNKNOWN if vague else between}"
