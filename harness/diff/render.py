"""Rendering: a difference as text for the terminal, as Markdown for a pull request, as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from harness.diff import summary
from harness.diff.change import Change
from harness.diff.difference import CaseDifference, Difference, VariantDifference, gate_failures
from harness.report import formatting, rendering
from harness.report.tables import Table
from harness.results import storage
from harness.results.statistics import Interval

SCHEMA_VERSION = 2  # of the JSON
HEADERS = ["Variant", "Old", "New", "Change", "Change of minimum", "Change relative to control", "Verdict"]
RIGHT = [False, True, True, True, True, False, False]


def show(difference: Difference, level: str | None) -> None:
    """Prints a difference to stdout."""
    out = rendering.console()
    for line in [*summary.sides(difference), *summary.warnings(difference)]:
        out.print(line, markup=False, soft_wrap=True)
    for table in _tables(difference):
        rendering.show(out, table)
    for line in summary.findings(difference, level):
        out.print(line, markup=False, soft_wrap=True)


def as_markdown(difference: Difference, level: str | None) -> str:
    """A difference to paste into a pull request."""
    return rendering.markdown_page(
        "Difference of two runs",
        sentences=[*summary.warnings(difference), *summary.findings(difference, level)],
        tables=_tables(difference),
        warnings=[],  # they stand first
        footer="\n".join(f"- {side}" for side in summary.sides(difference)),
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
        "environment_differences": [asdict(item) for item in difference.environment_differences],
        "warnings": [asdict(warning) for warning in difference.warnings],
        "cases": [_case(case) for case in difference.cases],
        "gate": _gate(difference, level) if level is not None else None,
    }
    return json.dumps(storage.strict(content), allow_nan=False, ensure_ascii=False, indent=1)


def _tables(difference: Difference) -> list[Table]:
    """The table of one case; several cases share one with a column for the case."""
    if len(difference.cases) == 1:
        case = difference.cases[0]
        return [Table(case.pair.title, HEADERS, RIGHT, _rows(case))]
    rows = [
        ["" if number else summary.case_name(difference, case), *row]
        for case in difference.cases
        for number, row in enumerate(_rows(case))
    ]
    title = " · ".join([*summary.common(difference), f"{len(difference.cases)} cases"])
    return [Table(title, ["Case", *HEADERS], [False, *RIGHT], rows)]


def _rows(case: CaseDifference) -> list[list[str]]:
    results = [result for variant in case.variants for result in (variant.old, variant.new) if result]
    unit = formatting.time_unit([result.latency_us for result in results])
    return [
        [
            variant.name,
            unit.text(variant.old.latency_us if variant.old else None),
            unit.text(variant.new.latency_us if variant.new else None),
            *_changes(variant.change),
            summary.outcome(variant),
        ]
        for variant in case.variants
    ]


def _changes(change: Change | None) -> list[str]:
    if change is None:
        return [formatting.NOTHING] * 3
    relative = f"{change.control}: {summary.interval(change.relative)}" if change.relative else formatting.NOTHING
    return [summary.interval(change.latency), summary.signed(change.minimum), relative]


def _gate(difference: Difference, level: str) -> dict[str, Any]:
    failures = [
        {"case": case.pair.title, "variant": variant.name, "outcome": summary.outcome(variant)}
        for case, variant in gate_failures(difference, level)
    ]
    return {"fail_on": level, "passed": not failures, "failures": failures, "unclear": summary.unclear(difference)}


def _case(case: CaseDifference) -> dict[str, Any]:
    old, new = case.pair.old, case.pair.new
    run = new or old
    assert run is not None
    described = run.document["case"]
    return {
        "title": case.pair.title,
        **{name: described[name] for name in ("op", "dims", "dtype", "mode", "device")},
        "old": str(old.path) if old else None,
        "new": str(new.path) if new else None,
        "old_noise_floor": old.noise_floor if old else None,
        "new_noise_floor": new.noise_floor if new else None,
        "min_change": case.min_change,
        "variants": [_variant(variant) for variant in case.variants],
    }


def _variant(variant: VariantDifference) -> dict[str, Any]:
    old = variant.old
    new = variant.new
    change = variant.change
    return {
        "variant": variant.name,
        "verdict": variant.verdict,
        "reason": change.reason if change else None,
        "broken": variant.broken,
        "fixed": variant.fixed,
        "old_status": old.status if old else None,
        "new_status": new.status if new else None,
        "old_reason": old.reason if old else None,
        "new_reason": new.reason if new else None,
        "old_latency_us": old.latency_us if old else None,
        "new_latency_us": new.latency_us if new else None,
        "old_processes": old.processes if old else None,
        "new_processes": new.processes if new else None,
        **_ratio("latency_ratio", change.latency if change else None),
        "min_ratio": change.minimum if change else None,
        **_ratio("relative_ratio", change.relative if change else None),
        "control": change.control if change else None,
    }


def _ratio(name: str, change: Interval | None) -> dict[str, float | None]:
    return {
        name: change.value if change else None,
        f"{name}_lo": change.low if change else None,
        f"{name}_hi": change.high if change else None,
    }
