"""The roofline: the bound that a machine's peaks put on declared work (Williams, Waterman and Patterson, 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.configuration.settings import RooflineSettings

COMPUTE, MEMORY = "compute", "memory"

Peaks = dict[str, Any]  # flops_per_s, bytes_per_s and the source of both


@dataclass(frozen=True)
class Bound:
    """The least time that work can take, and what takes it."""

    kind: str
    seconds: float


def bound(work: Mapping[str, float], peaks: Mapping[str, Any]) -> Bound:
    """The bound on one call that does `work`: FLOPs at the peak rate or bytes at the peak rate, whichever is longer."""
    compute, memory = work["flops"] / peaks["flops_per_s"], work["bytes"] / peaks["bytes_per_s"]
    return Bound(COMPUTE, compute) if compute > memory else Bound(MEMORY, memory)


def given(settings: RooflineSettings, otherwise: Peaks) -> Peaks | None:
    """The peaks that the settings give, over those known `otherwise`; None where one of the two stays unknown."""
    told = {key: getattr(settings, key) for key in ("flops_per_s", "bytes_per_s")}
    told = {key: value for key, value in told.items() if value is not None}
    sources = [f"roofline.{key}" for key in told]
    if len(told) < 2 and otherwise.get("source"):
        sources.append(otherwise["source"])
    peaks = {**otherwise, **told, "source": "; ".join(sources)}
    return peaks if peaks.get("flops_per_s") and peaks.get("bytes_per_s") else None


def doubt(variant: str, share: float, at: Bound, cached: bool) -> str:
    """What is said of a variant that is faster than its bound; `cached`: its data may stay in the caches."""
    causes = ["op.work declares more than is done", "the peaks are too low"]
    if cached and at.kind == MEMORY:
        causes = ["its data stay in the processor's caches, which latency.cache=cold empties", *causes]
    return (
        f"{variant} reaches {share:.0%} of the roofline's {at.kind} bound, which cannot be: {', or '.join(causes)}; "
        "roofline.measure=true measures a processor's peaks anew"
    )
