"""Runs: what OLD and NEW name, read and checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.configuration.errors import UsageError
from harness.results import storage
from harness.results.comparison import Comparison
from harness.results.entry import Entry
from harness.results.measurement import OK
from harness.results.storage import Document


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
    comparison: Comparison

    @property
    def document(self) -> Document:
        """What results.json holds."""
        return self.comparison.document


def read(place: Path) -> list[Run]:
    """The runs of a run's folder, a sweep's folder, or a file that results.json was copied to.

    Raises UsageError where there are none, or where one of them is not what this harness writes.
    """
    if place.is_dir() and not (place / storage.FILE).exists():
        paths = sorted(place.glob(f"*/{storage.FILE}"))
        if not paths:
            raise UsageError(f"{place}: no {storage.FILE} there or one folder below; name a run's folder or a sweep's")
        return [_run(path) for path in paths]
    return [_run(place / storage.FILE if place.is_dir() else place)]


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted key."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        found |= flat(value, f"{key}.") if isinstance(value, Mapping) and value else {key: value}
    return found


def _run(path: Path) -> Run:
    comparison = Comparison(storage.read(path))
    try:
        case = comparison.case
        entries = comparison.entries
        return Run(
            path=path,
            key=(case["op"], *case["dims"].items(), case["dtype"], case["mode"], case["device"]),
            title=comparison.title,
            words=comparison.words,
            settings=flat(comparison.document["config"]),
            variants={
                row["variant"]: Seen(row["status"], row["reason"], row["latency_us"], _timed(entries[row["variant"]]))
                for row in comparison.rows
            },
            noise_floor=comparison.noise_floor or comparison.settings["min_effect"],
            comparison=comparison,
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise UsageError(f"{path}: not the whole results of a run ({type(error).__name__}: {error})") from error


def _timed(entry: Entry) -> list[np.ndarray]:
    """The samples that tell a variant's latency: not those of a wrong one, nor of the loop around nothing."""
    if entry.measurement.status != OK or not entry.comparable or entry.latency is None or entry.too_fast:
        return []
    return entry.comparison.by_process[entry.name]


SHOWN = 3  # cases named in an error

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """A case of both sides, or of one."""

    title: str
    words: tuple[str, ...]  # what the title is made of
    old: Run | None
    new: Run | None


def pair(old: Sequence[Run], new: Sequence[Run]) -> list[Pair]:
    """Every case of either side, in the order of `new`; what only `old` holds comes last.

    A sweep may vary more than what names a case, such as latency.cache: there those settings tell its cases apart.
    Raises UsageError where a side holds a case twice, or where no case is in both.
    """
    telling = _telling(old, new)
    olds, news = _by_key("OLD", old, telling), _by_key("NEW", new, telling)
    if not olds.keys() & news.keys():
        raise UsageError(
            f"OLD and NEW have no case in common: op, dims, dtype, mode and device must be equal; "
            f"OLD has {_some(olds.values())}; NEW has {_some(news.values())}"
        )
    return [_pair(olds.get(key), news.get(key), telling) for key in dict.fromkeys([*news, *olds])]


def _telling(*sides: Sequence[Run]) -> dict[Key, list[str]]:
    """For each key that a side holds several times: the settings in which those runs differ."""
    found: dict[Key, set[str]] = defaultdict(set)
    for side in sides:
        first: dict[Key, Run] = {}
        for run in side:
            other = first.setdefault(run.key, run).settings
            names = other.keys() | run.settings.keys()
            found[run.key] |= {name for name in names if other.get(name) != run.settings.get(name)}
    return {key: sorted(names) for key, names in found.items()}


def _by_key(side: str, runs: Sequence[Run], telling: Mapping[Key, Sequence[str]]) -> dict[Key, Run]:
    found: dict[Key, Run] = {}
    for run in runs:
        key = (*run.key, *(repr(run.settings.get(name)) for name in telling[run.key]))
        if key in found:
            raise UsageError(f"{side} holds {run.title} twice: {found[key].path} and {run.path}; name one of them")
        found[key] = run
    return found


def _pair(old: Run | None, new: Run | None, telling: Mapping[Key, Sequence[str]]) -> Pair:
    run = new or old
    assert run is not None
    settings = [f"{name}={run.settings.get(name)}" for name in telling[run.key]]
    return Pair(" · ".join([run.title, *settings]), (*run.words, *settings), old, new)


def _some(runs: Iterable[Run]) -> str:
    titles = [run.title for run in runs]
    more = f" and {len(titles) - SHOWN} more" if len(titles) > SHOWN else ""
    return "; ".join(titles[:SHOWN]) + more
