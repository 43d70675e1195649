"""The files of a model's folder: hotspots.csv, decision.csv, model.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.model import cases
from harness.model.analysis import Analysis
from harness.model.decide import Decision
from harness.model.groups import Group, Row
from harness.results import storage

MODEL = "model.json"  # written last: a folder that has it is complete
SCHEMA_VERSION = 1  # of model.json
DECISIONS = (
    "replacement", "group", "predicted_speedup", "predicted_lo", "predicted_hi",
    "measured_speedup", "measured_lo", "measured_hi", "status", "decision", "reason",
)  # fmt: skip
HOTSPOTS = ("group", "module", "function", "shapes", "dtype", "count", "self_cpu_us", "device_time_us", "share", "case")


def write_hotspots(folder: Path, analysis: Analysis) -> None:
    """Writes hotspots.csv: the rows that share the step."""
    storage.write_table(folder / "hotspots.csv", list(HOTSPOTS), hotspot_rows(analysis))


def hotspot_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The rows of hotspots.csv; the case is a folder below that of the analysis."""
    return [
        {**hotspot_row(row), "case": f"{cases.FOLDER}/{row.group}" if analysis.has_case(row.group) else None}
        for row in analysis.spots.rows
    ]


def hotspot_row(row: Row) -> dict[str, Any]:
    """A row of hotspots.csv without its case."""
    return {name: getattr(row, name) for name in HOTSPOTS[:-1]}


def write_decisions(folder: Path, analysis: Analysis) -> None:
    """Writes decision.csv: a row for each replacement."""
    storage.write_table(folder / "decision.csv", list(DECISIONS), decision_rows(analysis))


def decision_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The rows of decision.csv."""
    return [_decision(each) for each in analysis.decisions]


def _decision(each: Decision) -> dict[str, Any]:
    row: dict[str, Any] = {"replacement": each.replacement, "group": each.group}
    row |= {"status": each.status, "decision": each.decision, "reason": each.reason}
    for name, interval in (("predicted", each.predicted), ("measured", each.measured)):
        values = (None, None, None) if interval is None else (interval.value, interval.low, interval.high)
        row |= dict(zip((f"{name}_speedup", f"{name}_lo", f"{name}_hi"), values, strict=True))
    return row


def write_model(folder: Path, analysis: Analysis) -> None:
    """Writes model.json: everything, in strict JSON."""
    with storage.atomic(folder / MODEL) as file:
        json.dump(storage.strict(document(analysis)), file, allow_nan=False, ensure_ascii=False, indent=1)


def document(analysis: Analysis) -> dict[str, Any]:
    """What model.json holds."""
    return {
        "schema_version": SCHEMA_VERSION,
        **analysis.document,
        "step": asdict(analysis.recording.step),
        "rows": [asdict(row) for row in analysis.spots.rows],
        "groups": [_group(analysis, group) for group in analysis.spots.groups.values()],
        "attributed": analysis.spots.attributed,
        "measured_share": analysis.measured_share,
        "ways": [{"base": way.base, "folder": way.folder, "rows": way.comparison.rows} for way in analysis.ways],
        "decisions": [asdict(decision) for decision in analysis.decisions],
        "warnings": analysis.warned,
    }


def _group(analysis: Analysis, group: Group) -> dict[str, Any]:
    measured = analysis.measured.get(group.name)
    found = {
        "name": group.name,
        "kind": group.first.kind,
        "function": group.first.function,
        "paths": list(group.paths),
        "signature": group.first.signature,
        "known": list(group.first.known),
        "count": group.count,
        "shapes": group.shapes,
        "host_us": group.host_us,
        "own_share": group.own_share,
        "self_cpu_us": group.self_cpu_us,
        "device_time_us": group.device_time_us,
        "share": group.share,
        "shown": any(group.name == other.name for other in analysis.spots.shown),
        "case": None,
        "problem": measured.problem if measured else None,
        "bound": None,
    }
    if measured is not None and measured.comparison is not None:
        found |= {
            "case": f"{cases.FOLDER}/{group.name}",
            "rows": measured.comparison.rows,
            "bound": analysis.bound(group),
        }
    return found
