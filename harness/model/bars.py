"""Bars: a step cut by groups, as it is and with each replacement, for the chart of the step."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model import tables
from harness.model.analysis import Analysis
from harness.model.decide import COMPILED, DO_NOT_USE, Decision
from harness.report.bars import Bar, Bars

REST = "(difference)"


def bars(analysis: Analysis) -> Bars:
    """The step as it is, and as it was measured with each replacement; as it was recorded if nothing was measured."""
    step = analysis.recording.step
    shares = {row.group: row.share for row in analysis.spots.rows}
    latency = analysis.ways[0].comparison.baseline.latency if analysis.ways else None
    whole = step.host_us if latency is None else latency.value * 1e6
    clock = "as the profiler saw it" if latency is None else "without a profiler"
    first = Bar("as it is", "", True, [(name, share * whole) for name, share in shares.items()])
    rest = [] if latency is None else list(_after(analysis, first))
    how = f"a step, {clock}, cut by the shares of its groups"
    return Bars(f"{step.model} · {step.dtype}", how, [first, *rest])


def _after(analysis: Analysis, before: Bar) -> Iterator[Bar]:
    """A bar for each replacement that was timed; what its groups save alone is taken from their parts."""
    for decision in analysis.decisions:
        if decision.measured is None or decision.seconds is None:
            continue
        us = decision.seconds * 1e6
        parts = {name: max(part - decision.saved.get(name, 0.0) * 1e6, 0.0) for name, part in before.parts}
        total = sum(parts.values())
        scaled = [(name, part * min(us / total, 1.0) if total else 0.0) for name, part in parts.items()]
        scaled.append((REST, max(us - total, 0.0)))
        yield Bar(decision.replacement, _text(decision), decision.decision != DO_NOT_USE, scaled)


def _text(decision: Decision) -> str:
    within = "in the compiled model, " if decision.base == COMPILED else ""
    return f"{within}{decision.decision}: {tables.gain(decision.measured)}, predicted {tables.gain(decision.predicted)}"
