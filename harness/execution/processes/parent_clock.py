"""The parent's clock: how long a process says that calls took, held against a clock that no variant can touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.execution.processes.messages import Tampered, TimedAlone
from harness.measure.kinds import TIMER

TRIES_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)  # until one agrees: on a busy machine messages wait
LONGER = 1.18  # beside the calls there are the yardstick, 0.08 of them, and messages, a millisecond or two


Tries = Iterable[tuple[float, TimedAlone]]  # seconds from asking to the answer


def tampered(names: Iterable[str], alone: Callable[[str], Tries]) -> Tampered | None:
    """Which of these variants' calls, that `alone` times, take longer by this process's clock, if any do."""
    reasons = {name: reason for name in names if (reason := disagreement(alone(name)))}
    return Tampered(tuple(reasons), next(iter(reasons.values())), TIMER) if reasons else None


def disagreement(tries: Tries) -> str | None:
    """What is wrong with what a process tells of calls, given the seconds from asking to its answer.

    None if there is nothing to compare, or if one of the tries agrees: a busy machine makes some longer.
    """
    ratios = []
    for elapsed, told in tries:
        if told.recorded is None or told.recorded <= elapsed <= LONGER * told.seconds:
            return None
        ratios.append(elapsed / max(told.seconds, 1e-9))
    if not ratios:
        return None
    least = min(ratios, key=lambda ratio: abs(ratio - 1))
    return (
        f"its calls take {least:.3g} times as long by the clock of another process as by that of its own: the clock or "
        "what is timed was tampered with"
    )
