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
EXPLAINED = 2.0  # times what caches cost a call of the baseline
WAITED = 0.05  # of a try's time: one that waited longer for a core tells nothing


@dataclass(frozen=True)
class Slowdown:
    """Seconds of a call on contents that it has not seen, of one in a block, and of the same contents once more."""

    first_s: float
    usual_s: float
    again_s: float

    @property
    def usual(self) -> float:
        """How many times as long as in a block."""
        return self.first_s / self.usual_s

    @property
    def seen(self) -> float:
        """How many times as long as the same contents once more."""
        return self.first_s / self.again_s

    def beyond(self, explained: Slowdown) -> bool:
        """Whether it is more than noise and caches explain, as seen of the baseline.

        What caches cost is a time, and no factor: the faster a call, the more it is beside it.
        """
        again = self.first_s - self.again_s > EXPLAINED * max(explained.first_s - explained.again_s, 0.0) + EXCESS_S
        usual = self.first_s - self.usual_s > EXPLAINED * max(explained.first_s - explained.usual_s, 0.0) + EXCESS_S
        return self.usual > SEEN and ((self.seen > SEEN and again) or (self.usual > USUAL and usual))


def calls(size: int) -> int:
    """How many calls on unseen contents are timed for inputs of so many bytes."""
    return max(1, min(CALLS, BYTES // max(size, 1)))


def slowdown(
    call: Callable[[], Any],
    block: Block,
    unseen: Sequence[Callable[[], Any]],
    synchronize: Callable[[], None],
    show: Callable[[], None],
    kept: list[Any] | None,
    explains: bool,
) -> Slowdown:
    """Times a block of `call`, then each of the `unseen` calls, and these once more if they took longer.

    Once more in any case if they `explain` what caches do. `show` is called before the first of them, and puts the
    contents in place; what they return is put into `kept`, if that is a list.
    """
    elapsed = timer(synchronize)
    for _ in range(block.unrecorded):
        call()
    usual = elapsed(repeat(call, block.calls)) / block.calls
    show()
    first = elapsed(unseen, kept) / len(unseen)
    longer = explains or first > max(SEEN * usual, usual + EXCESS_S)
    return Slowdown(first, usual, elapsed(unseen) / len(unseen) if longer else first)


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
            return typical(seen)
    return None


def typical(tries: Sequence[Slowdown]) -> Slowdown:
    """The medians of one or more tries."""
    first, usual, again = zip(*((each.first_s, each.usual_s, each.again_s) for each in tries), strict=True)
    return Slowdown(median(first), median(usual), median(again))


def reason(found: Slowdown) -> str:
    """What is said of a variant that remembers."""
    again = f" and {found.seen:.1f} times as long as the same contents once more" if found.seen > SEEN else ""
    return (
        f"remembers: contents that it has not seen take it {found.usual:.1f} times as long as a call while it was "
        f"timed{again}, more than the baseline's do"
    )
