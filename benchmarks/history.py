"""Histories of made runs: how often a step is found, and a change explained.

Series are simulated with noise as on two shared cores: latencies that all variants of a run share with a standard
deviation of 14 %, loud hours among them, ratios that scatter by 1 to 2 %; and with less, which nobody measured, as runs
that wait for a quiet machine might have. Nothing is timed here; the figures depend on the seed alone.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from programs import report

from harness.configuration.operation import CaseKey
from harness.history import history
from harness.history.history import History, Settings
from harness.history.record import LATENCY, RELATIVE, Setup
from harness.history.runs import Runs
from harness.history.steps import largest, steps, threshold

TENTH = 1.1
THRESHOLD = 0.03
TAILS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Student's t, 3 df": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
    "one in ten five times as large": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape) < 0.1, 5, 1) / np.sqrt(3.4)
    ),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
}
SHARED = 0.14  # standard deviation of the logarithms of a run's latencies, which its variants share
LOUD = 0.3  # what a loud hour adds to them; one run in ten begins one, and it holds for three more on average
NOISE = {"loud": (SHARED, LOUD), "quiet": (0.05, 0.1)}  # two shared cores, measured; and a quiet machine, assumed
LATENCIES = {"naive": 20.0, "fused": 18.0, "compiled": 30.0}
RATIOS = {"naive": 0.008, "fused": 0.011, "compiled": 0.02}  # standard deviations beside what is shared
LENGTHS = (8, 15, 60, 250, 1000)  # runs of an unchanged series

# What is planted: factors of fused, or of the machine's times, and conditions that change with it
PLANTED: dict[str, dict[str, Any]] = {
    "nothing": {"cause": None},
    "code: fused a tenth slower": {"cause": "code", "fused": TENTH},
    "machine: a jump by 50 %": {"cause": "machine", "machine": 1.5},
    "machine: a drift by 1 % a run": {"cause": "machine", "drift": 1.01},
    "method: the cache, and all by 30 %": {"cause": "method", "machine": 1.3, "conditions": {"latency.cache": "cold"}},
    "method: the harness, and fused by a tenth": {"cause": "method", "fused": TENTH, "conditions": {"harness": "0.2"}},
    "environment: torch, fused by a tenth": {"cause": "environment", "fused": TENTH, "conditions": {"torch": "2.14"}},
    "environment: torch, and all by 30 %": {"cause": "environment", "machine": 1.3, "conditions": {"torch": "2.14"}},
}


def detection(series: int, rng: np.random.Generator) -> dict[str, Any]:
    """Series of 60 runs, unchanged and with a step of a tenth at a random run with four on either side or more."""
    figures: dict[str, Any] = {}
    for tail, draw in TAILS.items():
        for deviation in (0.01, 0.015, 0.02):
            found = exact = false = 0
            for _ in range(series):
                values = deviation * draw(rng, (60,))
                false += bool(steps(values, np.log1p(THRESHOLD)))
                place = int(rng.integers(4, 57))
                values[place:] += np.log(TENTH)
                places = steps(values, np.log1p(THRESHOLD))
                found += any(abs(at - place) <= 1 for at in places)
                exact += places == [place]
            key = f"{tail}, sd {deviation:.1%}"
            figures[key] = {"found": found / series, "exactly": exact / series, "false": false / series}
    return figures


def false_steps(series: int, rng: np.random.Generator) -> dict[str, Any]:
    """The share of unchanged series that exceed the threshold, whatever the size of the step."""
    return {
        tail: {runs: float(np.mean(largest(draw(rng, (series, runs))) > threshold(runs))) for runs in LENGTHS}
        for tail, draw in TAILS.items()
    }


def causes(series: int, rng: np.random.Generator) -> dict[str, Any]:
    """Histories of three cases in 60 runs, each with one planted change at a random run."""
    figures = {}
    for (machine, noise), (name, plan) in itertools.product(NOISE.items(), PLANTED.items()):
        counts = {"found": 0, "right": 0, "series with a change of ratio that was not planted": 0}
        for _ in range(series):
            place = int(rng.integers(8, 53))
            made = history.of_runs(made_runs(rng, place, plan, *noise), [], 0, Settings(Path(), THRESHOLD, 0.99))
            tally(made, place, plan, counts)
        found = counts["found"]
        shares = {key: count / series for key, count in counts.items() if key != "right"}
        figures[f"{machine}: {name}"] = shares | {"right of those found": counts["right"] / found if found else None}
    return figures


def tally(made: History, place: int, plan: dict[str, Any], counts: dict[str, int]) -> None:
    """Counts one history: if the planted change was found, in all its causes right, and what else was."""
    planted = [change for change in made.changes if change.variant == "fused" or "fused" not in plan]
    ratio = "fused" in plan
    near = [
        change for change in planted if change.beside == ratio and (abs(change.place - place) <= 5 or "drift" in plan)
    ]
    counts["found"] += bool(near) and plan["cause"] is not None
    counts["right"] += bool(near) and all(change.cause == plan["cause"] for change in near)
    others = [change for change in made.changes if change.beside and change not in near]
    counts["series with a change of ratio that was not planted"] += bool(others)


def made_runs(rng: np.random.Generator, place: int, plan: dict[str, Any], scatter: float, louder: float) -> Runs:
    """60 runs of three cases, as if each had been read."""
    runs = []
    loud = False
    cases = [CaseKey("rmsnorm", (("hidden", 256 << case),), "bfloat16", "forward", "cpu") for case in range(3)]
    early = {"harness": "0.1", "torch": "2.13", "latency.cache": "warm", "host": "one"}
    setups = [
        [Setup(case, "naive", "one", early | more) for case in cases] for more in ({}, plan.get("conditions", {}))
    ]
    for number in range(60):
        loud = rng.random() < (0.75 if loud else 0.1)
        late = number >= place
        speed = plan.get("machine", 1.0) if late else 1.0
        speed *= plan.get("drift", 1.0) ** number * np.exp(louder * loud)
        for setup in setups[late]:
            shared = speed * np.exp(scatter * rng.standard_normal())
            latency = {
                name: us
                * shared
                * np.exp(RATIOS[name] * rng.standard_normal())
                * (plan.get(name, 1.0) if late else 1.0)
                for name, us in LATENCIES.items()
            }
            runs.append((f"{number}-{setup.case.dims}", setup, made_run(number, latency)))
    return Runs.of(runs)


def made_run(number: int, latency: dict[str, float]) -> list[Any]:
    """The plain values of one run, with no interval."""
    others = sorted(value for name, value in latency.items() if name != "naive")
    middle = float(np.sqrt(others[0] * others[1]))
    results = []
    for name, value in latency.items():
        beside = value / (middle if name == "naive" else latency["naive"])
        figures = {LATENCY: (float(value), None, None), RELATIVE: (float(beside), None, None)}
        results.append([name, "ok", "", figures])
    return [86_400.0 * number, None, f"{number + 1:040x}", False, None, results]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200, help="series of each kind (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    figures = {
        "a step of a tenth": detection(args.series, np.random.default_rng(0)),
        "unchanged series above the threshold": false_steps(10 * args.series, np.random.default_rng(1)),
        "causes": causes(args.series, np.random.default_rng(2)),
    }
    report(figures, args.json)


if __name__ == "__main__":
    main()
