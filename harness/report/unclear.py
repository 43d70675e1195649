"""Unclear verdicts: what would make them clear."""

from __future__ import annotations

from harness.report import formatting
from harness.results.comparison import Comparison
from harness.results.timing import Timing

PATIENT = 60  # seconds of latency.wait
ONE_PROCESS = "one process cannot tell how processes scatter; try latency.processes=5 latency.max_processes=12"


def fewer_threads(comparison: Comparison, text: str) -> str:
    """A `text` about worker.threads=1; empty if torch has one thread already."""
    return "" if comparison.document["device"].get("threads") == 1 else text


def longer_wait(comparison: Comparison) -> str:
    """`latency.wait=60`, or twice the time that was waited, if that is more."""
    return f"latency.wait={max(PATIENT, 2 * comparison.settings.patience_s):g}"


def cores(comparison: Comparison) -> str:
    """What to try where threads lacked the cores that they use."""
    return f"end those programs, or try {longer_wait(comparison)}{fewer_threads(comparison, ', or worker.threads=1')}"


def why(timing: Timing) -> str:
    """Why a timing's verdict is unclear, with what to try."""
    if timing.starved:
        return f"threads waited for cores that other programs used; {cores(timing.clock.comparison)}"
    if len(timing.pairs) == 1:
        return ONE_PROCESS
    return f"processes scatter; {more_samples(timing)}"


def more_samples(timing: Timing) -> str:
    """What would make a verdict clear that is not so for lack of samples."""
    if timing.clear_after is None or timing.clear_after_s is None:
        threads = fewer_threads(timing.clock.comparison, ", or worker.threads=1")
        return f"no number of processes would make it clear; try a quieter machine{threads}"
    processes = max(timing.clear_after, timing.clock.comparison.settings.max_processes)
    return f"try latency.max_processes={processes} latency.seconds={formatting.digits(timing.clear_after_s, 2)}"
