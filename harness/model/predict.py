"""Prediction: a step's time from its groups', with an interval that carries the intervals of its parts.

What a replacement saves is, summed over its groups, count × (time as it is − time replaced). The times are those of the
group's case, where it runs alone; if a group's shapes differ, the count is that of calls of the case's shape that take
as long as all of them. A ratio's error is that of its interval and, as nothing smaller is claimed of it, the noise
floor of its case. Errors of separate measurements add up as the root of their squares. Within the model a call may take
longer than alone, since what it reads has left the caches: how much is seen in its operators' own time, in the step's
profile over the case's, and the interval reaches from the one to the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.groups import Group
from harness.results import statistics
from harness.results.comparison import Comparison
from harness.results.statistics import Interval

NOTHING_LEFT = 100.0  # times as fast, at most: a prediction beyond it says that nothing of a step would be left


@dataclass(frozen=True)
class Saving:
    """The seconds that a replacement saves in all calls of one group in a step; negative if it costs some."""

    seconds: Interval
    context: float  # how many times as long as alone a call takes within the model


def saving(group: Group, comparison: Comparison, base: str, replaced: str) -> Saving | None:
    """What one variant of a group's case saves in a step over another; None if that is not known."""
    before, after = comparison.entries.get(base), comparison.entries.get(replaced)
    if before is None or after is None or not (before.comparable and after.comparable) or before.latency is None:
        return None
    pairs = comparison.host_clock.samples.paired(base, replaced)
    if not any(map(len, pairs)):
        return None
    ratio = statistics.interval(pairs, comparison.settings.confidence)
    latency = before.latency

    def saved(seconds: float, speedup: float) -> float:
        return group.like_first * seconds * (1 - 1 / speedup)

    value = saved(latency.value, ratio.value)
    floor = 1 + (comparison.host_clock.noise_floor or 0.0)
    by_latency = [saved(bound, ratio.value) - value for bound in (latency.low, latency.high)]
    by_ratio = [saved(latency.value, bound) - value for bound in (ratio.low, ratio.high)]
    by_noise = [saved(latency.value, bound) - value for bound in (ratio.value / floor, ratio.value * floor)]
    down, up = (math.hypot(*map(worst, (by_latency, by_ratio, by_noise))) for worst in (min, max))
    return Saving(Interval(value, value - down, value + up), context(group, comparison, base))


def context(group: Group, comparison: Comparison, base: str) -> float:
    """How many times as long a call takes within the model as alone, by the own time of its operators."""
    profile = comparison.entries[base].profile
    if profile is None:
        return 1.0
    within, alone = group.device_time_us, profile.device_time_us
    if not within or not alone:
        within, alone = group.self_cpu_us, profile.self_cpu_us
    return within / group.like_first / alone if within and alone else 1.0


def speedup(step: Interval, savings: Sequence[Saving]) -> Interval:
    """How many times as fast a step of so many seconds gets if all of this is saved."""
    value = sum(saving.seconds.value for saving in savings)
    contexts = [sorted((saving.seconds.value, saving.seconds.value * saving.context)) for saving in savings]
    unsure = value * step.half_width
    down = math.hypot(unsure, *(saving.seconds.value - saving.seconds.low for saving in savings))
    up = math.hypot(unsure, *(saving.seconds.high - saving.seconds.value for saving in savings))
    low = sum(least for least, _ in contexts) - down
    high = sum(most for _, most in contexts) + up
    return Interval(*(_faster(step.value, saved) for saved in (value, low, high)))


def bound(step: Interval, group: Group, comparison: Comparison, base: str) -> float | None:
    """How many times as fast a step gets if the group costs nothing; None if that is not known."""
    latency = comparison.entries[base].latency
    return None if latency is None else _faster(step.value, group.like_first * latency.value)


def _faster(step: float, saved: float) -> float:
    return min(1 / (1 - saved / step), NOTHING_LEFT) if saved < step else NOTHING_LEFT
