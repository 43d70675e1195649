"""Sentences: what a model's analysis says, in words."""

from __future__ import annotations

from harness.model import plain
from harness.model.analysis import Analysis
from harness.model.groups import Group
from harness.model.predict import NOTHING_LEFT
from harness.report import formatting

MOST_BOUNDS = 3  # groups whose bounds are told


def sentences(analysis: Analysis) -> list[str]:
    """Each decision with its reason; what the step takes, how much of it was measured, what could be gained at most."""
    step = analysis.recording.step
    texts = [f"{each.replacement}: {each.decision}; {each.reason.rstrip('.')}." for each in analysis.decisions]
    calls = f"{len(step.calls):,} calls of modules and functions"
    texts += [f"{formatting.percent(analysis.spots.attributed)} of the step is attributed, to {calls}.", *step.notes]
    if step.busy_us is not None and not analysis.spots.by_device:
        busy = formatting.percent(step.busy_us / step.host_us)
        texts.append(f"The host is the limit: the device is busy {busy} of the step. Shares are those of host time.")
    if not analysis.ways:
        return texts
    row = analysis.ways[0].comparison.baseline_row
    texts.append(f"As it is, a step takes {formatting.latency(row)}, measured without a profiler.")
    texts.append(f"Groups with {formatting.percent(analysis.measured_share)} of the step ran as cases of their own.")
    bounds = [(group, analysis.bound(group)) for group in analysis.spots.shown]
    known = [(group, value) for group, value in bounds if value is not None]
    texts += [_bound(group, value) for group, value in sorted(known, key=lambda pair: -pair[1])[:MOST_BOUNDS]]
    varied = [group for group in analysis.spots.shown if group.shapes > 1 and analysis.has_case(group.name)]
    texts += [_varied(group) for group in varied[:1]]
    texts += [
        f"{measured.group.name} has no case: {measured.problem}."
        for measured in analysis.measured.values()
        if measured.problem
    ]
    return texts


def _varied(group: Group) -> str:
    return (
        f"Where shapes are ranges, a case has one of the most frequent, as {plain.shapes(group.signature)} of the "
        f"{group.shapes} of {group.name}; predictions and bounds go by the time of all."
    )


def _bound(group: Group, value: float) -> str:
    if value >= NOTHING_LEFT:
        return f"{group.name} takes as long alone as a whole step: what it costs within the model is not known."
    return f"If {group.name} cost nothing, a step would be {formatting.digits(value, 3)} times as fast."
