"""Fresh contents: whether a variant takes longer for inputs that it has not seen, as one does that remembers results.

A block's calls all have the same inputs. So a few calls are timed that each have inputs of their own, of contents that
are drawn anew in each run, and then the same calls again. Where a call does its work each time, all three take as long,
but for what caches do; how much that is, the baseline tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from typing import Any

from harness.measure.latency import Block, timer

CALLS = 8  # on unseen contents, if their inputs are small
BYTES = 4 << 20  # of the inputs of all of them, if there are several
TRIES = 15  # at most
CLEAN, GUILTY = 2, 5  # an honest one of which one try in five seems slower ends as guilty in one of a thousand cases
EXCESS_S = 1e-6  # of a call: less may be the clock's, or that of code which has left the cache
SEEN = 1.3  # times as long as the same calls again
USUAL = 2.0  # times as long as in a block


@dataclass(frozen=True)
class Slowdown:
    """How many times as long a call takes on contents that it has not seen: as in a block, and as once more."""

    usual: float
    seen: float = 1.0

    def beyond(self, explained: Slowdown) -> bool:
        """Whether it is more than noise and caches explain, as seen of the baseline."""
        return self.usual > SEEN and (
            self.seen > SEEN * max(explained.seen, 1.0) or self.usual > USUAL * max(explained.usual, 1.0)
        )


def calls(size: int) -> int:
    """How many calls on unseen contents are timed for inputs of so many bytes."""
    return max(1, min(CALLS, BYTES // max(size, 1)))


def slowdown(
    call: Callable[[], Any],
    block: Block,
    unseen: Sequence[Callable[[], Any]],
    synchronize: Callable[[], None],
    take: Callable[[Any], None],
) -> Slowdown:
    """Times a block of `call`, then each of the `unseen` calls, and these once more if they took longer.

    `take` is given what the first of them returned, as soon as they are timed.
    """
    elapsed = timer(synchronize)
    kept: list[Any] = []
    for _ in range(block.unrecorded):
        call()
    usual = elapsed(repeat(call, block.calls)) / block.calls
    first = elapsed(unseen, kept) / len(unseen)
    take(kept[0])
    if first <= max(SEEN * usual, usual + EXCESS_S):
        return Slowdown(min(first / usual, SEEN))
    return Slowdown(first / usual, first * len(unseen) / elapsed(unseen, kept))


def persistent(tries: Iterable[Slowdown], explained: Slowdown) -> Slowdown | None:
    """The typical slowdown, if more tries by GUILTY than not are beyond what is explained.

    Ends as soon as that is so, or when by CLEAN more are not: what a loud machine does to a try or two decides nothing.
    """
    seen: list[Slowdown] = []
    balance = 0
    for each in tries:
        seen.append(each)
        balance += 1 if each.beyond(explained) else -1
        if balance == -CLEAN:
            return None
        if balance == GUILTY:
            return Slowdown(median(each.usual for each in seen), median(each.seen for each in seen))
    return None


def least(tries: Iterable[Slowdown]) -> Slowdown:
    """What caches do, noise apart: the least of a few tries."""
    seen = list(tries)
    return Slowdown(min(each.usual for each in seen), min(each.seen for each in seen))


def reason(found: Slowdown) -> str:
    """What is said of a variant that remembers."""
    again = f" and {found.seen:.1f} times as long as the same contents once more" if found.seen > SEEN else ""
    return (
        f"remembers: contents that it has not seen take it {found.usual:.1f} times as long as a call while it was "
        f"timed{again}, more than the baseline's do"
    )
