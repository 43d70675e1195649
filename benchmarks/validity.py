"""What it costs an ordinary run to find out whether variants are valid: its time with that and without, alternating.

Left out are comparisons of the clock with that of the process that started them, contents that variants have not seen,
and further inputs (probes, sizes nearby). What is looked at after every turn is part of both.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from programs import options, progress, report, timed

from harness.__main__ import main as run
from harness.execution.processes import pool
from harness.execution.processes.messages import Finish
from harness.execution.processes.process import Process

JOB = ("op=rmsnorm", "device=cpu")
WITHOUT = "without"  # the first argument of this script's own runs


def main() -> None:
    args = options(__doc__, runs=10)
    probed = [sys.executable, "-m", "harness", *JOB]
    plain = [sys.executable, __file__, WITHOUT, *JOB, "op.probes=null", "op.vary=[]"]
    seconds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timed(probed, folder)  # fills the compile cache
        for number in range(args.runs):
            first, second = (probed, plain) if number % 2 else (plain, probed)
            took = {id(command): timed(command, folder) for command in (first, second)}
            seconds.append((took[id(probed)], took[id(plain)]))
            progress(f"with {seconds[-1][0]:.2f} s, without {seconds[-1][1]:.2f} s")
    figures = {
        "with_s": statistics.median(pair[0] for pair in seconds),
        "without_s": statistics.median(pair[1] for pair in seconds),
        "ratio": statistics.median(pair[0] / pair[1] for pair in seconds),
    }
    report(figures, args.json)


def without() -> None:
    """A run whose processes are asked to compare no clock, and to try no further contents."""
    tell = Process.tell
    pool.CLOCKED = 0
    Process.tell = lambda self, message: tell(
        self, replace(message, fresh=False) if isinstance(message, Finish) else message
    )
    del sys.argv[1]
    run()


if __name__ == "__main__":
    without() if sys.argv[1:2] == [WITHOUT] else main()
