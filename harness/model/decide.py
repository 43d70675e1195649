"""Decisions: whether to use a replacement, from what was predicted, what was measured, and what was seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.measure.torch_private import GUARDS
from harness.report import formatting, unclear
from harness.results import statistics
from harness.results.entry import Entry
from harness.results.measurement import OK, SKIPPED, WRONG
from harness.results.statistics import Interval

USE, DO_NOT_USE, UNCLEAR = "use", "do not use", "unclear"
COMPILED = "compiled"  # the variant that is the whole model compiled
BY_VERDICT = {"faster": USE, "slower": DO_NOT_USE, "same": DO_NOT_USE}
# The namespaces of operators that Inductor knows, or that are no operators; any other's it can only call
COMPILERS_OWN = {"aten", "prims", "inductor", "autograd", "torch", "c10d", "mkldnn", "mkl", "quantized"}
JOINED = " + "  # between the groups of a decision
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
    seconds: float | None = None  # a step's, with the replacement
    saved: Mapping[str, float] = field(default_factory=dict)  # predicted seconds, by group
    base: str = ""  # the variant of the whole model that it was compared with


def decide(
    replacement: str,
    group: str,
    predicted: Interval | None,
    entry: Entry,
    base: Entry,
    alone: Sequence[Entry] = (),
    saved: Mapping[str, float] | None = None,
    differs: str | None = None,
) -> Decision:
    """The decision on a replacement that was put into the model: `entry`, beside `base`, the model without it.

    `alone` are its parts in the cases of its groups: what is not right alone is not used, whatever it does here.
    `differs` is the path of the first module whose outputs it changes.
    """
    status, decision, reason = _judged(predicted, entry, base, alone)
    if status == WRONG and differs:
        reason += f"; it first differs at {differs}"
    seconds = None if entry.latency is None else entry.latency.value
    measured = entry.host.speedup
    return Decision(replacement, group, predicted, measured, status, decision, reason, seconds, saved or {}, base.name)


def agreed(decisions: Sequence[Decision]) -> Decision:
    """The decision of ways to run a model of which none is clearly the faster: theirs if they agree, else unclear.

    What is not right in one of them is not used.
    """
    for decision in decisions:
        if decision.status not in (OK, SKIPPED) or len({each.decision for each in decisions}) == 1:
            return decision
    reasons = "; ".join(decision.reason for decision in decisions)
    return replace(
        decisions[0], decision=UNCLEAR, reason=f"{reasons}; whether the compiled model is the faster one is unclear"
    )


def overtaken(decision: Decision, entry: Entry, whole: Entry) -> Decision:
    """The decision on a replacement in the model as it is, `entry`, such as modules that are compiled one by one.

    It is of no use if the model compiled `whole` is faster than with it.
    """
    pairs = entry.comparison.host_clock.samples.paired(whole.name, entry.name)
    if decision.decision != USE or whole.latency is None or not any(map(len, pairs)):
        return decision
    if statistics.interval(pairs, entry.comparison.settings.confidence).high >= 1:
        return decision
    reason = f"{decision.reason}; the model compiled whole takes {_time(whole.latency)}"
    return replace(decision, decision=DO_NOT_USE, reason=reason)


def _judged(predicted: Interval | None, entry: Entry, base: Entry, alone: Sequence[Entry]) -> tuple[str, str, str]:
    """The status, the decision, and the reason."""
    for part in (entry, *alone):
        found = part.measurement
        if found.status not in (OK, SKIPPED):
            where = "" if part is entry else f" ({part.case['op']}, run alone)"
            return found.status, DO_NOT_USE, f"{found.status}: {found.reason or 'no reason known'}{where}"
    status, verdict = entry.measurement.status, entry.host.verdict
    if verdict is None:
        return status, UNCLEAR, _unranked(entry, base)
    return status, BY_VERDICT.get(verdict, UNCLEAR), _reason(predicted, entry, base, alone)


def _unranked(entry: Entry, base: Entry) -> str:
    if base.measurement.status != OK:
        return f"the model without it is {base.measurement.status}: {base.measurement.reason}"
    return entry.measurement.reason or "it was not timed"


def _reason(predicted: Interval | None, entry: Entry, base: Entry, alone: Sequence[Entry]) -> str:
    """A sentence: what a step takes, and where that is not what was predicted or seen alone, why."""
    measured, verdict = entry.host.speedup, entry.host.verdict
    assert measured is not None and entry.latency is not None and base.latency is not None
    within = " of the compiled model" if base.name == COMPILED else ""
    steps = f"a step{within} takes {_time(entry.latency)} in place of {_time(base.latency)}"
    if verdict == "unclear":
        return f"{steps}, which may be chance: {unclear.why(entry.host)}"
    if verdict == "same":
        steps = f"a step{within} takes as long, {_time(entry.latency)}"
    faster = [part.host.speedup for part in alone if part.host.verdict == "faster" and part.host.speedup]
    if verdict != "faster" and alone and len(faster) == len(alone):
        gain = formatting.times_factor(min(ratio.value for ratio in faster))
        why = cause(entry, base) or "nothing that was seen says why"
        return f"{steps}, although a call alone is {gain} as fast as it is now: {why}"
    if predicted is None or formatting.vague(predicted.value, predicted.low, predicted.high):
        return steps
    if measured.low <= predicted.high and predicted.low <= measured.high:
        return f"{steps}, as predicted"
    less = "less" if measured.value < predicted.value else "more"
    why = cause(entry, base) or "nothing that was seen says why"
    return f"{steps}, {less} of a gain than predicted: {why}"


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
