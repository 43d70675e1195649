"""FlashInfer-Trace's Trace: what a run of a definition found of each solution, in the schema of the data set."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.problems.flashinfer import CALLS, VAR, Definition, definition
from harness.results.comparison import Comparison
from harness.results.entry import Entry
from harness.results.measurement import DEGRADED, FAILED, OK, SKIPPED

PASSED, INCORRECT = "PASSED", "INCORRECT_NUMERICAL"
KINDS = {"shape": "INCORRECT_SHAPE", "dtype": "INCORRECT_DTYPE"}  # by the first word of what is wrong with an output
TIMEOUT, COMPILE, RUNTIME = "TIMEOUT", "COMPILE_ERROR", "RUNTIME_ERROR"
COMPILERS = ("CompilationError", "InductorError", "BackendCompilerFailed")  # exceptions of theirs begin a reason


def is_of_definition(comparison: Comparison) -> bool:
    """Whether a run was of a definition."""
    inputs = comparison.document["config"]["op"]["inputs"]
    return isinstance(inputs, Mapping) and inputs["fn"] == f"{CALLS}.inputs"


def traces(comparison: Comparison) -> list[dict[str, Any]]:
    """A Trace for each solution that a run measured; one that was skipped has none.

    Raises UsageError if the run was of no definition, or if that is no longer there.
    """
    if not is_of_definition(comparison):
        raise UsageError(f"{comparison.title}: no run of a definition of FlashInfer-Trace")
    op = comparison.document["config"]["op"]
    made = op["inputs"]["args"]
    path = Path(made["problem"])
    if not path.is_file():
        raise UsageError(f"{path}: no such file; the definition that was measured is needed")
    found = definition(path, str(path))
    workload = _workload(found, made["workload"], comparison.case["dims"])
    solved = [entry for entry in comparison.entries.values() if op["variants"][entry.name].get("solution")]
    return [
        {
            "definition": found.name,
            "workload": workload,
            "solution": _solution(op["variants"][entry.name]["solution"], entry.name),
            "evaluation": _evaluation(comparison, entry),
        }
        for entry in solved
        if entry.measurement.status != SKIPPED
    ]


def _workload(found: Definition, workload: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
    """The workload that was measured, under a uuid of its own if its sizes were changed."""
    axes = {name: dims[name] for name in found.axes(VAR)}
    name = workload.get("uuid")
    if name is None or axes != workload["axes"]:
        name = str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([found.name, name, axes], sort_keys=True)))
    return {"uuid": name, "axes": axes, "inputs": workload["inputs"]}


def _solution(file: str, variant: str) -> str:
    try:
        return str(json.loads(Path(file).read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, KeyError):  # it was there when it was measured
        return variant


def _evaluation(comparison: Comparison, entry: Entry) -> dict[str, Any]:
    document = comparison.document
    status = _status(entry)
    environment = document["environment"]
    return {
        "status": status,
        "environment": {
            "hardware": str(document["device"].get("name", document["device"]["device"])),
            "libs": {name: str(environment[name]) for name in ("torch", "python") if name in environment},
        },
        "timestamp": document["created"],
        "log": entry.measurement.reason or "",
        "correctness": _correctness(entry) if status in (PASSED, INCORRECT) else None,
        "performance": _performance(comparison, entry) if status == PASSED else None,
    }


def _status(entry: Entry) -> str:
    reason = entry.measurement.reason or ""
    if entry.measurement.status in (OK, DEGRADED):
        return PASSED
    if entry.measurement.status == FAILED:
        if "timeout_s" in reason:
            return TIMEOUT
        return COMPILE if reason.startswith(COMPILERS) else RUNTIME
    said = reason.rpartition("output ")[2].partition(": ")[2] or reason  # after `output 1: `, where there are several
    return next((kind for word, kind in KINDS.items() if said.startswith(word)), INCORRECT)


def _correctness(entry: Entry) -> dict[str, Any]:
    error = entry.error
    values = (math.nan, math.nan) if error is None else (error.relative, error.absolute)
    return dict(zip(("max_relative_error", "max_absolute_error"), map(_number, values), strict=True))


def _performance(comparison: Comparison, entry: Entry) -> dict[str, Any] | None:
    own, reference, speedup = entry.latency, comparison.baseline.latency, entry.host.speedup
    if own is None or reference is None:
        return None
    return {
        "latency_ms": own.value * 1e3,
        "reference_latency_ms": reference.value * 1e3,
        "speedup_factor": reference.value / own.value if speedup is None else speedup.value,
    }


def _number(value: float | None) -> float | str:
    """A number as the schema writes it: JSON has none that is not finite."""
    if value is None or math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity"
