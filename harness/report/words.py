"""Words: what a comparison shows, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence

from harness.comparison import Row
from harness.report import cells
from harness.results import Document


def summary(document: Document, rows: Sequence[Row]) -> list[str]:
    """Sentences about the verdicts, the best first, then about what is not ranked."""
    baseline = document["case"]["baseline"]
    ranked = [row for row in rows if row["verdict"] in ("faster", "slower", "same", "unclear")]
    ranked.sort(key=lambda row: -row["speedup"])
    base = next(row for row in rows if row["variant"] == baseline)
    return [_sentence(row, base) for row in ranked] + [
        f"{row['variant']} is {row['status']}: {row['reason']}." for row in rows if row["status"] != "ok"
    ]


def warnings(document: Document) -> list[str]:
    """Troubles of the whole run, then of each variant."""
    notes = [
        f"{measurement['variant']}: {note}" for measurement in document["measurements"] for note in measurement["notes"]
    ]
    return [*document["warnings"], *notes]


def _sentence(row: Row, base: Row) -> str:
    name, other = row["variant"], base["variant"]
    low, high = cells.digits(row["speedup_lo"], 3), cells.digits(row["speedup_hi"], 3)
    if row["verdict"] == "faster":
        text = f"{name} is {cells.times_factor(row['speedup'])} as fast as {other} ({low} to {high})"
    elif row["verdict"] == "slower":
        text = f"{name} is slower than {other}: {cells.times_factor(row['speedup'])} its speed ({low} to {high})"
    elif row["verdict"] == "same":
        text = f"{name} is as fast as {other}, within ±{cells.percent(row['noise_floor'])} ({low} to {high})"
    else:
        text = f"{name} against {other} is unclear: {low} to {high} times its speed"
    calls, base_calls = row["operator_calls"], base["operator_calls"]
    if calls and base_calls and calls != base_calls:
        text += f"; {calls} operator call{'s' if calls > 1 else ''} where {other} makes {base_calls}"
    if row["break_even_calls"]:
        text += (
            f"; it took {cells.duration(row['compile_s'])} to compile{' from a warm cache' if row['compile_cached'] else ''}"
            f" and pays for itself after {row['break_even_calls']:,} calls"
        )
    return text + "."
