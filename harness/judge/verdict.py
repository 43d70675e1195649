"""Verdict: what is said of one candidate, from its row and what was found of it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from harness.measure import kinds
from harness.measure.torch_private import GUARDS
from harness.results.comparison import Comparison
from harness.results.measurement import OK, WRONG

OPERATORS = 8  # the costliest, that are shown
RATIOS = ("verdict", "speedup", "speedup_lo", "speedup_hi")  # in wall time, and on a device with a clock of its own
FIGURES = (
    "latency_us", "latency_lo_us", "latency_hi_us", "device_time_us", "device_time_lo_us", "device_time_hi_us",
    "self_cpu_us", "operator_calls", "peak_memory_bytes", "bound", "bound_share",
)  # fmt: skip


def of_fault(name: str, fault: str) -> dict[str, Any]:
    """The verdict on a candidate that could not be measured."""
    return _verdict(name, None, [{"kind": kinds.FAILED, "reason": fault}], valid=False)


def of_variant(comparison: Comparison, name: str) -> dict[str, Any]:
    """The verdict on a candidate that was measured, or tried."""
    row = next(row for row in comparison.rows if row["variant"] == name)
    entry = comparison.entries[name]
    measurement = entry.measurement
    findings = [asdict(found) for found in measurement.findings]
    replaced = any(found.kind == kinds.REPLACEMENT for found in measurement.findings)
    valid = row["status"] == OK and measurement.comparable and not measurement.no_op and not replaced
    verdict = _verdict(name, row if valid else None, findings, valid)
    verdict["status"] = WRONG if replaced and row["status"] == OK else row["status"]
    verdict["max_error"] = _plain(row["max_error"])
    verdict["notes"] = [
        note for note in measurement.notes if note not in {found.reason for found in measurement.findings}
    ]
    verdict |= {figure: _plain(row.get(figure)) for figure in FIGURES}
    verdict["operators"] = [
        {key: _plain(row[key]) for key in ("operator", "calls", "self_cpu_us", "device_time_us")}
        for row in comparison.operators_of(name)
        if row["operator"] != GUARDS
    ][:OPERATORS]
    return verdict


def ranked(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best first: the valid ones by their speed-up, then the others."""
    return sorted(verdicts, key=lambda each: (not each["valid"], -(each["speedup"] or 0.0)))


def _verdict(name: str, row: Any, findings: list[dict[str, str]], valid: bool) -> dict[str, Any]:
    ratio = {f"{on}{key}": _plain(row[f"{on}{key}"]) if row else None for on in ("", "device_") for key in RATIOS}
    return {"candidate": name, "valid": valid, "status": "failed", **ratio, "max_error": None, "findings": findings}


def _plain(value: Any) -> Any:
    """A value as JSON knows it: what is not finite is unknown."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
