"""Unclear verdicts: what would make them clear."""

from __future__ import annotations

from harness.report import formatting
from harness.results.timing import Timing

CORES = "end those programs, or try latency.wait=60, or worker.threads=1"
ONE_PROCESS = "one process cannot tell how processes scatter; try latency.processes=5 latency.max_processes=12"


def why(timing: Timing) -> str:
    """Why a timing's verdict is unclear, with what to try."""
    if timing.starved:
        return f"threads waited for cores that other programs used; {CORES}"
    if len(timing.pairs) == 1:
        return ONE_PROCESS
    return f"processes scatter; {more_samples(timing)}"


def more_samples(timing: Timing) -> str:
    """What would make a verdict clear that is not so for lack of samples."""
    if timing.clear_after is None or timing.clear_after_s is None:
        return "no number of processes would make it clear; try a quieter machine, or worker.threads=1"
    processes = max(timing.clear_after, timing.clock.comparison.settings.max_processes)
    return f"try latency.max_processes={processes} latency.seconds={formatting.digits(timing.clear_after_s, 2)}"
