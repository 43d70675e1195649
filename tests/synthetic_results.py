"""Made-up results: documents and rows with known answers, for tests of what is derived from them."""

from __future__ import annotations

import copy
import itertools
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.measure import trace
from harness.report.sweep_report import Job, SweepReport
from harness.report.swept_keys import SweptRows
from harness.results import columns
from harness.results.column import Row
from harness.results.comparison import Comparison
from harness.results.plan import Planned

LATENCY = {"processes": 3, "max_processes": 12, "seconds": 1.0, "precision": 0.03, "confidence": 0.95}
LATENCY |= {"min_effect": 0.02, "cache": "warm"}
AWKWARD = 'fast "v2" <b>'


def renamed(folder: Path, place: Path, names: Mapping[str, str]) -> Path:
    """A copy of a run's results and traces in which variants have other names."""
    text = (folder / "results.json").read_text(encoding="utf-8")
    document = _renamed(json.loads(text), names)
    place.mkdir(parents=True)
    (place / "results.json").write_text(json.dumps(document), encoding="utf-8")
    for name in document["case"]["variants"]:
        old = next((was for was, new in names.items() if new == name), name)
        shutil.copytree(folder / "traces" / old, place / "traces" / trace.folder_name(name))
    return place


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Names stand as values and as keys; paths of functions are longer than a name."""
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def with_status(document: dict[str, Any], status: str, reason: str, *variants: str) -> dict[str, Any]:
    """A copy of a document in which these variants came to nothing."""
    made = copy.deepcopy(document)
    for measurement in made["measurements"]:
        if measurement["variant"] in variants:
            measurement.update(status=status, reason=reason, profile=None, timeline=None, compiles=[])
    lost = {*variants, *(["(control)"] if made["case"]["baseline"] in variants else [])}
    made["samples"]["rows"] = [row for row in made["samples"]["rows"] if row[0] not in lost]
    return made


def row(variant: str, latency: float | None, **known: Any) -> Row:
    """A row of comparison.csv; what is not given is not known."""
    made: Row = dict.fromkeys(columns.names(columns.of_case([])))
    made.update(op="rmsnorm", variant=variant, status="ok", device="cpu", dtype="bfloat16", mode="forward")
    if latency is not None:
        made.update(latency_us=latency, latency_lo_us=latency * 0.98, latency_hi_us=latency * 1.02)
    return made | known


def comparison(
    rows: Sequence[Row], operators: Mapping[str, Sequence[Mapping[str, Any]]] = {}, **known: Any
) -> Comparison:
    """A comparison of these rows; `operators` are those of profiles, by variant, the rest is of the document."""
    measurements = []
    for row in rows:
        profile = {"operators": list(operators.get(row["variant"], ())), "active": 1, "events": 1, "self_cpu_us": 0.0}
        profile |= dict.fromkeys(("operator_calls", "device_time_us", "device_executions")) | {"host_us": 0.0}
        measurements.append(
            {"variant": row["variant"], "status": row["status"], "reason": row["reason"], "error": None, "compiles": []}
            | {"profile": profile, "timeline": None}
        )
    case = {"op": "rmsnorm", "dims": {}, "dtype": "bfloat16", "mode": "forward", "device": rows[0]["device"]}
    document: dict[str, Any] = {
        "case": case | {"baseline": rows[0]["variant"]},
        "config": {"latency": LATENCY},
        "device": {},
        "work": None,
        "warnings": [],
        "measurements": measurements,
        "samples": {"rows": []},
    }
    made = Comparison(document | known)
    made.__dict__["rows"] = list(rows)  # what is cached is not derived
    return made


def planned(document: Mapping[str, Any]) -> Callable[[str], Planned]:
    """The plan of a document's case, by the name of its folder."""
    case = document["case"]
    known = {name: case[name] for name in ("op", "dims", "dtype", "device", "mode", "variants")}
    return lambda folder: Planned(folder=folder, overrides=(), swept={}, digest="", **known)


def sweep_report(folder: Path, rows: Sequence[Row], jobs: Sequence[Job], command: str = "command") -> SweepReport:
    """What a sweep's page shows."""
    return SweepReport(folder, SweptRows(rows), jobs, command, {"op": {"name": "rmsnorm"}})


def sweep(dims: Mapping[str, Sequence[int]], dtypes: Sequence[str] = ("bfloat16",)) -> tuple[list, list[Job]]:
    """Rows and jobs of a sweep: compiled wins from a size of 4,096 on, fused fails in float16."""
    rows, jobs = [], []
    for number, (sizes, dtype) in enumerate(itertools.product(itertools.product(*dims.values()), dtypes)):
        named = dict(zip(dims, sizes, strict=True))
        jobs.append(Job(" ".join(f"{dim}={size}" for dim, size in named.items()) + f" dtype={dtype}", str(number)))
        own = {**{f"dim_{dim}": size for dim, size in named.items()}, "dtype": dtype, "case": str(number)}
        naive, compiled = 10.0 + math.prod(sizes) / 512, 14.0 + math.prod(sizes) / 2048
        ratio = naive / compiled
        rows.append(row("naive", naive, speedup=1.0, speedup_lo=1.0, speedup_hi=1.0, verdict="baseline", **own))
        if dtype == "float16":
            rows.append(row("fused", None, status="failed", reason='RuntimeError: "norm" for Half', **own))
        else:
            rows.append(row("fused", naive, speedup=1.0, speedup_lo=0.96, speedup_hi=1.04, verdict="unclear", **own))
        known = {"speedup": ratio, "speedup_lo": ratio * 0.99, "speedup_hi": ratio * 1.01}
        rows.append(row("compiled", compiled, verdict="faster" if ratio > 1 else "slower", **known, **own))
    return rows, jobs
