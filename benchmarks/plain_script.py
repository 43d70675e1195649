"""What a person would write by hand in place of the main job: variants checked, timed, profiled and charted."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.benchmark import Timer

EPS = 1e-6


def naive(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    mean = (x * x).mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + EPS) * weight


def fused(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.rms_norm(x, x.shape[-1:], weight, EPS)


def main(folder: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 512, dtype=torch.bfloat16)
    weight = 1 + 0.1 * torch.randn(512, dtype=torch.bfloat16)
    variants = {"naive": naive, "fused": fused, "compiled": torch.compile(naive, fullgraph=True)}
    right = naive(x.double(), weight.double())
    rows = []
    with torch.no_grad():
        for name, function in variants.items():
            start = time.perf_counter()
            result = function(x, weight)
            first = time.perf_counter() - start
            torch.testing.assert_close(result.double(), right, rtol=2e-2, atol=2e-2)
            scope = {"function": function, "x": x, "weight": weight}
            timer = Timer("function(x, weight)", globals=scope, num_threads=torch.get_num_threads())
            median = timer.blocked_autorange(min_run_time=1.0).median
            with profile(
                activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=1, active=10, repeat=1)
            ) as recorded:
                for _ in range(13):
                    function(x, weight)
                    recorded.step()
            recorded.export_chrome_trace(str(folder / f"{name}.json"))
            averages = recorded.key_averages()
            print(averages.table(sort_by="self_cpu_time_total", row_limit=12))
            cpu = sum(event.self_cpu_time_total for event in averages) / 10
            rows.append({"variant": name, "latency_us": median * 1e6, "self_cpu_us": cpu, "first_s": first})
    with (folder / "comparison.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    figure, axes = plt.subplots()
    axes.bar([row["variant"] for row in rows], [row["latency_us"] for row in rows])
    axes.set_ylabel("latency in µs")
    figure.savefig(folder / "comparison.png")
    print(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
