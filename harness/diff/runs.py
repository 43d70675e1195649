"""Runs: what OLD and NEW name, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import comparison, results
from harness.errors import UsageError
from harness.measurement import OK
from harness.results import Document


@dataclass(frozen=True)
class Seen:
    """What one run saw of one variant."""

    status: str
    reason: str | None
    latency_us: float | None
    timed: list[np.ndarray]  # seconds per call of each process; empty where its latency is no measure of it


@dataclass(frozen=True)
class Run:
    """One case as one run saw it."""

    path: Path
    key: tuple[Any, ...]  # what makes it the same case as another run's
    title: str  # the key for people
    words: tuple[str, ...]  # what the title is made of
    settings: Mapping[str, Any]  # the configuration, by dotted key
    variants: Mapping[str, Seen]
    noise_floor: float
    document: Document


def read(place: Path) -> list[Run]:
    """The runs of a run's folder, a sweep's folder, or a file that results.json was copied to.

    Raises UsageError where there are none, or where one of them is not what this harness writes.
    """
    if place.is_dir() and not (place / results.FILE).exists():
        paths = sorted(place.glob(f"*/{results.FILE}"))
        if not paths:
            raise UsageError(f"{place}: no {results.FILE} there or one folder below; name a run's folder or a sweep's")
        return [_run(path) for path in paths]
    return [_run(place / results.FILE if place.is_dir() else place)]


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted key."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        found |= flat(value, f"{key}.") if isinstance(value, Mapping) and value else {key: value}
    return found


def _run(path: Path) -> Run:
    document = results.read(path)
    try:
        case = document["case"]
        dims = [f"{name}={size}" for name, size in case["dims"].items()]
        rows = comparison.comparison(document)
        seconds = comparison.by_process(document)
        idle = {row["variant"]: row["idle"] for row in document["measurements"]}
        return Run(
            path=path,
            key=(case["op"], *case["dims"].items(), case["dtype"], case["mode"], case["device"]),
            title=results.title(document),
            words=(case["op"], *dims, case["dtype"], case["mode"], case["device"]),
            settings=flat(document["config"]),
            variants={
                row["variant"]: Seen(
                    row["status"],
                    row["reason"],
                    row["latency_us"],
                    _timed(row, seconds[row["variant"]], idle[row["variant"]]),
                )
                for row in rows
            },
            noise_floor=rows[0]["noise_floor"] or document["config"]["latency"]["min_effect"],
            document=document,
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise UsageError(f"{path}: not the whole results of a run ({type(error).__name__}: {error})") from error


def _timed(row: comparison.Row, seconds: list[np.ndarray], idle: bool) -> list[np.ndarray]:
    """The samples that tell a variant's latency: not those of a wrong one, nor of the loop around nothing."""
    latency_us = row["latency_us"]
    if row["status"] != OK or idle or latency_us is None or latency_us < comparison.TOO_FAST_US:
        return []
    return seconds
