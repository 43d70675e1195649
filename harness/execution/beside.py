"""Beside: whether the baseline takes longer in processes that variants share than in one of its own.

A variant can slow others in more ways than anybody can list; each of them shows here.
"""

from __future__ import annotations

from statistics import median

from harness.execution.collected import Collected
from harness.execution.processes.pool import Pool

TRIES = 15  # at most
CLEAN, SLOW = 2, 4  # so many more agree, or do not: a loud machine decides one or another
LONGER = 1.15  # two processes seldom differ by as much; where they do, all is measured once more, and nobody accused

Measured = tuple[Collected, Pool]  # processes, and what they have sent


def slowed(baseline: str, shared: Measured, alone: Measured) -> float | None:
    """How many times as long it takes, in time slices that take turns; None if it does not."""
    ratios: list[float] = []
    balance = 0
    for _ in range(TRIES):
        beside_s, alone_s = _once(baseline, *shared), _once(baseline, *alone)
        if not beside_s or not alone_s:
            return None
        ratios.append(beside_s / alone_s)
        balance += 1 if ratios[-1] > LONGER else -1
        if balance == -CLEAN:
            return None
        if balance == SLOW:
            return median(ratios)
    return None


def _once(baseline: str, seen: Collected, pool: Pool) -> float:
    """Seconds of a call in one more time slice; 0 if it was not timed."""
    before = len(seen.samples)
    if len(pool):
        pool.once()
    found = [seconds for name, _, _, _, seconds, *_ in seen.samples[before:] if name == baseline]
    return median(found) if found else 0.0
