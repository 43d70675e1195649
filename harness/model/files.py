"""The files of a model's folder: hotspots.csv, decision.csv, model.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness import __version__
from harness.model import cases
from harness.model.analysis import Analysis, described
from harness.model.decide import Decision
from harness.model.groups import Group
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
    rows = [{name: getattr(row, name, None) for name in HOTSPOTS} for row in analysis.spots.rows]
    for row in rows:
        measured = analysis.measured.get(str(row["group"]))
        row["case"] = f"{cases.FOLDER}/{row['group']}" if measured is not None and measured.comparison else None
    storage.write_table(folder / "hotspots.csv", list(HOTSPOTS), rows)


def write_decisions(folder: Path, analysis: Analysis) -> None:
    """Writes decision.csv: a row for each replacement."""
    storage.write_table(folder / "decision.csv", list(DECISIONS), [_decision(each) for each in analysis.decisions])


def _decision(each: Decision) -> dict[str, Any]:
    row: dict[str, Any] = {"replacement": each.replacement, "group": each.group}
    row |= {"status": each.status, "decision": each.decision, "reason": each.reason}
    for name, interval in (("predicted", each.predicted), ("measured", each.measured)):
        row |= {
            f"{name}_speedup": interval and interval.value,
            f"{name}_lo": interval and interval.low,
            f"{name}_hi": interval and interval.high,
        }
    return row


def write_model(folder: Path, analysis: Analysis) -> None:
    """Writes model.json: everything, in strict JSON."""
    with storage.atomic(folder / MODEL) as file:
        json.dump(storage.strict(document(analysis)), file, allow_nan=False, ensure_ascii=False, indent=1)


def document(analysis: Analysis) -> dict[str, Any]:
    """What model.json holds."""
    asked, recording = analysis.asked, analysis.recording
    return {
        "schema_version": SCHEMA_VERSION,
        "harness": __version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": analysis.command,
        "model": {"builder": described(asked.model.builder), "class": recording.step.model},
        "config": described(asked.plain),
        "replace": [asdict(replacement) for replacement in asked.replacements],
        "device": recording.device,
        "environment": recording.environment,
        "step": asdict(recording.step),
        "rows": [asdict(row) for row in analysis.spots.rows],
        "groups": [_group(analysis, group) for group in analysis.spots.groups.values()],
        "attributed": analysis.spots.attributed,
        "measured_share": analysis.measured_share,
        "ways": [{"base": way.base, "folder": way.folder, "rows": way.comparison.rows} for way in analysis.ways],
        "decisions": [asdict(decision) for decision in analysis.decisions],
        "warnings": analysis.warnings,
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
        "host_us": group.host_us,
        "own_us": group.own_us,
        "self_cpu_us": group.self_cpu_us,
        "device_time_us": group.device_us,
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
