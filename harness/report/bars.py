"""Bars: what a chart of stacked bars shows, each bar cut into named parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """A bar of parts that follow one another, in microseconds."""

    name: str
    text: str  # beside the name
    ok: bool
    parts: Sequence[tuple[str, float]]

    @property
    def us(self) -> float:
        """Its length."""
        return sum(us for _, us in self.parts)


@dataclass(frozen=True)
class Bars:
    """The bars of a chart, the first of which gives the parts their colours."""

    title: str
    subtitle: str
    bars: Sequence[Bar]
