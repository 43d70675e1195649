"""RMSNorm's variants timed by torch.utils.benchmark, one after the other, as its tutorial shows."""

from __future__ import annotations

import json
import sys

import torch
from torch.utils.benchmark import Timer

from variants import rmsnorm


def main(rows: int, hidden: int, dtype: torch.dtype) -> None:
    """Prints the median seconds per call of each variant as JSON."""
    inputs = rmsnorm.inputs(rows, hidden, dtype, torch.Generator().manual_seed(0))
    x, weight = (tensor.detach() for tensor in inputs)
    functions = {
        "naive": rmsnorm.naive,
        "fused": rmsnorm.fused,
        "compiled": torch.compile(rmsnorm.naive, fullgraph=True, dynamic=False),
    }
    medians = {}
    with torch.no_grad():
        for name, function in functions.items():
            function(x, weight)
            timer = Timer(
                "function(x, weight)",
                globals={"function": function, "x": x, "weight": weight},
                num_threads=torch.get_num_threads(),
            )
            medians[name] = timer.blocked_autorange(min_run_time=0.5).median
    print(json.dumps(medians))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), getattr(torch, sys.argv[3]))
