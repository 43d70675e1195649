"""Decisions: whether to use a replacement, from what was predicted, what was measured, and what was seen."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.measure.torch_private import GUARDS
from harness.report import formatting
from harness.results.entry import Entry
from harness.results.measurement import OK
from harness.results.statistics import Interval

USE, DO_NOT_USE, UNCLEAR = "use", "do not use", "unclear"
BY_VERDICT = {"faster": USE, "slower": DO_NOT_USE, "same": DO_NOT_USE}
# The namespaces of operators that Inductor knows, or that are no operators; any other's it can only call
COMPILERS_OWN = {"aten", "prims", "inductor", "autograd", "torch", "c10d", "mkldnn", "mkl", "quantized"}
NOTABLE = 0.005  # of a step: a difference worth a sentence


@dataclass(frozen=True)
class Decision:
    """A row of decision.csv; speedups are those of the whole step."""

    replacement: str
    group: str
    predicted: Interval | None
    measured: Interval | None
    status: str
    decision: str
    reason: str


def decide(replacement: str, group: str, predicted: Interval | None, entry: Entry, base: Entry) -> Decision:
    """The decision on a replacement that was put into the model: `entry`, beside `base`, the model without it."""
    timing = entry.host
    measurement = entry.measurement
    if measurement.status != OK:
        decision, reason = DO_NOT_USE, f"{measurement.status}: {measurement.reason or 'no reason known'}"
    elif timing.verdict is None:
        decision, reason = UNCLEAR, measurement.reason or "the model as it is could not be timed"
    else:
        decision, reason = BY_VERDICT.get(timing.verdict, UNCLEAR), _reason(predicted, entry, base)
    return Decision(replacement, group, predicted, timing.speedup, measurement.status, decision, reason)


def _reason(predicted: Interval | None, entry: Entry, base: Entry) -> str:
    """A sentence: what a step takes, and where that is not what was predicted, why."""
    measured = entry.host.speedup
    assert measured is not None and entry.latency is not None and base.latency is not None
    steps = f"a step takes {_time(entry.latency)} in place of {_time(base.latency)}"
    if entry.host.verdict == "unclear":
        return f"{steps}, which may be chance: try latency.seconds={4 * entry.comparison.settings.seconds:g}"
    if entry.host.verdict == "same":
        steps = f"a step takes as long, {_time(entry.latency)}"
    if predicted is None:
        return steps
    if measured.low <= predicted.high and predicted.low <= measured.high:
        return f"{steps}, as predicted"
    less = "less" if measured.value < predicted.value else "more"
    return f"{steps}, which is {less} of a gain than predicted: {cause(entry, base) or 'nothing seen says why'}"


def cause(entry: Entry, base: Entry) -> str | None:
    """Why a replacement does otherwise within the model than alone, from what was seen of both; None if nothing was."""
    return _breaks(entry, base) or _opaque(entry, base) or _device(entry, base) or _host(entry, base)


def _breaks(entry: Entry, base: Entry) -> str | None:
    cost, before = entry.compile_cost, base.compile_cost
    if cost is None or cost.graph_breaks <= (before.graph_breaks if before else 0):
        return None
    why = f": {cost.break_reasons[0]}" if cost.break_reasons else ""
    return f"the compiler breaks its graph at the replacement ({cost.graph_breaks} times){why}"


def _opaque(entry: Entry, base: Entry) -> str | None:
    """Operators of other libraries that compiled code calls."""
    if entry.compile_cost is None or entry.profile is None:
        return None
    before = {row.operator for row in base.profile.operators} if base.profile else set()
    for row in entry.profile.operators:
        namespace, found, _ = row.operator.partition("::")
        if found and namespace not in COMPILERS_OWN and row.operator not in before and re.fullmatch(r"\w+", namespace):
            called = f"{row.operator}, called {row.calls} times a step,"
            return f"{called} is opaque to the compiler, which fuses nothing with it"
    return None


def _device(entry: Entry, base: Entry) -> str | None:
    after, before = entry.timeline, base.timeline
    if after is None or before is None or after.device_executions is None or before.device_executions is None:
        return None
    if after.device_executions > before.device_executions:
        return (
            f"the device runs {after.device_executions:,.0f} executions a step in place of "
            f"{before.device_executions:,.0f}"
        )
    gaps, gaps_before = after.device_gap_us or 0.0, before.device_gap_us or 0.0
    if base.latency is not None and gaps - gaps_before > NOTABLE * base.latency.value * 1e6:
        waits = f"{formatting.time(gaps)} in place of {formatting.time(gaps_before)}"
        return f"the device waits longer between executions, {waits}"
    return None


def _host(entry: Entry, base: Entry) -> str | None:
    """Guards, or a device that works less and waits for the host all the same."""
    if base.latency is None:
        return None
    step_us = base.latency.value * 1e6
    guards, before = _guards(entry), _guards(base)
    if guards - before > NOTABLE * step_us:
        return f"Dynamo's guards take {formatting.time(guards)} a step"
    if entry.device_time_us and base.device_time_us and entry.device_time_us < base.device_time_us * (1 - NOTABLE):
        saved = formatting.time(base.device_time_us - entry.device_time_us)
        return f"the host is the limit: the device works {saved} less, and waits for it"
    return None


def _guards(entry: Entry) -> float:
    rows = entry.profile.operators if entry.profile else ()
    return float(sum(row.self_cpu_us for row in rows if row.operator == GUARDS))


def _time(seconds: Interval) -> str:
    return formatting.time(seconds.value * 1e6)
