"""Causes: what the time of a call goes to, and why the verdicts on the device and in wall time differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.report import formatting
from harness.results.column import Row
from harness.results.entry import Entry

NONE = (0.0, "")  # no part
LEAST = 0.05  # a cause that makes less of a difference than this explains nothing
NEAR = 0.5  # of the difference that the first cause makes: another that makes as much is told as well


@dataclass(frozen=True)
class Parts:
    """Where the latency of a call goes, in µs."""

    busy: float  # the device works
    gaps: float  # it stands idle between executions although the host has given it the next one
    dispatch: float  # all else: the host has given it nothing


def parts(entry: Entry, row: Row) -> Parts | None:
    """The parts of a variant's latency; None if they are not known, or if the device is busy for longer than that.

    The device's own times are those of profiled calls, and so are not stretched by what the profiler costs the host.
    """
    latency, busy = row["latency_us"], row["device_busy_us"]
    if latency is None or busy is None:
        return None
    devices = _devices(entry)
    busy, gaps = busy / devices, max(row["device_gap_us"] - (row["device_wait_us"] or 0.0), 0.0) / devices
    return None if busy > latency else Parts(busy, min(gaps, latency - busy), max(latency - busy - gaps, 0.0))


def disagreement(entry: Entry, row: Row, base: Row) -> list[str]:
    """`On the device it is 3.10 times as fast (3.05 to 3.15), in wall time the same: 92% of a call is dispatch.`

    Nothing if the two verdicts agree, or if one of them is not known.
    """
    device, wall = row["device_verdict"], row["verdict"]
    if device is None or wall is None or device == wall:
        return []
    factor = f"{formatting.digits(row['device_speedup'], 3)} times as fast"
    words = {"faster": "faster", "slower": "slower", "same": "the same", "unclear": "not clearly faster or slower"}
    figures = {**words, "faster": factor, "slower": f"slower, {factor}"}
    vague = formatting.vague_speedup(row, formatting.DEVICE)
    known = "" if vague else f" ({formatting.between(row, formatting.DEVICE)})"
    why = "device time scatters between processes" if device == "unclear" else _why(entry, row, base)
    return [f"On the device it is {figures[device]}{known}, in wall time {words[wall]}: {why}."]


def _why(entry: Entry, row: Row, base: Row) -> str:
    """What the two clocks see differently, as far as it was seen of the variant and of its baseline.

    The logarithms of the two speedups differ by those of latency over device time, the baseline's and the variant's. Of
    the causes that these consist of, it is the one of which they have the most unequal parts, and any that comes near
    it; never one that, by itself, would have made the speedups differ the other way round.
    """
    baseline = entry.comparison.baseline
    mine, theirs = _causes(entry, row, ""), _causes(baseline, base, f" of {baseline.name}")
    sign = math.copysign(1.0, math.log(row["device_speedup"] / row["speedup"]))
    both = [(mine.get(name, NONE), theirs.get(name, NONE)) for name in {**mine, **theirs}]
    unequal = sorted(
        ((sign * (own[0] - other[0]), max(own, other, key=lambda part: abs(part[0]))[1]) for own, other in both),
        reverse=True,
    )
    least = max(math.log1p(LEAST), NEAR * unequal[0][0]) if unequal else 0.0
    seen = [text for difference, text in unequal if difference >= least]
    scatter = ["wall time scatters between processes"] if row["verdict"] == "unclear" else []
    return formatting.listed(scatter + seen or ["nothing that was seen says why"])


def _causes(entry: Entry, row: Row, whose: str) -> dict[str, tuple[float, str]]:
    """By cause, its part of the logarithm of latency over device time, and a clause that says it."""
    found = {}
    latency, throttled = row["latency_us"], (row["throttled_pct"] or 0.0) / 100
    busy = (row["device_busy_us"] or 0.0) / _devices(entry)
    if throttled:  # a throttled device works at about half its speed
        text = f"the device was throttled for {formatting.percent(throttled)} of the profile{whose}"
        found["throttling"] = (math.log(1 - throttled / 2), text)
    known = parts(entry, row)
    if known is not None and 0 < busy < latency:
        stretch = math.log(latency / busy) / (latency - busy)
        gaps, dispatch = (formatting.percent(part / latency) for part in (known.gaps, known.dispatch))
        first = _first_calls(entry)
        found["dispatch"] = (stretch * known.dispatch, f"{dispatch} of a call{whose} is dispatch{first}")
        found["gaps"] = (stretch * known.gaps, f"{gaps} of a call{whose} is gaps between executions")
    elif latency and busy > latency:
        paused, steady = (formatting.time(us, significant=3) for us in (busy, latency))
        text = f"the device is throttled after a pause: {paused} in a profiled call{whose}, {steady} in calls in a row"
        found["throttling"] = min(found.get("throttling", NONE), (math.log(latency / busy), text))
    return found


def _first_calls(entry: Entry) -> str:
    """What else than dispatch wall time includes and device time leaves out, if there is anything."""
    if entry.profile is None or not entry.profile.first_calls:
        return ""
    first, calls = entry.profile.first_calls, entry.profile.active + entry.profile.first_calls
    return f" and first executions, as in {first} of {calls} profiled calls"


def _devices(entry: Entry) -> int:
    """How many work side by side, whose times are added up."""
    return max(entry.timeline.devices, 1) if entry.timeline else 1
