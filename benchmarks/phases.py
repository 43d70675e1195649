"""Simulated runs on a machine whose load comes in phases: how often intervals cover the latency of the quiet machine.

Phases of 0.3 to 4 s, half of them loud; in a loud one everything takes 1.65 times as long, give or take 5 % for each
variant. Processes differ by 2 % for each variant. They measure for their shares of the time one after the other, or in
time slices, round robin; and all rounds count, or those that the yardstick calls quiet. A run that saw too little
quiet waits for it, up to four times as long as it takes. Nothing is timed; the figures depend on the seed alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # the harness need not be installed

from harness.results import statistics
from harness.results.machine import Machine
from harness.results.samples import QUIET, Samples

LATENCIES = {"naive": 15.5e-6, "fused": 14.8e-6, "(control)": 15.5e-6}
YARDSTICK_S = 8e-6
PROCESSES, SHARE_S, SLICE_S, ROUND_S = 5, 0.156, 0.05, 0.0045
SHORTEST_S, LONGEST_S, LOUD = 0.3, 4.0, 1.65
DIFFERENCE, EFFECT, SCATTER, YARDSTICK_SCATTER = 0.05, 0.02, 0.03, 0.03  # standard deviations of logarithms
PATIENCE_S = 10.0
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Figures:
    """What runs are worth; where rounds are selected, those that saw quiet: the others say so."""

    quiet: float  # the share of runs that saw enough of the quiet machine
    latency_coverage: float
    ratio_coverage: float
    half_width: float  # median, of the latency's interval
    spread: float  # standard deviation of the latency's logarithm


def simulate(runs: int, sliced: bool, selected: bool, rng: np.random.Generator) -> Figures:
    """The figures of so many runs."""
    found = [outcome(rng, sliced, selected) for _ in range(runs)]
    worth = [one for one in found if one[0] or not selected]
    quiet, latency, ratio, half_width, value = map(np.array, zip(*worth, strict=True))
    saw = quiet.sum() / runs
    return Figures(saw, latency.mean(), ratio.mean(), float(np.median(half_width)), float(np.log(value).std()))


def outcome(rng: np.random.Generator, sliced: bool, selected: bool) -> tuple[bool, bool, bool, float, float]:
    """Of one run: whether it saw quiet, whether its intervals cover, the latency's half-width, and the latency."""
    phases = loudness(rng)
    effects = {name: rng.normal(0, EFFECT, PROCESSES) for name in LATENCIES}
    louder = {name: np.log(LOUD) + rng.normal(0, DIFFERENCE) for name in LATENCIES}
    rows: list[list] = []
    now = 0.0
    share = SHARE_S
    while True:
        order = [p for _ in range(round(share / SLICE_S)) for p in range(PROCESSES)]
        for process in order if sliced else sorted(order):
            for _ in range(int(SLICE_S / ROUND_S)):
                loud = phases(now)
                speed = YARDSTICK_S * (LOUD if loud else 1) * np.exp(abs(rng.normal(0, YARDSTICK_SCATTER)))
                for name, seconds in LATENCIES.items():
                    log = effects[name][process] + loud * louder[name] + rng.normal(0, SCATTER)
                    rows.append([name, process, len(rows), 60, seconds * np.exp(log), speed, 0.0])
                now += ROUND_S
        best = YARDSTICK_S if selected else np.inf
        samples = Samples.of_latencies(rows, list(LATENCIES), Machine(remembered_s=best))
        quiet = selected and samples.condition("naive", "fused") == QUIET
        if quiet or not selected or now > PATIENCE_S:
            break
    latency = statistics.interval(samples.of("naive"), CONFIDENCE)
    ratio = statistics.interval(samples.paired("naive", "fused"), CONFIDENCE)
    true = LATENCIES["naive"], LATENCIES["naive"] / LATENCIES["fused"]
    covers = [one.low <= truth <= one.high for one, truth in zip((latency, ratio), true, strict=True)]
    return quiet, covers[0], covers[1], latency.half_width, latency.value


def loudness(rng: np.random.Generator) -> Callable[[float], bool]:
    """A function that tells whether it is loud at a time, in seconds from the start of a run."""
    ends = np.cumsum(rng.uniform(SHORTEST_S, LONGEST_S, 40)) - rng.uniform(0, LONGEST_S)
    loud = rng.random(41) < 0.5
    return lambda now: bool(loud[np.searchsorted(ends, now)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="simulated runs of each kind (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    figures = {}
    print(
        "| processes | rounds | saw quiet | latency covered | ratio covered | half-width | spread |\n"
        + "|---" * 7
        + "|"
    )
    for sliced, selected in ((False, False), (True, False), (False, True), (True, True)):
        kind = ("in time slices" if sliced else "one after the other"), ("quiet" if selected else "all")
        found = simulate(args.runs, sliced, selected, np.random.default_rng(0))
        figures[", ".join(kind)] = asdict(found)
        covered = f"{found.latency_coverage:.1%} | {found.ratio_coverage:.1%}"
        print(f"| {' | '.join(kind)} | {found.quiet:.0%} | {covered} | ±{found.half_width:.1%} | {found.spread:.3f} |")
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
