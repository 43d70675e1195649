"""Words: what differs between two sides, in sentences, and the texts that they share with the tables."""

from __future__ import annotations

from collections import defaultdict

from harness.diff import difference as gate
from harness.diff.difference import CaseDifference, Difference, VariantDifference
from harness.report import formatting
from harness.results.measurement import OK
from harness.results.statistics import Interval

GROUPS = ["missing", "added", "unclear", "same"]  # in the order in which they are told
NAMED = 4  # variants in a sentence
FACTOR = 10.0  # a change beyond this is told as a factor


def sides(difference: Difference) -> list[str]:
    """What is compared with what, and when it was measured."""
    first = difference.both[0].pair
    lines = []
    for name, place, run in (("OLD", difference.old, first.old), ("NEW", difference.new, first.new)):
        if run is not None:
            made = f"{run.document['created']}, torch {run.document['environment'].get('torch', '?')}"
            lines.append(f"{name}: {place} ({made})")
    return lines


def warnings(difference: Difference) -> list[str]:
    """What makes the comparison doubtful; it is said before any result."""
    of = len(difference.both)
    lines = [f"DIFFERS: {doubt.sentence(of)}" for doubt in difference.doubts]
    if lines:
        lines.append("What differs besides the code may be the cause of a change.")
    return lines + difference.troubles


def findings(difference: Difference, level: str | None) -> list[str]:
    """A sentence for each change; then what is unclear, the same, missing and added; then the gate."""
    lines: list[str] = []
    groups: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for case in difference.cases:
        for variant in case.variants:
            name = _name(difference, case, variant)
            sentence, group = _sentence(variant, difference.settings.absolute), _group(variant)
            if sentence:
                lines.append(f"{name} {sentence}")
            elif group:
                groups[group].append(name)
    for told, reason in sorted(groups, key=lambda group: GROUPS.index(group[0])):
        lines.append(f"{told.capitalize()}: {_some(groups[told, reason])}{f' ({reason})' if reason else ''}.")
    floors = [case.floor for case in difference.both if case.floor is not None]
    span = dict.fromkeys(formatting.percent(floor) for floor in (min(floors), max(floors)))
    lines.append(f"No change below {' to '.join(span)} is claimed.")
    if level is not None:
        names = [_name(difference, case, variant) for case, variant in gate.refused(difference, level)]
        lines.append(f"The gate fails on {_some(names)}." if names else "The gate passes.")
    return lines


def what(variant: VariantDifference) -> str:
    """The verdict of a variant that has no two latencies: what became of it."""
    if variant.verdict:
        return variant.verdict
    if variant.old is None:
        return "added"
    if variant.new is None:
        return "missing"
    if variant.broken or variant.fixed:
        return f"{variant.new.status}, was {variant.old.status}"
    return variant.new.status if variant.new.status != OK else formatting.NOTHING


def interval(change: Interval | None) -> str:
    """`+20.1% (+18.0% to +22.3%)`; as factors where a bound is beyond all percentages."""
    if change is None:
        return formatting.NOTHING
    numbers = (change.value, change.low, change.high)
    plain = all(1 / FACTOR < number < FACTOR for number in numbers)
    value, low, high = (signed(number) if plain else formatting.times_factor(number) for number in numbers)
    return f"{value} {formatting.UNKNOWN if formatting.vague(*numbers) else f'({low} to {high})'}"


def signed(change: float) -> str:
    """A ratio new / old as a percentage of change, or as a factor."""
    if not 1 / FACTOR < change < FACTOR:
        return formatting.times_factor(change)
    share = formatting.percent(abs(change - 1))
    return share if share == formatting.percent(0) else f"{'+' if change > 1 else '−'}{share}"


def common(difference: Difference) -> list[str]:
    """What the names of all cases share, such as the operation."""
    first, *others = (case.pair.words for case in difference.cases)
    return [word for word in first if all(word in other for other in others)]


def case_name(difference: Difference, case: CaseDifference) -> str:
    """What tells a case from the others: `hidden=512`; its title where it is alone."""
    shared = common(difference)
    return " ".join(word for word in case.pair.words if word not in shared) or case.pair.title


def _name(difference: Difference, case: CaseDifference, variant: VariantDifference) -> str:
    return f"{case_name(difference, case)}: {variant.name}" if len(difference.cases) > 1 else variant.name


def _sentence(variant: VariantDifference, absolute: bool) -> str | None:
    """What changed for certain."""
    change = variant.change
    if change is not None and change.verdict in ("faster", "slower"):
        typical = change.latency if absolute else change.relative
        beside = "" if absolute else f" beside {change.control}"
        return f"is {change.verdict}: {interval(typical)}{beside}, {signed(change.minimum)} in its least latency."
    if variant.new is not None and (variant.broken or variant.fixed):
        reason = f": {variant.new.reason}" if variant.new.reason else ""
        return f"is {what(variant)}{reason}."
    return None


def _group(variant: VariantDifference) -> tuple[str, str | None] | None:
    """What is said of several variants at once, and why."""
    if variant.change is not None:
        return variant.change.verdict, variant.change.reason
    return (what(variant), None) if variant.new is None or variant.old is None else None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
