"""Recording a step beside taking it: `python benchmarks/recording.py MODEL` prints the seconds and the memory of both.

MODEL is a builder's dotted path, such as planted.heavy. The first recording is not counted: it imports and loads.
"""

from __future__ import annotations

import json
import pkgutil
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch

from harness.devices.cpu import Cpu
from harness.model.groups import HotSpots
from harness.model.recording.record import record

STEPS = 3


def main() -> None:
    torch.set_num_threads(1)
    model, inputs = pkgutil.resolve_name(sys.argv[1])()
    small = torch.nn.Linear(8, 8)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        record(lambda: small(torch.ones(8)), small, Cpu(None), torch.float32, False, Path(folder))
        model(*inputs)
        start = perf_counter()
        for _ in range(STEPS):
            model(*inputs)
        steps_s = perf_counter() - start
        before = peak_bytes()
        start = perf_counter()
        step = record(lambda: model(*inputs), model, Cpu(None), torch.float32, False, Path(folder) / "step")
        rows = HotSpots(step).rows
        record_s = perf_counter() - start
    calls = sum(call.kind == "module" for call in step.calls)
    operators = sum(call.operators for call in step.calls)
    found = {
        "modules": calls,
        "operators": operators,
        "rows": len(rows),
        "three_steps_s": steps_s,
        "record_s": record_s,
    }
    print(json.dumps(found | {"ratio": record_s / steps_s, "memory_bytes": peak_bytes() - before}))


def peak_bytes() -> int:
    """The most that the process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
