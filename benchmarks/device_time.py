"""Device time on a simulated NeuronCore: false claims, a change on the device alone, and the table of the blog post.

Each execution takes the time of a table with a scatter of 5 %. Eight variants of the baseline's own cost are compared
with it; a variant that takes a tenth longer on the device, where dispatch by the host takes twenty times as long as
either, should be slower there and the same in wall time; the naive, the fused and the compiled RMSNorm have the post's
costs. All settings are the defaults. The simulation needs a C++ compiler.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from typing import Any

from programs import HERE, ROOT, compare, options, progress, report

sys.path.insert(0, str(ROOT / "tests"))

import neuroncore

COPIES = tuple("abcdefgh")
COSTS = {"work::usual": 100.0, "work::longer": 110.0}
DISPATCH_US = 2000.0
JITTER = 0.05
POST_US = {"naive": 2354.8, "fused": 403.3, "compiled": 375.5}


def main() -> None:
    args = options(__doc__, runs=40)
    same, longer = alike(math.ceil(args.runs * 5 / len(COPIES))), change(args.runs)
    report({"same cost": same, "a tenth longer": longer, "blog post": table()}, args.json)


def on_core(*overrides: str, **switches: Any) -> dict[str, dict[str, str]]:
    """One run on the simulated core; comparison.csv by variant."""
    variables = neuroncore.environment(**switches)
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(ROOT), str(HERE)])
    return compare("op=rmsnorm", "device=neuron", "report.charts=[]", *overrides, **variables)


def executions(**kernels: str) -> list[str]:
    """Overrides that compare variants of one execution each, by their kernels' names; the first is the baseline."""
    return [
        f"op.baseline={next(iter(kernels))}",
        f"variants=[{','.join(kernels)}]",
        *(f"+op.variants.{name}.fn=workloads.execution" for name in kernels),
        *(f"+op.variants.{name}.args.kernel='{kernel}'" for name, kernel in kernels.items()),
    ]


def alike(runs: int) -> dict[str, Any]:
    """How often a variant that costs what the baseline costs is called faster or slower on the device."""
    verdicts: Counter[str] = Counter()
    for run in range(runs):
        variants = executions(usual="work::usual", **dict.fromkeys(COPIES, "work::usual"))
        rows = on_core(*variants, costs=COSTS, jitter=JITTER)
        verdicts.update(rows[name]["device_verdict"] for name in COPIES)
        progress(f"same cost {run + 1}/{runs}: {dict(verdicts)}")
    comparisons = sum(verdicts.values())
    claimed = (verdicts["faster"] + verdicts["slower"]) / comparisons
    return {"comparisons": comparisons, "verdicts": dict(verdicts), "claimed_share": claimed}


def change(runs: int) -> dict[str, Any]:
    """How often a tenth more device time is detected, and what wall time, of which it is 0.5 %, says."""
    on_device, in_wall_time = Counter[str](), Counter[str]()
    for run in range(runs):
        variants = executions(usual="work::usual", longer="work::longer")
        row = on_core(*variants, costs=COSTS, jitter=JITTER, dispatch=DISPATCH_US)["longer"]
        on_device[row["device_verdict"]] += 1
        in_wall_time[row["verdict"]] += 1
        progress(f"a tenth longer {run + 1}/{runs}: {dict(on_device)}, in wall time {dict(in_wall_time)}")
    return {
        "runs": runs,
        "verdicts": dict(on_device),
        "slower_share": on_device["slower"] / runs,
        "in_wall_time": dict(in_wall_time),
    }


def table() -> dict[str, Any]:
    """The device times of the post's variants with their intervals, without scatter and with it."""
    figures: dict[str, Any] = {}
    for title, jitter in (("without scatter", 0.0), ("with scatter", JITTER)):
        rows = on_core("variants=[naive,fused,compiled]", jitter=jitter)
        for name, post in POST_US.items():
            low, value, high = (float(rows[name][f"device_time_{key}us"]) for key in ("lo_", "", "hi_"))
            figures[f"{name}, {title}"] = {
                "post_us": post,
                "device_time_us": value,
                "interval_us": [low, high],
                "covered": bool(low - 1e-3 <= post <= high + 1e-3),
            }
        progress(f"blog post, {title}")
    return figures


if __name__ == "__main__":
    main()
