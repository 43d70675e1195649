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
    """The minimum time in seconds that work can take, and its kind: COMPUTE or MEMORY."""

    kind: str
    seconds: float


def bound(work: Mapping[str, float], peaks: Mapping[str, Any]) -> Bound:
    """The bound on one call that does `work`: FLOPs at the peak rate or bytes at the peak rate, whichever is longer."""
    compute, memory = work["flops"] / peaks["flops_per_s"], work["bytes"] / peaks["bytes_per_s"]
    return Bound(COMPUTE, compute) if compute > memory else Bound(MEMORY, memory)


def combined(settings: RooflineSettings, known: Peaks) -> Peaks | None:
    """The peaks that the settings give, and otherwise those `known`; None if one of the two is in neither."""
    configured = {key: getattr(settings, key) for key in ("flops_per_s", "bytes_per_s")}
    configured = {key: value for key, value in configured.items() if value is not None}
    sources = [f"roofline.{key}" for key in configured]
    if len(configured) < 2 and known.get("source"):
        sources.append(known["source"])
    peaks = {**known, **configured, "source": "; ".join(sources)}
    return peaks if peaks.get("flops_per_s") and peaks.get("bytes_per_s") else None


def faster_than_bound(variant: str, share: float, at: Bound, cached: bool) -> str:
    """A warning about a variant that is faster than its bound; `cached`: its data may stay in the caches."""
    causes = ["op.work declares more than is done", "the peaks are too low"]
    if cached and at.kind == MEMORY:
        causes = ["its data stay in the processor's caches, which latency.cache=cold empties", *causes]
    return (
        f"{variant} reaches {share:.0%} of the roofline's {at.kind} bound, which cannot be: {', or '.join(causes)}; "
        "roofline.measure=true measures a processor's peaks again"
    )
