"""Artefacts: what a device's profiler left of one variant besides trace.json, and what its own tools say of it."""

from __future__ import annotations

from dataclasses import dataclass, field

TRACE = "trace.json"  # the harness's own copy, above the profiler's folders


@dataclass(frozen=True)
class Artefact:
    """One file, by its path below the variant's folder."""

    path: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Pair:
    """A device profile and the graph that decodes it; without a `neff` none of its hash is there."""

    ntff: str
    neff: str | None


@dataclass(frozen=True)
class Capture:
    """What one variant's profile left; paths are relative to `folder`, and that to the run's folder."""

    folder: str
    files: list[Artefact]
    pairs: list[Pair]  # of the NTFFs whose names carry a hash; one of a whole session goes with every NEFF
    empty: bool  # the profiler wrote nothing at all
    troubles: list[str]  # what is missing, why, and what that costs
    commands: list[str]  # to be run in the run's folder
    decodable: bool  # whether the device's tools can sum it up
    viewing: str  # how the files are viewed, in Markdown


@dataclass(frozen=True)
class Summary:
    """Activity in a capture, by column; without `metrics`, `trouble` says why and what to do."""

    metrics: dict[str, float] = field(default_factory=dict)
    trouble: str | None = None
    timed_out: bool = False
