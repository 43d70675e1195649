"""Writing: a difference as text for the terminal, as Markdown for a pull request, as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from harness.diff import difference as gate
from harness.diff import summary as words
from harness.diff.change import Change
from harness.diff.difference import CaseDifference, Difference, VariantDifference
from harness.report import formatting, rendering
from harness.report.tables import Table
from harness.results import storage
from harness.results.statistics import Interval

SCHEMA_VERSION = 1
HEADERS = ["Variant", "Old", "New", "Change", "Change of least", "Change beside another", "Verdict"]
RIGHT = [False, True, True, True, True, False, False]


def show(difference: Difference, level: str | None) -> None:
    """Prints a difference to stdout."""
    out = rendering.console()
    for line in [*words.sides(difference), *words.warnings(difference)]:
        out.print(line, markup=False, soft_wrap=True)
    for table in _tables(difference):
        rendering.show(out, table)
    for line in words.findings(difference, level):
        out.print(line, markup=False, soft_wrap=True)


def as_markdown(difference: Difference, level: str | None) -> str:
    """A difference to paste into a pull request."""
    sentences = [*words.warnings(difference), *words.findings(difference, level)]
    return rendering.markdown_page(
        "Difference of two runs",
        sentences,
        _tables(difference),
        [],
        "\n".join(f"- {side}" for side in words.sides(difference)),
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
    return json.dumps(storage.strict(content), allow_nan=False, ensure_ascii=False, indent=1)


def _tables(difference: Difference) -> list[Table]:
    """One table for a case, and one with a column for the case where there are several."""
    if len(difference.cases) == 1:
        case = difference.cases[0]
        return [Table(case.pair.title, HEADERS, RIGHT, _rows(case))]
    rows = [
        ["" if number else words.case_name(difference, case), *row]
        for case in difference.cases
        for number, row in enumerate(_rows(case))
    ]
    title = " · ".join([*words.common(difference), f"{len(difference.cases)} cases"])
    return [Table(title, ["Case", *HEADERS], [False, *RIGHT], rows)]


def _rows(case: CaseDifference) -> list[list[str]]:
    seen = [side for variant in case.variants for side in (variant.old, variant.new) if side]
    unit = formatting.time_unit([side.latency_us for side in seen])
    return [
        [
            variant.name,
            unit.text(variant.old.latency_us if variant.old else None),
            unit.text(variant.new.latency_us if variant.new else None),
            *_changes(variant.change),
            variant.verdict or words.what(variant),
        ]
        for variant in case.variants
    ]


def _changes(change: Change | None) -> list[str]:
    if change is None:
        return [formatting.NOTHING] * 3
    beside = f"{change.control}: {words.interval(change.relative)}" if change.relative else formatting.NOTHING
    return [words.interval(change.latency), words.signed(change.minimum), beside]


def _gate(difference: Difference, level: str) -> dict[str, Any]:
    refused = gate.refused(difference, level)
    told = [{"case": case.pair.title, "variant": row.name, "what": words.what(row)} for case, row in refused]
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
        "least_ratio": change.minimum if change else None,
        **_ratio("beside_ratio", change.relative if change else None),
        "witness": change.control if change else None,
    }


def _ratio(name: str, change: Interval | None) -> dict[str, float | None]:
    return {
        name: change.value if change else None,
        f"{name}_lo": change.low if change else None,
        f"{name}_hi": change.high if change else None,
    }
