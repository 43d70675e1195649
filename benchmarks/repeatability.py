"""Repeatability and agreement: fresh runs of the harness, alternating with torch.utils.benchmark in fresh processes.

No two runs of the harness may contradict each other. The spread of its log speedups and its median latencies are given
relative to those of torch.utils.benchmark.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

from programs import compare, options, progress, report, script

SHAPES = {"(4, 512) bfloat16": (4, 512, "bfloat16"), "(2048, 2048) float32": (2048, 2048, "float32")}
VARIANTS = ("naive", "fused", "compiled")


def main() -> None:
    args = options(__doc__, runs=10, minimum=2)  # of one run there is no spread
    figures = {}
    for name, (rows, hidden, dtype) in SHAPES.items():
        ours = []
        theirs = []
        for run in range(args.runs):
            ours.append(compare("device=cpu", f"op.dims.rows={rows}", f"op.dims.hidden={hidden}", f"dtype={dtype}"))
            theirs.append(script("torch_benchmark.py", str(rows), str(hidden), dtype))
            progress(f"{name} {run + 1}/{args.runs}")
        figures[name] = {variant: summary(variant, ours, theirs) for variant in VARIANTS}
    report(figures, args.json)


def summary(variant: str, ours: list[dict[str, Any]], theirs: list[dict[str, float]]) -> dict[str, Any]:
    """One variant's figures at one shape."""
    latencies = [float(run[variant]["latency_us"]) for run in ours]
    medians = [1e6 * run[variant] for run in theirs]
    figures: dict[str, Any] = {
        "latency_us": {"harness": statistics.median(latencies), "torch": statistics.median(medians)},
        "agreement": statistics.median(latencies) / statistics.median(medians),
    }
    if variant != "naive":
        speedups = [float(run[variant]["speedup"]) for run in ours]
        plain = [run["naive"] / run[variant] for run in theirs]
        verdicts = [run[variant]["verdict"] for run in ours]
        figures |= {
            "speedup": {"harness": [min(speedups), max(speedups)], "torch": [min(plain), max(plain)]},
            "log_spread": {"harness": spread(speedups), "torch": spread(plain)},
            "spread_ratio": spread(speedups) / spread(plain),
            "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
            "contradictions": min(verdicts.count("faster"), verdicts.count("slower")),
        }
    return figures


def spread(ratios: list[float]) -> float:
    """The standard deviation of the logarithms."""
    return statistics.stdev(map(math.log, ratios))


if __name__ == "__main__":
    main()
