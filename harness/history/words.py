"""Words: what changes are called for people, in the terms of harness.diff, and names made safe to show."""

from __future__ import annotations

from datetime import datetime, timezone

from harness.history.changes import Change
from harness.history.record import DEVICE, DEVICE_RELATIVE, LATENCY, RELATIVE
from harness.report.formatting import change
from harness.results.statistics import Interval

LONGEST = 60  # characters of a name

BROKEN, SLOWER, FASTER, FIXED = "broken", "slower", "faster", "fixed"
OUTCOMES = (BROKEN, SLOWER, FASTER, FIXED)  # the worst first
MEASURED = {
    RELATIVE: "latency beside {beside}",
    DEVICE_RELATIVE: "device time beside {beside}",
    DEVICE: "device time",
    LATENCY: "latency",
}


def outcome(change: Change) -> str:
    """`broken`, `slower`, `faster` or `fixed`."""
    if change.ratio is None:
        return BROKEN if change.broken else FIXED
    return SLOWER if change.ratio.value > 1 else FASTER


def measured(change: Change) -> str:
    """`latency beside naive`: what changed; empty for a status."""
    base = change.group.baseline
    beside = "the other variants" if change.variant == base else safe(base)
    return MEASURED.get(change.measure, "").format(beside=beside)


def size(ratio: Interval | None) -> str:
    """`+10.1% (+9.0% to +11.2%)`."""
    return f"{change(ratio.value)} ({change(ratio.low)} to {change(ratio.high)})" if ratio else ""


def day(time: float) -> str:
    """`2026-01-30 03:00`, in UTC."""
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%d %H:%M")


def count(number: int, what: str) -> str:
    """`1 case`, `1,000 cases`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def safe(text: str, longest: int = LONGEST) -> str:
    """A name in one line of printable characters, its middle left out if it is long."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    if len(line) <= longest:
        return line
    return f"{line[: (longest - 1) * 2 // 3].rstrip()}…{line[len(line) - (longest - 1) // 3 :].lstrip()}"
