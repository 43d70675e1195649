"""Environments: what is claimed of the same one twice, and of one in which a variable asks for a tenth more work.

Beside them, the time of a run under several environments against that of as many variants under one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

from programs import compare, progress, report

CALLS = "WORKLOAD_CALLS"  # the variable that workloads.asked_for reads
COPIES = ("again", "once_more", "a_third", "a_fourth")


def same(runs: int) -> dict[str, Any]:
    """The baseline in environments that differ in nothing."""
    verdicts: Counter[str] = Counter()
    for run in range(runs):
        given = ", ".join(f"{name}: {{}}" for name in COPIES)
        rows = compare("op=rmsnorm", "device=cpu", "variants=[naive]", f"environments={{{given}}}")
        verdicts.update(rows[f"naive@{name}"]["verdict"] for name in COPIES)
        progress(f"{run + 1}/{runs}: {dict(verdicts)}")
    return {"same": dict(verdicts)}


def planted(runs: int) -> dict[str, Any]:
    """A tenth more work, asked for by a variable."""
    verdicts: Counter[str] = Counter()
    speedups = []
    for run in range(runs):
        rows = compare(
            "op=rmsnorm",
            "device=cpu",
            "op.variants={naive: {fn: workloads.asked_for}}",
            "variants=[naive]",
            f"environments={{more: {{env: {{{CALLS}: 11}}}}}}",
        )
        verdicts[rows["naive@more"]["verdict"]] += 1
        speedups.append(float(rows["naive@more"]["speedup"]))
        progress(f"{run + 1}/{runs}: {dict(verdicts)} {speedups[-1]:.3f}")
    return {"planted": dict(verdicts), "speedups": speedups}


def cost(runs: int) -> dict[str, Any]:
    """Seconds of a run of three variants in two environments, and of six variants in one; in turn."""
    seconds: dict[str, list[float]] = {"environments": [], "plain": []}
    commands = {
        "environments": ["environments={again: {env: {OMP_DYNAMIC: 'false'}}}"],
        "plain": [
            "+op.variants.naive2={fn: variants.rmsnorm.naive}",
            "+op.variants.fused2={fn: variants.rmsnorm.fused}",
            "+op.variants.compiled2={fn: variants.rmsnorm.naive, compile: {fullgraph: true}}",
        ],
    }
    for run in range(runs):
        for name, overrides in commands.items():
            start = time.perf_counter()
            compare("op=rmsnorm", "device=cpu", *overrides)
            seconds[name].append(time.perf_counter() - start)
        progress(f"{run + 1}/{runs}: {seconds['environments'][-1]:.1f} s and {seconds['plain'][-1]:.1f} s")
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {"seconds": medians, "ratio": medians["environments"] / medians["plain"]}


PARTS = {"same": (same, 50), "planted": (planted, 40), "cost": (cost, 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="one of them (default: all)")
    parser.add_argument("--runs", type=int, help="fresh runs of each part (default: 50, 40 and 5)")
    parser.add_argument("--json", type=Path, help="adds the figures to this file as well")
    args = parser.parse_args()
    figures = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for name in [args.part] if args.part else PARTS:
        measure, usual = PARTS[name]
        figures |= measure(args.runs or usual)
    report(figures, args.json)


if __name__ == "__main__":
    main()
