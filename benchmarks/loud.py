"""Loud: what a run's figures are worth beside a neighbour that takes cores for itself.

The neighbour is one busy Python loop in random phases of 0.3 to 4 s, half of them, by seed (`phases`), or two that
never rest (`stress`); `none` is the machine as it is. All parts measure RMSNorm at (4, 512) bfloat16 on the CPU at
default settings, and print what they took.

    python benchmarks/loud.py spread            latency, ratios and verdicts of runs with the neighbour and without
    python benchmarks/loud.py claims            variants that are the baseline itself: how many are called otherwise
    python benchmarks/loud.py power             a tenth more work: how often it is called slower
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from programs import compare, progress, report

CASE = ("op=rmsnorm", "device=cpu", "op.dims.rows=4", "op.dims.hidden=512", "dtype=bfloat16")
COPIES = ("a", "b", "c", "d")
TENTH = (
    "op.baseline=ten",
    "variants=[ten,more]",
    "+op.variants.ten.fn=workloads.ten",
    "+op.variants.more.fn=workloads.eleven",
)
SHORTEST_S, LONGEST_S = 0.3, 4.0  # phases
LOOPS = {"none": 0, "phases": 1, "stress": 2}  # busy processes
CONTRADICTS = 1.25  # a ratio that is claimed contradicts another if it is so many times as large, intervals considered

Rows = dict[str, dict[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["spread", "claims", "power", "neighbour"])
    parser.add_argument("--runs", type=int, default=20, help="fresh runs of each kind (default: %(default)s)")
    parser.add_argument("--neighbour", choices=LOOPS, default="phases", help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the neighbour's phases (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    if args.part == "neighbour":  # as this program starts it
        be_busy(random.Random(args.seed), always=args.neighbour == "stress")
    parts: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
        "spread": spread,
        "claims": claims,
        "power": power,
    }
    start = time.monotonic()
    figures = parts[args.part](args)
    report({"part": args.part, "neighbour": args.neighbour} | figures | {"took_s": time.monotonic() - start}, args.json)


def spread(args: argparse.Namespace) -> dict[str, Any]:
    """Runs beside the neighbour, alternating with runs without it."""
    quiet: list[Rows] = []
    loud: list[Rows] = []
    for run in range(args.runs):
        quiet.append(compare(*CASE))
        with neighbour(args.neighbour, args.seed + run):
            loud.append(compare(*CASE))
        progress(f"{run + 1}/{args.runs}: {line(quiet[-1])} | {args.neighbour}: {line(loud[-1])}")
    return {
        "without": each_variant(quiet),
        args.neighbour: each_variant(loud),
        "latency, with over without": {
            name: latency(loud, name) / latency(quiet, name) for name in quiet[0] if quiet[0][name]["latency_us"]
        },
        "same verdict as without": {
            name: sum(run[name]["verdict"] == usual(quiet, name) for run in loud) for name in ("fused", "compiled")
        },
        "contradictions": sum(contradictions([*quiet, *loud], name) for name in ("fused", "compiled")),
    }


def claims(args: argparse.Namespace) -> dict[str, Any]:
    """Copies of the baseline: every one that is called faster or slower is a false claim."""
    copies = (f"variants=[naive,{','.join(COPIES)}]", *(f"+op.variants.{c}.fn=variants.rmsnorm.naive" for c in COPIES))
    verdicts: Counter[str] = Counter()
    for run in range(args.runs):
        with neighbour(args.neighbour, args.seed + run):
            rows = compare(*CASE, *copies)
        verdicts.update(rows[copy]["verdict"] for copy in COPIES)
        progress(f"{run + 1}/{args.runs}: {dict(verdicts)}")
    false = verdicts["faster"] + verdicts["slower"]
    return {"verdicts": dict(verdicts), "false": false, "of": verdicts.total()}


def power(args: argparse.Namespace) -> dict[str, Any]:
    """A variant that does the baseline's work and a tenth more."""
    verdicts: Counter[str] = Counter()
    for run in range(args.runs):
        with neighbour(args.neighbour, args.seed + run):
            verdicts[compare(*CASE, *TENTH)["more"]["verdict"]] += 1
        progress(f"{run + 1}/{args.runs}: {dict(verdicts)}")
    return {"verdicts": dict(verdicts), "caught": verdicts["slower"] / args.runs}


def each_variant(runs: list[Rows]) -> dict[str, Any]:
    """The figures of each variant over runs; spreads are standard deviations of logarithms."""
    figures: dict[str, Any] = {}
    for name in runs[0]:
        latencies = [float(run[name]["latency_us"]) for run in runs]
        half_widths = [(float(r[name]["latency_hi_us"]) - float(r[name]["latency_lo_us"])) / 2 for r in runs]
        figures[name] = {
            "latency_us": statistics.median(latencies),
            "latency spread": deviation(latencies),
            "half-width": statistics.median(h / v for h, v in zip(half_widths, latencies, strict=True)),
            "conditions": dict(Counter(run[name]["condition"] for run in runs)),
        }
        if runs[0][name]["verdict"] != "baseline":
            speedups = [float(run[name]["speedup"]) for run in runs]
            claimed = [float(run[name]["speedup"]) for run in runs if run[name]["verdict"] != "unclear"]
            figures[name] |= {
                "speedup": statistics.median(speedups),
                "speedup spread": deviation(speedups),
                "speedup spread where claimed": deviation(claimed),
                "verdicts": dict(Counter(run[name]["verdict"] for run in runs)),
            }
    return figures


def contradictions(runs: list[Rows], name: str) -> int:
    """Pairs of runs of which one calls the variant faster and the other slower, or claims quite another ratio."""
    found = 0
    for index, one in enumerate(runs):
        for other in runs[:index]:
            verdicts = {one[name]["verdict"], other[name]["verdict"]}
            if "unclear" in verdicts:
                continue
            low, high = sorted((one[name], other[name]), key=lambda row: float(row["speedup"]))
            apart = float(high["speedup_lo"]) > CONTRADICTS * float(low["speedup_hi"])
            found += verdicts == {"faster", "slower"} or apart
    return found


def usual(runs: list[Rows], name: str) -> str:
    """The verdict that most runs give."""
    return Counter(run[name]["verdict"] for run in runs).most_common(1)[0][0]


def latency(runs: list[Rows], name: str) -> float:
    """The median over runs."""
    return statistics.median(float(run[name]["latency_us"]) for run in runs)


def deviation(values: list[float]) -> float | None:
    """The standard deviation of the logarithms."""
    return statistics.stdev(map(math.log, values)) if len(values) > 1 else None


def line(rows: Rows) -> str:
    """One run in a line."""
    return json.dumps({name: [row["latency_us"][:6], row["speedup"][:5], row["verdict"]] for name, row in rows.items()})


@contextlib.contextmanager
def neighbour(kind: str, seed: int) -> Iterator[None]:
    """A context in which it runs."""
    command = [sys.executable, __file__, "neighbour", f"--neighbour={kind}", f"--seed={seed}"]
    processes = [subprocess.Popen(command) for _ in range(LOOPS[kind])]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def be_busy(rng: random.Random, always: bool) -> None:
    """Takes a core in half of the phases, or always, until it is ended."""
    while True:
        until = time.monotonic() + rng.uniform(SHORTEST_S, LONGEST_S)
        if not always and rng.random() < 0.5:
            time.sleep(max(until - time.monotonic(), 0.0))
        while time.monotonic() < until:
            sum(range(10_000))


if __name__ == "__main__":
    main()
