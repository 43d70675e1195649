"""Decisions on replacements: from verdicts, and with the reason that was seen; on made-up results."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from synthetic_results import LATENCY

from harness.model import cases, verify
from harness.model.analysis import Analysis, Asked, Measured, Way
from harness.model.decide import DO_NOT_USE, UNCLEAR, USE, Decision, agreed, decide, overtaken
from harness.model.groups import HotSpots
from harness.model.replacements import Replacement
from harness.model.step import MODULE, Call, Step
from harness.model.whole import Model, Recording
from harness.results.comparison import Comparison
from harness.results.statistics import Interval

GUARDS = "TorchDynamo Cache Lookup"


def operator(name: str, calls: int = 1, us: float = 1.0) -> dict[str, Any]:
    return {"operator": name, "calls": calls, "self_cpu_us": us, "device_time_us": None}


def measurement(variant: str, **known: Any) -> dict[str, Any]:
    profile = {
        "operators": known.pop("operators", []), "active": 1, "events": 1, "self_cpu_us": 1.0, "operator_calls": 1,
        "device_time_us": known.pop("device_time_us", None), "device_executions": None, "host_us": 1.0,
    }  # fmt: skip
    timeline = known.pop("timeline", None)
    if timeline is not None:
        timeline = {
            "host_dispatches": 1.0,
            "runtime_schedules": None,
            "device_span_us": 1.0,
            "host_us": 1.0,
            **timeline,
        }
    compiles = known.pop("compiles", [])
    plain = {"variant": variant, "status": "ok", "reason": None, "error": None, "profile": profile}
    return plain | {"timeline": timeline, "compiles": compiles} | known


def compiled(breaks: int = 0, *reasons: str) -> list[dict[str, Any]]:
    return [
        {"seconds": 1.0, "cached": True, "graphs": 1 + breaks, "graph_breaks": breaks, "break_reasons": list(reasons)}
    ]


def comparison(
    seconds: dict[str, float], spread: float = 0.001, processes: int = 5, **known: dict[str, Any]
) -> Comparison:
    """A comparison in which the calls of each variant take so many seconds; the first is the baseline."""
    draw = random.Random(0)
    baseline = next(iter(seconds))
    rows = [
        [name, process, number, 1, value * draw.lognormvariate(0, spread)]
        for name, value in [*seconds.items(), ("(control)", seconds[baseline])]
        for process in range(processes)
        for number in range(10)
    ]
    case = {"op": "net", "dims": {}, "dtype": "float32", "mode": "forward", "device": "cpu", "baseline": baseline}
    document = {
        "case": {**case, "variants": list(seconds)},
        "config": {"latency": LATENCY},
        "device": {},
        "work": None,
        "warnings": [],
        "measurements": [measurement(name, **known.get(name, {})) for name in seconds],
        "samples": {"rows": rows},
    }
    return Comparison(document)


def decided(
    whole: Comparison, predicted: tuple[float, float, float] | None = None, alone: Comparison | None = None
) -> Decision:
    base, entry = whole.baseline, whole.entries["new"]
    parts = [] if alone is None else [alone.entries["new"]]
    return decide("new", "Norm", predicted and Interval(*predicted), entry, base, parts)


def test_a_verdict_is_a_decision() -> None:
    faster = decided(comparison({"as_is": 1e-2, "new": 8e-3}), (1.2, 1.1, 1.4))
    assert (faster.decision, faster.status) == (USE, "ok")
    assert faster.reason == "a step takes 8,001 µs in place of 10.00 ms, as predicted"
    slower = decided(comparison({"as_is": 1e-2, "new": 1.2e-2}), (0.8, 0.7, 0.9))
    assert slower.decision == DO_NOT_USE
    same = decided(comparison({"as_is": 1e-2, "new": 1e-2}), (1.0, 0.9, 1.1))
    assert same.decision == DO_NOT_USE
    assert same.reason.startswith("a step takes as long")
    noisy = decided(comparison({"as_is": 1e-2, "new": 9.5e-3}, spread=0.5))
    assert noisy.decision == UNCLEAR
    assert "may be chance: processes scatter; " in noisy.reason
    near = decided(comparison({"as_is": 1e-2, "new": 9.5e-3}, spread=0.12))
    advised = re.search(r"try latency.max_processes=(\d+) latency.seconds=([\d.]+)", near.reason)
    assert advised is not None, near.reason
    assert int(advised[1]) >= LATENCY["max_processes"] and float(advised[2]) > LATENCY["seconds"]
    single = decided(comparison({"as_is": 1e-2, "new": 5e-3}, processes=1))
    assert (single.decision, single.reason.partition("; ")[2]) == (
        UNCLEAR,
        "try latency.processes=5 latency.max_processes=12",
    )


def test_what_is_not_right_is_not_used_wherever_it_was_seen() -> None:
    wrong = {"status": "wrong", "reason": "differs"}
    within = decided(comparison({"as_is": 1e-2, "new": 5e-3}, new=wrong))
    assert (within.decision, within.status, within.reason) == (DO_NOT_USE, "wrong", "wrong: differs")
    alone = comparison({"as_is": 1e-3, "new": 5e-4}, new=wrong)
    found = decided(comparison({"as_is": 1e-2, "new": 5e-3}), alone=alone)
    assert (found.decision, found.status) == (DO_NOT_USE, "wrong")
    assert found.reason == "wrong: differs (net, run alone)"
    for status in ("failed", "degraded"):
        known = {"status": status, "reason": "why"}
        assert decided(comparison({"as_is": 1e-2, "new": 5e-3}, new=known)).decision == DO_NOT_USE


def test_what_cannot_be_compared_is_unclear() -> None:
    found = decided(comparison({"as_is": 1e-2, "new": 5e-3}, new={"comparable": False, "reason": "it is random"}))
    assert (found.decision, found.reason) == (UNCLEAR, "it is random")
    base = {"status": "wrong", "reason": "differs"}
    found = decided(comparison({"as_is": 1e-2, "new": 5e-3}, as_is=base))
    assert (found.decision, found.reason) == (UNCLEAR, "the model without it is wrong: differs")


OPAQUE = {"operators": [operator("mine::norm", 4)], "compiles": compiled()}
TIMES = {"device_busy_us": 1.0}


@pytest.mark.parametrize(
    ("base", "known", "why"),
    [
        (
            {"compiles": compiled()},
            {"compiles": compiled(2, "print")},
            "the compiler breaks its graph at the replacement (2 times): print",
        ),
        ({"compiles": compiled()}, OPAQUE, "mine::norm, called 4 times a step, is opaque to the compiler"),
        (
            {"timeline": {**TIMES, "device_executions": 3.0, "device_gap_us": 0.0}},
            {"timeline": {**TIMES, "device_executions": 9.0, "device_gap_us": 0.0}},
            "the device runs 9 executions a step in place of 3",
        ),
        (
            {"timeline": {**TIMES, "device_executions": 3.0, "device_gap_us": 10.0}},
            {"timeline": {**TIMES, "device_executions": 3.0, "device_gap_us": 900.0}},
            "the device waits longer between executions, 900.0 µs in place of 10.00 µs",
        ),
        (
            {"operators": [operator(GUARDS, 1, 10.0)], "compiles": compiled()},
            {"operators": [operator(GUARDS, 9, 400.0)], "compiles": compiled()},
            "Dynamo's guards take 400.0 µs a step",
        ),
        ({"device_time_us": 900.0}, {"device_time_us": 500.0}, "the host is the limit: the device works 400.0 µs less"),
        ({}, {}, "nothing that was seen says why"),
    ],
)  # fmt: skip
def test_the_reason_says_what_was_seen(base: dict[str, Any], known: dict[str, Any], why: str) -> None:
    """Of a replacement that is faster alone, and slower in the model."""
    whole = comparison({"compiled": 1e-2, "new": 1.2e-2}, compiled=base, new=known)
    alone = comparison({"as_is": 2e-3, "new": 1e-3})
    found = decided(whole, (1.3, 1.2, 1.4), alone)
    assert (found.decision, found.base) == (DO_NOT_USE, "compiled")
    assert found.reason.startswith(
        "a step of the compiled model takes 12.00 ms in place of 10.00 ms, although a call alone"
    )
    assert "2.00× as fast" in found.reason
    assert why in found.reason


def test_a_gain_that_is_not_the_predicted_one_is_told() -> None:
    found = decided(comparison({"as_is": 1e-2, "new": 8e-3}), (1.05, 1.04, 1.06))
    assert found.decision == USE
    assert "more of a gain than predicted" in found.reason
    unknown = decided(comparison({"as_is": 1e-2, "new": 8e-3}), (100.0, 1.1, 100.0))
    assert unknown.reason.endswith("in place of 10.00 ms")


def test_where_neither_model_is_clearly_faster_it_has_to_gain_in_both() -> None:
    gains = decided(comparison({"as_is": 1e-2, "new": 8e-3}))
    loses = decided(comparison({"compiled": 1e-2, "new": 1.2e-2}))
    fails = decided(comparison({"compiled": 1e-2, "new": 5e-3}, new={"status": "failed", "reason": "why"}))
    assert agreed([gains]) == gains
    assert agreed([gains, gains]).decision == USE
    assert agreed([loses, loses]).decision == DO_NOT_USE
    found = agreed([gains, loses])
    assert (found.decision, found.measured) == (UNCLEAR, gains.measured)
    assert found.reason == f"{gains.reason}; {loses.reason}; whether the compiled model is the faster one is unclear"
    assert agreed([gains, fails]) == fails


@pytest.mark.parametrize(("compiled", "decision"), [(5e-3, DO_NOT_USE), (9e-3, USE), (1.5e-2, USE)])
def test_parts_that_are_compiled_are_of_no_use_beside_a_faster_whole(compiled: float, decision: str) -> None:
    whole = comparison({"as_is": 1e-2, "compiled": compiled, "new": 8e-3})
    entry = whole.entries["new"]
    found = overtaken(decide("new", "Norm", None, entry, whole.baseline), entry, whole.entries["compiled"])
    assert found.decision == decision
    assert ("; the model compiled whole takes 5,0" in found.reason) == (decision == DO_NOT_USE)


def analysis(whole: Comparison, chosen: list[str] | None = None, built_compiled: bool = False) -> Analysis:
    """What came of a model with two norms, of which only the whole was measured."""
    replacements = [Replacement("new", "a.new", of="a.Old")]
    asked = Asked(Model("a.build"), {"variants": chosen}, [], replacements, Path())
    given = {"dict": {"args": {"tuple": [{"tensor": [2, 8]}]}, "kwargs": {"dict": {}}}}
    calls = [Call(MODULE, "a.Net", "", -1, 0, host_us=10.0)]
    calls += [Call(MODULE, "a.Norm", path, 0, 0, host_us=45.0, known=("rmsnorm",)) for path in ("first", "second")]
    step = Step("a.Net", "float32", calls, [given], [], 100.0, 0.0, 0.0, 0.0, None, compiled=built_compiled)
    return Analysis(asked, Recording(step, {}, {}), HotSpots(step), ways=[Way("as_is", whole, "whole")])


@pytest.mark.parametrize(
    ("faulty", "chosen", "built_compiled", "status"),
    [
        ("as_is", None, False, 1),
        ("new", None, False, 1),
        ("compiled", None, False, 0),
        ("compiled", ["as_is", "compiled"], False, 1),
        ("compiled", None, True, 1),
    ],
)
def test_what_was_not_asked_for_does_not_make_the_exit_status(
    faulty: str, chosen: list[str] | None, built_compiled: bool, status: int
) -> None:
    known = {faulty: {"status": "degraded", "reason": "nothing was compiled"}}
    whole = comparison({"as_is": 1e-2, "compiled": 1e-2, "new": 1e-2}, **known)
    assert analysis(whole, chosen, built_compiled).status == status
    assert analysis(comparison({"as_is": 1e-2, "new": 1e-2}), chosen, built_compiled).status == 0


def test_the_librarys_replacements_are_predicted_in_either_model() -> None:
    """In the compiled one from what they gain on the compiled module; which alone wins is no replacement of its own."""
    found = analysis(comparison({"as_is": 1e-2, "compiled": 6e-3}))
    norm = found.spots.groups["Norm_2x8"]
    variants = cases.operation(found.asked.model, norm, [], {})["variants"]
    assert list(variants) == ["as_is", "compiled", "rmsnorm_naive", "rmsnorm_fused", "rmsnorm_naive_compiled",
                              "rmsnorm_fused_compiled"]  # fmt: skip
    seconds = dict(zip(variants, (3e-3, 4e-3, 4e-3, 1.5e-3, 4e-3, 1e-3), strict=True))
    found.measured["Norm_2x8"] = Measured(norm, comparison(seconds))
    (winner,) = verify.winners(found)
    assert (winner.name, winner.by, winner.at) == (
        "rmsnorm_fused Norm_2x8",
        "variants.rmsnorm.fused",
        ("first", "second"),
    )
    for base, saved in (("as_is", 2 * 1.5e-3), ("compiled", 2 * 3e-3)):
        (part,) = verify.alone(found, winner, base)
        assert part.saving is not None
        assert part.saving.seconds.value == pytest.approx(saved, rel=0.01)
