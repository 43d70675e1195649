"""Comparison: a case's measurements against its baseline, a row for each variant; derived from results alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.devices import neuron_explorer as explorer
from harness.results import roofline, statistics
from harness.results.folder import Document
from harness.results.measurement import CONTROL, DEGRADED, OK
from harness.results.statistics import Interval, StoppingRule

COLD = 4  # a first compile that takes as many times as long as later ones found no code in a cache
TOO_FAST_US = 0.05  # a call this short is the loop around it

Row = dict[str, Any]

BEFORE_DIMS = ["op", "variant", "status", "reason", "device", "dtype", "mode"]
AFTER_DIMS = [
    "latency_us", "latency_lo_us", "latency_hi_us", "speedup", "speedup_lo", "speedup_hi", "verdict",
    "device_time_us", "self_cpu_us", "operator_calls", "device_executions", "compile_s", "graphs", "graph_breaks",
    "recompiles", "peak_memory_bytes", "max_error",
    # what follows is beyond the contract
    "max_error_relative", "max_error_units", "error_allowed_share", "latency_p5_us", "latency_p95_us", "processes",
    "samples", "noise_floor", "compile_cached", "compile_warm_s", "break_even_calls", "profiled_us",
    "profiler_overhead", "host_dispatches", "runtime_schedules", "device_busy_us", "device_span_us", "device_gap_us",
    *explorer.COLUMNS, "flops_per_s", "bytes_per_s", "cache", "bound", "bound_share",
]  # fmt: skip
OPERATOR_COLUMNS = ["variant", "operator", "calls", "self_cpu_us", "device_time_us", "device_pct"]
SAMPLE_COLUMNS = ["variant", "process", "round", "calls", "latency_us"]


def columns(dims: list[str]) -> list[str]:
    """The columns of comparison.csv, with one for each dim."""
    return [*BEFORE_DIMS, *(f"dim_{dim}" for dim in dims), *AFTER_DIMS]


def comparison(document: Document) -> list[Row]:
    """The rows of comparison.csv, in the order of the configuration."""
    case, latency = document["case"], document["config"]["latency"]
    every = _every(document)
    seconds = statistics.without_noisy_rounds(every, CONTROL)
    rows = document["measurements"]
    base = next(row for row in rows if row["variant"] == case["baseline"])
    reference = seconds[case["baseline"]] if base["status"] in (OK, DEGRADED) and not base["no_op"] else []
    rule = StoppingRule(
        latency["processes"], latency["max_processes"], latency["seconds"], latency["precision"], latency["confidence"]
    )
    comparisons = sum(row["variant"] != case["baseline"] and claimable(row) for row in rows)
    floor = _floor(every[case["baseline"]] if reference else [], every[CONTROL], latency)
    table = [
        _row(document, row, seconds[row["variant"]], reference, rule, comparisons, floor)
        | _quantiles(every[row["variant"]])
        for row in rows
    ]
    baseline = next(row for row in table if row["variant"] == case["baseline"])
    for row in table:
        row["break_even_calls"] = _break_even(row, baseline)
    return table


def operators(document: Document) -> list[Row]:
    """The rows of operators.csv: each variant's operators, the costliest first."""
    found = []
    for measurement in document["measurements"]:
        for row in (measurement["profile"] or {}).get("operators", ()):
            total = measurement["profile"]["device_time_us"]
            time = row["device_time_us"]
            share = 100 * time / total if total and time is not None else None
            found.append({"variant": measurement["variant"], **row, "device_pct": share})
    return found


def samples(document: Document) -> list[Row]:
    """The rows of samples.csv; the baseline's second name is among them."""
    return [
        {"variant": name, "process": process, "round": turn, "calls": calls, "latency_us": seconds * 1e6}
        for name, process, turn, calls, seconds in document["samples"]["rows"]
    ]


def claimable(measurement: Mapping[str, Any]) -> bool:
    """Whether a ratio to the baseline may be claimed of a variant."""
    return measurement["status"] == OK and measurement["comparable"] and not measurement["no_op"]


def by_process(document: Document) -> dict[str, list[np.ndarray]]:
    """Each variant's seconds per call in every process, in the order of rounds, without the disturbed ones."""
    return statistics.without_noisy_rounds(_every(document), CONTROL)


def _every(document: Document) -> dict[str, list[np.ndarray]]:
    """The same of all rounds."""
    names = [row["variant"] for row in document["measurements"]] + [CONTROL]
    return statistics.by_process(document["samples"]["rows"], names)


