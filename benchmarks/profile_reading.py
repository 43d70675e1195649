"""Reading a profile of 100,000 operators: the harness relative to torch's key_averages(), each in fresh processes."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from programs import options, report, script

OPERATORS = 100_000


def main() -> None:
    args = options(__doc__, runs=3)
    ways = {way: [script("profile_reading.py", way) for _ in range(args.runs)] for way in ("harness", "torch")}
    best = {way: {key: min(run[key] for run in runs) for key in runs[0]} for way, runs in ways.items()}
    report(
        {
            **best,
            "time_ratio": best["harness"]["seconds"] / best["torch"]["seconds"],
            "memory_ratio": best["harness"]["bytes"] / best["torch"]["bytes"],
        },
        args.json,
    )


def measure(way: str) -> None:
    """Records a profile, reads it one way, and prints the seconds and bytes that reading took."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    from harness.devices.cpu import Cpu
    from harness.measure import trace
    from harness.measure.attribution import Calls, summarize

    x = torch.ones(1)
    with profile(activities=[ProfilerActivity.CPU]) as recorded, record_function(trace.CALL):
        for _ in range(OPERATORS):
            torch.neg(x)
    path = Path(tempfile.mkdtemp()) / trace.TRACE
    recorded.export_chrome_trace(str(path))  # a run leaves the trace in any case
    before, start = peak(), time.perf_counter()
    if way == "harness":
        found = summarize(Calls(trace.from_file(path)), 1, Cpu(), [])
        calls = {row.operator: row.calls for row in found.operators}
    else:
        calls = {row.key: row.count for row in recorded.key_averages()}
    seconds = time.perf_counter() - start
    assert calls["aten::neg"] == OPERATORS
    print(json.dumps({"seconds": seconds, "bytes": peak() - before}))


def peak() -> int:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    if sys.argv[1:] in (["harness"], ["torch"]):
        measure(sys.argv[1])
    else:
        main()
