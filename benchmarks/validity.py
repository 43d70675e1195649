"""What it costs an ordinary run to find out whether variants are valid: its time with that and without, alternating.

Left out are comparisons of the clock with that of the process that started them, contents that variants have not seen,
and further inputs (probes, sizes nearby). What is looked at after every turn is part of both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

from programs import environment, options, progress, report

JOB = ("op=rmsnorm", "device=cpu")
WITHOUT = """
import sys
from dataclasses import replace
from harness.__main__ import main
from harness.execution import messages, pool
from harness.execution.process import Process

told, tell = messages.Finish, Process.tell
pool.CLOCKED = 0
Process.tell = lambda self, message: tell(
    self, replace(message, fresh=False) if isinstance(message, told) else message
)
sys.exit(main())
"""


def main() -> None:
    args = options(__doc__, runs=10)
    probed = [sys.executable, "-m", "harness", *JOB]
    plain = [sys.executable, "-c", WITHOUT, *JOB, "op.probes=null", "op.vary=[]"]
    seconds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        timed(probed, folder)  # fills the compile cache
        for run in range(args.runs):
            order = (probed, plain) if run % 2 else (plain, probed)
            took = {command[1]: timed(command, folder) for command in order}
            seconds.append((took["-m"], took["-c"]))
            progress(f"with {took['-m']:.2f} s, without {took['-c']:.2f} s")
    figures = {
        "with_s": statistics.median(pair[0] for pair in seconds),
        "without_s": statistics.median(pair[1] for pair in seconds),
        "ratio": statistics.median(pair[0] / pair[1] for pair in seconds),
    }
    report(figures, args.json)


def timed(command: list[str], folder: str) -> float:
    """Wall seconds of a run."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment(), capture_output=True, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
