"""Simulated coverage, false claims and power of the whole measuring procedure, stopping rule included.

A process's effect is drawn from a normal distribution, from Student's t with 3 degrees of freedom, or from a
contaminated normal (one in ten with five times the standard deviation), and scaled to the standard deviation `sd`. The
effect on a single ratio has that distribution; several ratios are differences to the effect on the baseline, so that
they are correlated by one half. Sampling ends by the stopping rule, or after as many processes as the time allows.
Coverage is joint: the share of runs in which all intervals hold the truth, for true ratios of 1, of the noise floor
and of 1.1. Nothing is timed; the figures depend on the
seed alone. The last lines are the table of docs/method.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # the harness need not be installed

from harness.results import statistics
from harness.results.stopping import StoppingRule

DEFAULT = StoppingRule(minimum=5, maximum=12, seconds=2.5, precision=0.03, confidence=0.95)
TAILS = {"normal": "normal", "student": "Student's t, 3 df", "contaminated": "one in ten five times as large"}
DEVIATIONS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1)
COMPARISONS = (1, 3)
BUDGETS = (6, 8, 12)  # processes that the time allows; 12 is the most there may be
MIN_EFFECT = 0.02
EDGE = 1 + MIN_EFFECT  # a true speedup on which no verdict is clear
POWER = 1.1  # the true speedup that power is given for

Looks = dict[int, tuple[np.ndarray, np.ndarray]]  # trimmed means and standard errors, by number of processes


@dataclass(frozen=True)
class Paths:
    """Estimates of many runs after each number of processes, for effects of unit variance.

    Arrays have shape (runs, ratios); of the A/A control and of the baseline's latency (runs,).
    """

    ratios: Looks
    control: Looks
    latency: Looks


@dataclass(frozen=True)
class Figures:
    """The outcome of many runs; shares are of runs, those of claims of ratios."""

    coverage: float  # of all ratios jointly
    latency_coverage: float  # of the baseline's latency
    processes: float  # mean
    half_width: float  # median of the widest interval of a run, in logarithms
    faster: float  # share of claims
    slower: float


def effects(rng: np.random.Generator, tail: str, shape: tuple[int, ...]) -> np.ndarray:
    """Independent effects of mean 0 and variance 1."""
    if tail == "student":
        return rng.standard_t(3, shape) / np.sqrt(3)
    normal = rng.standard_normal(shape)
    if tail == "normal":
        return normal
    outlying = rng.random(shape) < 0.1
    return np.where(outlying, 5 * normal, normal) / np.sqrt(0.9 + 0.1 * 25)


def draw(
    tail: str,
    comparisons: int,
    runs: int,
    rng: np.random.Generator,
    maximum: int = DEFAULT.maximum,
    shared: bool | None = None,
) -> Paths:
    """Random runs; `shared`: whether ratios share the baseline's effect, by default where there are several."""
    baseline = effects(rng, tail, (runs, 1, maximum))
    drawn = effects(rng, tail, (runs, comparisons + 1, maximum))
    if comparisons > 1 if shared is None else shared:
        drawn = (baseline - drawn) / np.sqrt(2)
    return Paths(_looks(drawn[:, 1:]), _looks(drawn[:, 0]), _looks(baseline[:, 0]))


