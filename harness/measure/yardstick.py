"""Yardstick: a small fixed piece of work, timed beside every block, that tells how fast the machine is now.

It has nothing to do with torch or with what is measured: calls of an empty function in a Python loop, which take as
long as the processor's clock and those who share its cores from outside allow. Where other guests of the host slow an
eager operator by three quarters, they slow it by as much; integer additions too, but these vary by a third with what
ran before, where calls vary by a tenth; SHA-256 and searches in bytes are slowed by a tenth at most.
"""

from __future__ import annotations

from time import perf_counter  # bound here: a variant may replace the module's

CALLS = 300
WORK = f"{CALLS} calls"  # what it is, for those who remember it
REPEATS = 3  # the fastest counts: the first finds caches as a variant has left them


def yardstick() -> float:
    """Seconds that the work takes, the fastest of a few times: some 8 µs."""
    fastest = float("inf")
    for _ in range(REPEATS):
        start = perf_counter()
        for _ in range(CALLS):
            _nothing()
        fastest = min(fastest, perf_counter() - start)
    return fastest


def _nothing() -> None:
    pass
