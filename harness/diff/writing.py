"""Writing: a difference as text for the terminal, as Markdown for a pull request, as JSON for programs."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from harness import results
from harness.diff import gate
from harness.diff.change import Change
from harness.diff.difference import CaseDifference, Difference, VariantDifference
from harness.measurement import OK
from harness.report import cells, markdown, terminal
from harness.report.cells import Table
from harness.statistics import Interval

SCHEMA_VERSION = 1
HEADERS = ["Variant", "Old", "New", "Change", "Change of least", "Change beside another", "Verdict"]
RIGHT = [False, True, True, True, True, False, False]
GROUPS = ["missing", "added", "unclear", "same"]  # in the order in which they are told
NAMED = 4  # variants in a sentence
FACTOR = 10.0  # a change beyond this is told as a factor


def show(difference: Difference, level: str | None) -> None:
    """Prints a difference to stdout."""
    out = terminal.console()
    for line in [*_sides(difference), *_warnings(difference)]:
        out.print(line, markup=False, soft_wrap=True)
    for table in _tables(difference):
        terminal.show(out, table)
    for line in _findings(difference, level):
        out.print(line, markup=False, soft_wrap=True)


def as_markdown(difference: Difference, level: str | None) -> str:
    """A difference to paste into a pull request."""
    sentences = [*_warnings(difference), *_findings(difference, level)]
    return markdown.page(
        "Difference of two runs",
        sentences,
        _tables(difference),
        [],
        "\n".join(f"- {side}" for side in _sides(difference)),
    )


def as_json(difference: Difference, level: str | None) -> str:
    """A difference for programs; times in microseconds, changes as ratios new / old."""
    settings = difference.settings
    content = {
        "schema_version": SCHEMA_VERSION,
        "old": str(difference.old),
        "new": str(difference.new),
        "threshold": settings.threshold,
        "confidence": settings.confidence,
        "absolute": settings.absolute,
        "differences": [asdict(doubt) for doubt in difference.doubts],
        "troubles": difference.troubles,
        "cases": [_case(case) for case in difference.cases],
        "gate": _gate(difference, level) if level is not None else None,
    }
    return json.dumps(results.strict(content), allow_nan=False, ensure_ascii=False, indent=1)


def _sides(difference: Difference) -> list[str]:
    first = difference.both[0].pair
    lines = []
    for name, place, run in (("OLD", difference.old, first.old), ("NEW", difference.new, first.new)):
        if run is not None:
            made = f"{run.document['created']}, torch {run.document['environment'].get('torch', '?')}"
            lines.append(f"{name}: {place} ({made})")
    return lines


def _warnings(difference: Difference) -> list[str]:
    """What makes the comparison doubtful; it is said before any result."""
    of = len(difference.both)
    lines = [f"DIFFERS: {doubt.sentence(of)}" for doubt in difference.doubts]
    if lines:
        lines.append("What differs besides the code may be the cause of a change.")
    return lines + difference.troubles


def _tables(difference: Difference) -> list[Table]:
    """One table for a case, and one with a column for the case where there are several."""
    if len(difference.cases) == 1:
        case = difference.cases[0]
        return [Table(case.pair.title, HEADERS, RIGHT, _rows(case))]
    rows = [
        ["" if number else case.pair.title, *row] for case in difference.cases for number, row in enumerate(_rows(case))
    ]
    return [Table(f"{len(difference.cases)} cases", ["Case", *HEADERS], [False, *RIGHT], rows)]


def _rows(case: CaseDifference) -> list[list[str]]:
    seen = [side for variant in case.variants for side in (variant.old, variant.new) if side]
    unit = cells.Unit.of([side.latency_us for side in seen])
    return [
        [
            variant.name,
            unit.text(variant.old.latency_us if variant.old else None),
            unit.text(variant.new.latency_us if variant.new else None),
            *_changes(variant.change),
            variant.verdict or _what(variant),
        ]
        for variant in case.variants
    ]


def _changes(change: Change | None) -> list[str]:
    if change is None:
        return [cells.NOTHING] * 3
    beside = f"{change.witness}: {_interval(change.beside)}" if change.beside else cells.NOTHING
    return [_interval(change.latency), _signed(change.least), beside]


def _findings(difference: Difference, level: str | None) -> list[str]:
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
    for what, reason in sorted(groups, key=lambda group: GROUPS.index(group[0])):
        lines.append(f"{what.capitalize()}: {_some(groups[what, reason])}{f' ({reason})' if reason else ''}.")
    floors = sorted({f"{cells.percent(case.floor)}" for case in difference.cases if case.floor is not None})
    lines.append(f"No change below {' to '.join(floors[:: max(len(floors) - 1, 1)])} is claimed.")
    if level is not None:
        names = [_name(difference, case, variant) for case, variant in gate.refused(difference, level)]
        lines.append(f"The gate fails on {_some(names)}." if names else "The gate passes.")
    return lines


def _name(difference: Difference, case: CaseDifference, variant: VariantDifference) -> str:
    return f"{case.pair.title}: {variant.name}" if len(difference.cases) > 1 else variant.name


def _sentence(variant: VariantDifference, absolute: bool) -> str | None:
    """What changed for certain."""
    change = variant.change
    if change is not None and change.verdict in ("faster", "slower"):
        beside = "" if absolute else f" beside {change.witness}"
        return f"is {change.verdict}: {_interval(change.latency if absolute else change.beside)} latency{beside}."
    if variant.new is not None and (variant.broken or variant.mended):
        reason = f": {variant.new.reason}" if variant.new.reason else ""
        return f"is {_what(variant)}{reason}."
    return None


def _group(variant: VariantDifference) -> tuple[str, str | None] | None:
    """What is said of several variants at once, and why."""
    if variant.change is not None:
        return variant.change.verdict, variant.change.reason
    return (_what(variant), None) if variant.new is None or variant.old is None else None


def _what(variant: VariantDifference) -> str:
    """The verdict of a variant that has no two latencies: what became of it."""
    if variant.verdict:
        return variant.verdict
    if variant.old is None:
        return "added"
    if variant.new is None:
        return "missing"
    if variant.broken or variant.mended:
        return f"{variant.new.status}, was {variant.old.status}"
    return variant.new.status if variant.new.status != OK else cells.NOTHING


def _interval(change: Interval | None) -> str:
    """`+20.1% (+18.0% to +22.3%)`; as factors where a bound is beyond all percentages."""
    if change is None:
        return cells.NOTHING
    numbers = (change.value, change.low, change.high)
    plain = all(1 / FACTOR < number < FACTOR for number in numbers)
    value, low, high = (_signed(number) if plain else cells.times_factor(number) for number in numbers)
    return f"{value} ({low} to {high})"


def _signed(change: float) -> str:
    """A ratio new / old as a percentage of change, or as a factor."""
    if not 1 / FACTOR < change < FACTOR:
        return cells.times_factor(change)
    return f"{'+' if change >= 1 else '−'}{cells.percent(abs(change - 1))}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _gate(difference: Difference, level: str) -> dict[str, Any]:
    refused = gate.refused(difference, level)
    told = [{"case": case.pair.title, "variant": row.name, "what": _what(row)} for case, row in refused]
    return {"fail_on": level, "passed": not refused, "refused": told}


def _case(case: CaseDifference) -> dict[str, Any]:
    run = case.pair.new or case.pair.old
    assert run is not None
    asked = run.document["case"]
    return {
        "title": case.pair.title,
        **{name: asked[name] for name in ("op", "dims", "dtype", "mode", "device")},
        "old": str(case.pair.old.path) if case.pair.old else None,
        "new": str(case.pair.new.path) if case.pair.new else None,
        "floor": case.floor,
        "variants": [_variant(variant) for variant in case.variants],
    }


def _variant(variant: VariantDifference) -> dict[str, Any]:
    old, new, change = variant.old, variant.new, variant.change
    return {
        "variant": variant.name,
        "verdict": variant.verdict,
        "reason": change.reason if change else None,
        "broken": variant.broken,
        "old_status": old.status if old else None,
        "new_status": new.status if new else None,
        "old_reason": old.reason if old else None,
        "new_reason": new.reason if new else None,
        "old_latency_us": old.latency_us if old else None,
        "new_latency_us": new.latency_us if new else None,
        **_ratio("latency_ratio", change.latency if change else None),
        "least_ratio": change.least if change else None,
        **_ratio("beside_ratio", change.beside if change else None),
        "witness": change.witness if change else None,
    }


def _ratio(name: str, change: Interval | None) -> dict[str, float | None]:
    return {
        name: change.value if change else None,
        f"{name}_lo": change.low if change else None,
        f"{name}_hi": change.high if change else None,
    }
