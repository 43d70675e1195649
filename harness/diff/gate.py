"""Gate: what of a difference is not let pass, at each level of strictness."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line reads the levels before it imports anything large
    from harness.diff.difference import CaseDifference, Difference, VariantDifference

BROKEN, SLOWER = "broken", "slower"
LEVELS = (BROKEN, SLOWER)  # each refuses what those before it refuse


def refused(difference: Difference, level: str | None) -> list[tuple[CaseDifference, VariantDifference]]:
    """What a gate of this level fails on; nothing where there is no gate."""
    return [
        (case, variant)
        for case in difference.cases
        for variant in case.variants
        if level is not None and (variant.broken or (level == SLOWER and variant.verdict == SLOWER))
    ]
