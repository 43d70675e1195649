"""Summary: a difference in sentences, and the texts that they share with the formatting."""

from __future__ import annotations

from collections import defaultdict

from harness.diff.difference import CaseDifference, Difference, VariantDifference, gate_failures
from harness.diff.runs import DEVICE, LATENCY
from harness.report import formatting
from harness.report.formatting import FACTOR
from harness.results.measurement import OK
from harness.results.statistics import Interval

WHERE = {LATENCY: "", DEVICE: " on the device"}
TIME = {LATENCY: "latency", DEVICE: "device time"}
GROUPS = ("missing", "added", "unclear", "same")  # in the order of their sentences
NAMED = 4  # variants in a sentence


def sides(difference: Difference) -> list[str]:
    """The two sides of the comparison, and when they were measured."""
    first = difference.both[0].pair
    lines = []
    for name, path, run in (("OLD", difference.old, first.old), ("NEW", difference.new, first.new)):
        if run is not None:
            torch = run.document["environment"].get("torch", "?")
            lines.append(f"{name}: {path} ({run.document['created']}, torch {torch})")
    return lines


def warnings(difference: Difference) -> list[str]:
    """Reasons to doubt the comparison, shown before any result."""
    both = len(difference.both)
    lines = [f"Differs: {item.sentence(both)}" for item in difference.environment_differences]
    if lines:
        lines.append("These differences may be the cause of a change.")
    totals = {side: sum(getattr(case.pair, side) is not None for case in difference.cases) for side in ("old", "new")}
    return lines + [f"Warning: {warning.sentence(totals[warning.side])}" for warning in difference.warnings]


def findings(difference: Difference, level: str | None) -> list[str]:
    """A sentence for each change; then the unclear, unchanged, missing and added variants; then the gate."""
    lines: list[str] = []
    groups: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for case in difference.cases:
        for variant in case.variants:
            name = _name(difference, case, variant)
            lines += [f"{name} {sentence}" for sentence in _sentences(variant, difference.settings.absolute)]
            for group in _groups(variant):
                groups[group].append(name)
    for kind, reason in sorted(groups, key=lambda group: GROUPS.index(group[0].split()[0])):
        lines.append(
            f"{kind.capitalize()}: {formatting.some(groups[kind, reason], NAMED)}{f' ({reason})' if reason else ''}."
        )
    for metric in difference.settings.metrics:
        smallest = [case.min_changes[metric] for case in difference.both if metric in case.min_changes]
        if smallest:
            span = dict.fromkeys(formatting.percent(change) for change in (min(smallest), max(smallest)))
            lines.append(f"No change below {' to '.join(span)} is claimed{WHERE[metric]}.")
    if level is not None:
        lines.append(_gate(difference, level))
    return lines


def outcome(variant: VariantDifference, metric: str) -> str:
    """The verdict of a variant by a metric; without two times to compare, what became of it."""
    return variant.verdicts.get(metric) or _status(variant)


def failure(variant: VariantDifference) -> str:
    """What a gate fails on: `slower on the device`."""
    slower = [f"slower{WHERE[metric]}" for metric, verdict in variant.verdicts.items() if verdict == "slower"]
    return formatting.listed(slower) if slower else _status(variant)


def unclear(difference: Difference) -> int:
    """How many variants have a time of which no claim can be made."""
    return sum("unclear" in variant.verdicts.values() for case in difference.cases for variant in case.variants)


def interval(change: Interval | None) -> str:
    """`+20.1% (+18.0% to +22.3%)`; as factors if a bound is beyond all percentages."""
    if change is None:
        return formatting.NOTHING
    bounds = (change.value, change.low, change.high)
    small = all(1 / FACTOR < bound < FACTOR for bound in bounds)
    text = formatting.change if small else formatting.times_factor
    span = formatting.UNKNOWN if formatting.vague(*bounds) else f"({text(change.low)} to {text(change.high)})"
    return f"{text(change.value)} {span}"


def common(difference: Difference) -> list[str]:
    """The parts of their titles that all cases share, such as the operation."""
    words = [case.pair.words for case in difference.cases]
    return [word for word in words[0] if all(word in other for other in words[1:])]


def case_name(difference: Difference, case: CaseDifference) -> str:
    """The words that distinguish the case from the others: `hidden=512`; the title of a single case."""
    shared = common(difference)
    return " ".join(word for word in case.pair.words if word not in shared) or case.pair.title


def _name(difference: Difference, case: CaseDifference, variant: VariantDifference) -> str:
    return f"{case_name(difference, case)}: {variant.name}" if len(difference.cases) > 1 else variant.name


def _status(variant: VariantDifference) -> str:
    if variant.old is None:
        return "added"
    if variant.new is None:
        return "missing"
    if variant.broken or variant.fixed:
        return f"{variant.new.status}, was {variant.old.status}"
    return variant.new.status if variant.new.status != OK else formatting.NOTHING


def _sentences(variant: VariantDifference, absolute: bool) -> list[str]:
    """The changes that are claimed; or that it is broken or fixed."""
    if variant.new is not None and (variant.broken or variant.fixed):
        reason = f": {variant.new.reason}" if variant.new.reason else ""
        return [f"is {_status(variant)}{reason}."]
    claims = []
    for metric, change in variant.changes.items():
        if change.verdict in ("faster", "slower"):
            typical = interval(change.typical if absolute else change.relative)
            against = "" if absolute else f" relative to {change.control}"
            minimum = f"{formatting.change(change.minimum)} in its minimum {TIME[metric]}"
            claims.append(f"is {change.verdict}{WHERE[metric]}: {typical}{against}, {minimum}.")
    return claims


def _groups(variant: VariantDifference) -> list[tuple[str, str | None]]:
    """The groups of variants that are reported in one sentence each, and the reason that they share."""
    if variant.new is None or variant.old is None:
        return [(_status(variant), None)]
    return [
        (f"{change.verdict}{WHERE[metric]}", change.reason)
        for metric, change in variant.changes.items()
        if change.verdict in GROUPS
    ]


def _gate(difference: Difference, level: str) -> str:
    failures = [_name(difference, case, variant) for case, variant in gate_failures(difference, level)]
    if failures:
        return f"The gate fails on {formatting.some(failures, NAMED)}."
    count = unclear(difference)
    total = sum(bool(variant.verdicts) for case in difference.cases for variant in case.variants)
    return f"The gate passes, with {count} of {total} variants unclear." if count else "The gate passes."