def procedure(
    paths: Paths, deviation: float, budget: int, rule: StoppingRule = DEFAULT, speedup: float = 1.0
) -> Figures:
    """The runs at effects of standard deviation `deviation`, where time ends after `budget` processes."""
    truth = np.log(speedup)
    runs, comparisons = paths.ratios[budget][0].shape
    confidence = statistics.level(rule.confidence, comparisons)
    sampling, ended = np.ones(runs, bool), np.empty((runs, 6))
    for count in range(max(rule.minimum, 2), budget + 1):
        mean, error = (deviation * value for value in paths.ratios[count])
        half = rule.widened(statistics.critical_value(count, confidence) * error, count, comparisons)
        floor = np.maximum(np.abs(deviation * paths.control[count][0]), np.log1p(MIN_EFFECT))[:, None]
        settled = rule.settled(truth + mean, half, np.expm1(floor), budget / count).all(axis=1)
        stops = sampling & (settled | (count == budget))
        latency, latency_error = paths.latency[count]
        figures = (
            (np.abs(mean) <= half).all(axis=1),
            np.abs(latency) <= statistics.critical_value(count, rule.confidence) * latency_error,
            np.full(runs, count),
            half.max(axis=1),
            (truth + mean - half > floor).mean(axis=1),
            (truth + mean + half < -floor).mean(axis=1),
        )
        ended[stops] = np.stack(figures, axis=1)[stops]
        sampling &= ~stops
    means = ended.mean(axis=0).tolist()
    return Figures(*means[:3], float(np.median(ended[:, 3])), *means[4:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40_000, help="simulated runs of each setting")
    parser.add_argument("--minimum", type=int, default=DEFAULT.minimum, help="latency.processes")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    rule = StoppingRule(args.minimum, DEFAULT.maximum, DEFAULT.seconds, DEFAULT.precision, DEFAULT.confidence)
    rows = []
    print("tail          sd  comparisons  budget | coverage  latency  processes  half-width | false claims  power")
    for tail in TAILS:
        for comparisons in COMPARISONS:
            paths = draw(tail, comparisons, args.runs, np.random.default_rng(0))
            for deviation in DEVIATIONS:
                for budget in BUDGETS:
                    same = procedure(paths, deviation, budget, rule)
                    edge = procedure(paths, deviation, budget, rule, speedup=EDGE)
                    faster = procedure(paths, deviation, budget, rule, speedup=POWER)
                    setting = {"tail": tail, "sd": deviation, "comparisons": comparisons, "budget": budget}
                    covered = {"covered": [each.coverage for each in (same, edge, faster)]}
                    rows.append(setting | asdict(same) | {"power": faster.faster} | covered)
                    print(
                        f"{tail:12} {deviation:4.0%}  {comparisons:11}  {budget:6} | {same.coverage:8.1%}"
                        f"  {same.latency_coverage:7.1%}  {same.processes:9.1f}  {same.half_width:10.1%}"
                        f" | {same.faster + same.slower:12.2%}  {faster.faster:5.0%}"
                    )
    print("\n".join(["", *summary(rows)]))
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table: the range of each figure over standard deviations and budgets."""
    headers = [
        "process effects",
        "ratios",
        "all ratios covered, sd to 3 %",
        "sd 5 to 10 %",
        "latency covered",
        "false claims, sd to 5 %",
        "false claims, sd 10 %",
        "a tenth detected, sd 3 %",
        "a tenth detected, sd 10 %",
    ]
    lines = [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|"]
    for tail in TAILS:
        for comparisons in COMPARISONS:
            group = [row for row in rows if (row["tail"], row["comparisons"]) == (tail, comparisons)]
            claims = [(row["sd"], row["faster"] + row["slower"]) for row in group]
            cells = [
                TAILS[tail],
                str(comparisons),
                _span([share for row in group if row["sd"] <= 0.03 for share in row["covered"]], 1),
                _span([share for row in group if row["sd"] > 0.03 for share in row["covered"]], 1),
                _span([row["latency_coverage"] for row in group], 1),
                _span([claimed for deviation, claimed in claims if deviation <= 0.05], 2),
                _span([claimed for deviation, claimed in claims if deviation == 0.1], 2),
                _span([row["power"] for row in group if row["sd"] == 0.03], 0),
                _span([row["power"] for row in group if row["sd"] == 0.1], 0),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _span(shares: list[float], decimals: int) -> str:
    """`94.2 to 96.5 %`."""
    low, high = (f"{100 * share:.{decimals}f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _looks(drawn: np.ndarray) -> Looks:
    return {count: statistics.trimmed_mean(drawn[..., :count])[:2] for count in range(2, drawn.shape[-1] + 1)}


if __name__ == "__main__":
    main()
