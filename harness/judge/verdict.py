"""Verdict: what is said of one candidate, and of which kind its findings are."""

from __future__ import annotations

import math
from typing import Any

from harness.measure.torch_private import GUARDS
from harness.results.comparison import Comparison
from harness.results.measurement import OK, WRONG

OPERATORS = 8  # the costliest, that are shown
# What a reason or a warning says, and the kind of trick that it tells of; the first that fits
KINDS = (
    ("tampers with what measures it", "tampering"),
    ("by the clock of another process", "timer"),
    ("subclass of torch.Tensor", "laziness"),
    ("whose own attributes hide", "laziness"),
    ("meta device", "laziness"),
    ("the same memory from each call", "aliasing"),
    ("remember", "cache"),
    ("right in its first call only", "cache"),
    ("work is left running", "threads"),
    ("changes its inputs in place", "in-place"),
    ("overwrites the", "in-place"),
    ("draws random numbers", "non-determinism"),
    ("differ", "values"),
    ("NaN", "values"),
    ("infinite", "values"),
    ("finite where", "values"),
    ("shape", "form"),
    ("dtype", "form"),
    ("returned a", "form"),
    ("outputs", "form"),
    ("ended its process", "exit"),
    ("sys.exit", "exit"),
    ("did not end", "time"),
    ("leaves them changed", "environment"),
    ("opens a profiler", "profiler"),
    ("starts a profiler", "profiler"),
)
SHOWN = ("leaves them changed", "a profiler")  # of warnings, those that are findings
REPLACED = " (to "  # in such a warning: a function was replaced by another
FIGURES = (
    "latency_us", "latency_lo_us", "latency_hi_us", "device_time_us", "self_cpu_us", "operator_calls",
    "peak_memory_bytes", "bound", "bound_share",
)  # fmt: skip


def of_fault(name: str, fault: str) -> dict[str, Any]:
    """The verdict on a candidate that could not be measured."""
    return _verdict(name, None, [{"kind": _kind(fault, "failed"), "reason": fault}], valid=False)


def of_variant(comparison: Comparison, name: str) -> dict[str, Any]:
    """The verdict on a candidate that was measured, or tried."""
    row = next(row for row in comparison.rows if row["variant"] == name)
    entry = comparison.entries[name]
    measurement = entry.measurement
    findings = []
    if row["reason"]:
        findings.append({"kind": _kind(row["reason"], row["status"]), "reason": row["reason"]})
    elif measurement.no_op:
        text = "it hands back its input, or runs no operator that torch sees"
        findings.append({"kind": "no work", "reason": text})
    findings += [
        {"kind": _kind(note, "environment"), "reason": note}
        for note in measurement.notes
        if any(part in note for part in SHOWN)
    ]
    replaced = any(REPLACED in finding["reason"] for finding in findings)
    valid = row["status"] == OK and measurement.comparable and not measurement.no_op and not replaced
    verdict = _verdict(name, row if valid else None, findings, valid)
    verdict["status"] = WRONG if replaced and row["status"] == OK else row["status"]
    verdict["max_error"] = _plain(row["max_error"])
    verdict["notes"] = [note for note in measurement.notes if not any(part in note for part in SHOWN)]
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
    ratio = {key: _plain(row[key]) if row else None for key in ("verdict", "speedup", "speedup_lo", "speedup_hi")}
    return {"candidate": name, "valid": valid, "status": "failed", **ratio, "max_error": None, "findings": findings}


def _kind(text: str, otherwise: str) -> str:
    return next((kind for part, kind in KINDS if part in text), otherwise)


def _plain(value: Any) -> Any:
    """A value as JSON knows it: what is not finite is unknown."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
