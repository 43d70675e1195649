"""Machine: what a run knows of the machine that it was measured on, beside the variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FASTEST_PCT = 5  # the percentile of a run's yardsticks that counts as its best: a fluke is faster
OTHERS = 0.05  # cores that others have to use before a thread that waits, waits for them and not for its own kind


@dataclass(frozen=True)
class Machine:
    """How fast it is at its best, by the yardstick, and how much of it other programs used.

    `remembered_s` is the best of earlier runs, None if there were none, `own_s` that of this one; `others_cores` are
    the cores that others used on average while it measured.
    """

    remembered_s: float | None = None
    own_s: float | None = None
    others_cores: float = 0.0

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Machine:
        """What results.json holds; earlier versions kept nothing."""
        return cls(**document.get("machine", {}))

    @property
    def best_s(self) -> float:
        """Seconds that the yardstick takes at its best; infinite if nothing is known."""
        return min((value for value in (self.remembered_s, self.own_s) if value is not None), default=float("inf"))

    @property
    def shared(self) -> bool:
        """Whether other programs ran meanwhile."""
        return self.others_cores > OTHERS

    @property
    def slowdown(self) -> float:
        """How many times slower it was in this run, at its fastest, than it has been."""
        return 1.0 if self.own_s is None else self.own_s / self.best_s


def fastest(rows: Sequence[Sequence]) -> float | None:
    """The best of the yardsticks beside these samples, as Samples.of_latencies takes them; None if there are none."""
    return float(np.percentile([row[5] for row in rows], FASTEST_PCT)) if rows else None
