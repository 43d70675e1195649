"""Unclear verdicts: what would make them clear."""

from __future__ import annotations

from harness.report import formatting
from harness.results.comparison import Comparison
from harness.results.timing import Timing

CORES = "end those programs, or try latency.wait=60, or worker.threads=1"
ONE_PROCESS = "one process cannot tell how processes scatter; try latency.processes=5 latency.max_processes=12"


def why(timing: Timing) -> str:
    """Why a timing's verdict is unclear, with what to try."""
    if timing.starved:
        return f"threads waited for cores that other programs used; {CORES}"
    if len(timing.pairs) == 1:
        return ONE_PROCESS
    return f"processes scatter; {more_samples(timing.clear_after, timing.clock.comparison)}"


def more_samples(processes: int | None, comparison: Comparison) -> str:
    """What would make a verdict clear that is not so for lack of samples; `processes` is how many it would take."""
    if processes is None:
        return "no number of processes would make it clear; try a quieter machine, or worker.threads=1"
    seconds = processes * comparison.settings.seconds / comparison.settings.max_processes
    return f"try latency.max_processes={processes} latency.seconds={formatting.digits(seconds, 2)}"
