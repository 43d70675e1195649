"""Rendering: a difference as text for the terminal, as Markdown for a pull request, as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from harness.diff import summary
from harness.diff.change import Change
from harness.diff.difference import CaseDifference, Difference, VariantDifference, gate_failures
from harness.diff.runs import DEVICE, LATENCY
from harness.report import formatting, rendering
from harness.report.tables import Table
from harness.results import storage
from harness.results.statistics import Interval

SCHEMA_VERSION = 2  # of the JSON
PREFIXES = {LATENCY: "", DEVICE: "device_"}  # of a metric's keys in the JSON
HEADERS = ["Variant", "Old", "New", "Change", "Change of minimum", "Change relative to control", "Verdict"]
RIGHT = [False, True, True, True, True, False, False]


def show(difference: Difference, level: str | None) -> None:
    """Prints a difference to stdout."""
    out = rendering.console()
    for line in [*summary.sides(difference), *summary.warnings(difference)]:
        out.print(line, markup=False, soft_wrap=True)
    for table in _tables(difference):
        rendering.show(out, table, whole=True)
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
        "metrics": list(settings.metrics),
        "environment_differences": [asdict(item) for item in difference.environment_differences],
        "warnings": [asdict(warning) for warning in difference.warnings],
        "cases": [_case(case) for case in difference.cases],
        "gate": _gate(difference, level) if level is not None else None,
    }
    return json.dumps(storage.strict(content), allow_nan=False, ensure_ascii=False, indent=1)


def _tables(difference: Difference) -> list[Table]:
    """A table for each metric: of one case, or of several with a column for the case."""
    return [
        table
        for metric in difference.settings.metrics
        if metric == difference.settings.metrics[0] or _compared(difference, metric)
        for table in [_table(difference, metric)]
    ]


def _compared(difference: Difference, metric: str) -> bool:
    return any(metric in variant.changes for case in difference.cases for variant in case.variants)


def _table(difference: Difference, metric: str) -> Table:
    what = f" · {summary.TIME[metric]}" if _compared(difference, DEVICE) else ""  # there is another table
    if len(difference.cases) == 1:
        case = difference.cases[0]
        return Table(f"{case.pair.title}{what}", HEADERS, RIGHT, _rows(case, metric))
    rows = [
        ["" if number else summary.case_name(difference, case), *row]
        for case in difference.cases
        for number, row in enumerate(_rows(case, metric))
    ]
    title = " · ".join([*summary.common(difference), f"{len(difference.cases)} cases"])
    return Table(f"{title}{what}", ["Case", *HEADERS], [False, *RIGHT], rows)


def _rows(case: CaseDifference, metric: str) -> list[list[str]]:
    times = [
        [side.times[metric].typical_us if side else None for side in (variant.old, variant.new)]
        for variant in case.variants
    ]
    unit = formatting.time_unit([time for both in times for time in both])
    return [
        [
            variant.name,
            *map(unit.text, both),
            *_changes(variant.changes.get(metric)),
            summary.outcome(variant, metric),
        ]
        for variant, both in zip(case.variants, times, strict=True)
    ]


def _changes(change: Change | None) -> list[str]:
    if change is None:
        return [formatting.NOTHING] * 3
    relative = f"{change.control}: {summary.interval(change.relative)}" if change.relative else formatting.NOTHING
    return [summary.interval(change.typical), formatting.change(change.minimum), relative]


def _gate(difference: Difference, level: str) -> dict[str, Any]:
    failures = [
        {"case": case.pair.title, "variant": variant.name, "outcome": summary.failure(variant)}
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
        **{
            f"{prefix}{side}_noise_floor": run.clocks[metric].noise_floor if run else None
            for metric, prefix in PREFIXES.items()
            for side, run in (("old", old), ("new", new))
        },
        **{f"{prefix}min_change": case.min_changes.get(metric) for metric, prefix in PREFIXES.items()},
        "variants": [_variant(variant) for variant in case.variants],
    }


def _variant(variant: VariantDifference) -> dict[str, Any]:
    old = variant.old
    new = variant.new
    return {
        "variant": variant.name,
        "broken": variant.broken,
        "fixed": variant.fixed,
        "old_status": old.status if old else None,
        "new_status": new.status if new else None,
        "old_reason": old.reason if old else None,
        "new_reason": new.reason if new else None,
        **{
            f"{prefix}{name}": value
            for metric, prefix in PREFIXES.items()
            for name, value in _metric(variant, metric).items()
        },
    }


def _metric(variant: VariantDifference, metric: str) -> dict[str, Any]:
    """One metric's part of a variant."""
    old, new = (side.times[metric] if side else None for side in (variant.old, variant.new))
    change = variant.changes.get(metric)
    time = "latency" if metric == LATENCY else "time"
    return {
        "verdict": variant.verdicts.get(metric),
        "reason": change.reason if change else None,
        f"old_{time}_us": old.typical_us if old else None,
        f"new_{time}_us": new.typical_us if new else None,
        "old_processes": old.processes if old else None,
        "new_processes": new.processes if new else None,
        **_ratio(f"{time}_ratio", change.typical if change else None),
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