def _row(
    document: Document,
    measurement: Mapping[str, Any],
    seconds: list[np.ndarray],
    baseline: list[np.ndarray],
    rule: StoppingRule,
    comparisons: int,
    floor: float,
) -> Row:
    case = document["case"]
    profile, timeline = measurement["profile"] or {}, measurement["timeline"] or {}
    row: Row = {
        "op": case["op"],
        "variant": measurement["variant"],
        "status": measurement["status"],
        "reason": measurement["reason"],
        "device": case["device"],
        "dtype": case["dtype"],
        "mode": case["mode"],
        **{f"dim_{name}": size for name, size in case["dims"].items()},
        **dict.fromkeys(AFTER_DIMS),
        **_latency(seconds, rule.confidence),
    }
    row |= _ratio(
        measurement,
        case["baseline"],
        row["latency_us"],
        statistics.paired(baseline, seconds) if baseline else [],
        rule,
        comparisons,
        floor,
    )
    row |= {name: profile.get(name) for name in ("device_time_us", "operator_calls", "device_executions")}
    row["self_cpu_us"] = profile.get("self_cpu_us") if profile.get("operators") else None
    row["profiled_us"] = profile.get("host_us")
    row |= {
        name: timeline.get(name)
        for name in ("host_dispatches", "runtime_schedules", "device_busy_us", "device_span_us", "device_gap_us")
    }
    row |= {name: (measurement.get("engines") or {}).get(name) for name in explorer.COLUMNS}
    if row["latency_us"] and row["profiled_us"] and not row["device_time_us"]:
        row["profiler_overhead"] = row["profiled_us"] / row["latency_us"]
    row |= _compile(measurement)
    row["peak_memory_bytes"] = measurement["peak_memory_bytes"]
    error = measurement["error"] or {}
    row["max_error"], row["max_error_relative"] = error.get("absolute"), error.get("relative")
    row["max_error_units"], row["error_allowed_share"] = error.get("units"), error.get("allowed")
    row["noise_floor"] = floor if baseline else None
    row["cache"] = document["config"]["latency"]["cache"]
    if document["work"] and row["latency_us"] and not measurement["no_op"]:
        row["flops_per_s"] = document["work"]["flops"] / row["latency_us"] * 1e6
        row["bytes_per_s"] = document["work"]["bytes"] / row["latency_us"] * 1e6
        if document["device"].get("peaks"):
            bound = roofline.bound(document["work"], document["device"]["peaks"])
            row["bound"], row["bound_share"] = bound.kind, bound.seconds / row["latency_us"] * 1e6
    return row


def _latency(seconds: list[np.ndarray], confidence: float) -> Row:
    measured = [group for group in seconds if len(group)]
    if not measured:
        return {"processes": 0, "samples": 0}
    typical = statistics.interval(measured, confidence)
    return {
        "latency_us": typical.value * 1e6,
        "latency_lo_us": typical.low * 1e6,
        "latency_hi_us": typical.high * 1e6,
        "processes": len(measured),
        "samples": sum(map(len, measured)),
    }


def _quantiles(seconds: list[np.ndarray]) -> Row:
    """Of all samples: who asks for the slowest calls asks for the disturbed ones too."""
    measured = [group for group in seconds if len(group)]
    if not measured:
        return {}
    low, high = np.percentile(np.concatenate(measured), (5, 95)) * 1e6
    return {"latency_p5_us": float(low), "latency_p95_us": float(high)}


def _ratio(
    measurement: Mapping[str, Any],
    baseline: str,
    latency_us: float | None,
    pairs: list[np.ndarray],
    rule: StoppingRule,
    comparisons: int,
    floor: float,
) -> Row:
    """Speedup and verdict; neither has a meaning for a variant that is wrong, no_op or too fast to time."""
    ranked = measurement["status"] in (OK, DEGRADED) and not measurement["no_op"]
    if not ranked or not pairs or latency_us is None or latency_us < TOO_FAST_US:
        return {"verdict": None}
    if measurement["variant"] == baseline:
        return {"speedup": 1.0, "speedup_lo": 1.0, "speedup_hi": 1.0, "verdict": "baseline"}
    ratio = rule.interval(pairs, comparisons)
    return {
        "speedup": ratio.value,
        "speedup_lo": ratio.low,
        "speedup_hi": ratio.high,
        "verdict": statistics.verdict(ratio, floor, len(pairs)) if claimable(measurement) else None,
    }


def _floor(baseline: list[np.ndarray], twin: list[np.ndarray], latency: Mapping[str, Any]) -> float:
    pairs = statistics.paired(baseline, twin) if baseline else []
    measured = statistics.interval(pairs, latency["confidence"]) if pairs else Interval(1.0, 1.0, 1.0)
    return statistics.noise_floor(measured, latency["min_effect"])


def _compile(measurement: Mapping[str, Any]) -> Row:
    """The first process compiled, into a cache that later ones found."""
    compiles = measurement["compiles"]
    if not compiles:
        return {}
    first, later = compiles[0], [cost["seconds"] for cost in compiles[1:] if cost["cached"]]
    # a graph may be cached and its code still have to be built
    built = bool(later) and first["seconds"] > COLD * float(np.median(later))
    return {
        "compile_s": first["seconds"],
        "compile_cached": first["cached"] and not built,
        "compile_warm_s": float(np.median(later)) if later else None,
        "graphs": first["graphs"],
        "graph_breaks": first["graph_breaks"],
        "recompiles": measurement["recompiles"],
    }


def _break_even(row: Row, baseline: Row) -> int | None:
    """Calls after which the compile has paid for itself against the baseline."""
    if row["verdict"] != "faster" or not row["compile_s"]:
        return None
    saved = (baseline["latency_us"] - row["latency_us"]) / 1e6
    return int(np.ceil(row["compile_s"] / saved)) if saved > 0 else None
