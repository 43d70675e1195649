"""Runs: the results that OLD and NEW name, read, checked and paired case by case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.configuration.operation import CaseKey
from harness.report import formatting, summary
from harness.results import storage
from harness.results.comparison import Comparison
from harness.results.conditions import flat
from harness.results.entry import Entry
from harness.results.measurement import OK
from harness.results.samples import Samples
from harness.results.storage import Document
from harness.results.timing import Clock, Timing

LATENCY, DEVICE = METRICS = ("latency", "device")  # what two runs are compared by: wall time, and time on the device
NAMED = 3  # cases in an error message

Key = tuple[Any, ...]  # a CaseKey, then the values of the settings that distinguish its cases


@dataclass(frozen=True)
class Times:
    """One run's latency, or device time, of one variant."""

    typical_us: float | None
    processes: int
    right: bool  # whether they measure the variant
    noise_floor: float  # relative: of its environment


@dataclass(frozen=True)
class ClockResult:
    """All times of a case by one clock."""

    samples: Samples
    noise_floor: float  # relative


@dataclass(frozen=True)
class VariantResult:
    """One run's result for one variant."""

    status: str
    reason: str | None
    times: Mapping[str, Times]  # by metric


@dataclass(frozen=True)
class Run:
    """One case as one run measured it."""

    path: Path
    key: CaseKey
    settings: Mapping[str, Any]  # the configuration, by dotted key
    variants: Mapping[str, VariantResult]
    clocks: Mapping[str, ClockResult]  # by metric
    warnings: list[str]  # its own, of interference above all
    document: Document

    @property
    def processes(self) -> int:
        """How many processes measured it; 0 if none did to the end."""
        return max((result.times[LATENCY].processes for result in self.variants.values()), default=0)


@dataclass(frozen=True)
class Pair:
    """A case of both sides, or of one."""

    title: str
    words: tuple[str, ...]  # the parts of the title
    old: Run | None
    new: Run | None


def read(path: Path) -> list[Run]:
    """The runs of a run's folder, of a sweep's folder, or of a copy of results.json.

    Raises UsageError if there are none, or if one of them is not complete or of another schema version.
    """
    if path.is_dir() and not (path / storage.FILE).exists():
        paths = sorted(path.glob(f"*/{storage.FILE}"))
        if not paths:
            raise UsageError(f"{path}: no {storage.FILE} there or one folder below; name a run's folder or a sweep's")
        return [_run(path) for path in paths]
    return [_run(path / storage.FILE if path.is_dir() else path)]


def pair(old: Sequence[Run], new: Sequence[Run]) -> list[Pair]:
    """Every case of either side, in the order of `new`; cases of `old` alone come last.

    A sweep may vary more than what names a case, such as latency.cache: then those settings distinguish its cases.
    Raises UsageError if a side holds a case twice, or if no case is in both.
    """
    distinguishing = _distinguishing(old, new)
    olds = _by_key("OLD", old, distinguishing)
    news = _by_key("NEW", new, distinguishing)
    if not olds.keys() & news.keys():
        raise UsageError(
            f"OLD and NEW have no case in common: op, dims, dtype, mode and device must be equal; "
            f"OLD has {_titles(olds.values())}; NEW has {_titles(news.values())}"
        )
    return [_pair(olds.get(key), news.get(key), distinguishing) for key in dict.fromkeys([*news, *olds])]


def _run(path: Path) -> Run:
    document = storage.read(path)
    try:
        comparison = Comparison(document)
        return Run(
            path=path,
            key=comparison.key,
            settings=flat(document["config"]),
            variants={name: _result(entry) for name, entry in comparison.entries.items()},
            clocks={LATENCY: _clock(comparison.host_clock), DEVICE: _clock(comparison.device_clock)},
            warnings=[*summary.of_machine(comparison), *document["warnings"]],
            document=document,
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise UsageError(f"{path}: not the whole results of a run ({type(error).__name__}: {error})") from error


def _result(entry: Entry) -> VariantResult:
    return VariantResult(
        status=entry.measurement.status,
        reason=entry.measurement.reason,
        times={LATENCY: _times(entry.host), DEVICE: _times(entry.device)},
    )


def _clock(clock: Clock) -> ClockResult:
    return ClockResult(clock.samples, clock.noise_floor or clock.comparison.settings.min_effect)


def _times(timing: Timing) -> Times:
    """A variant's times; the samples of a wrong variant, or of the timing loop alone, measure nothing."""
    right = timing.entry.measurement.status == OK and timing.entry.comparable and not timing.too_short
    return Times(
        typical_us=timing.typical.value * 1e6 if timing.typical else None,
        processes=len(timing.processes),
        right=right and bool(timing.processes),
        noise_floor=timing.noise_floor or timing.clock.comparison.settings.min_effect,
    )


def _distinguishing(*sides: Sequence[Run]) -> dict[CaseKey, list[str]]:
    """For each key that a side holds several times: the settings in which those runs differ."""
    differing: dict[CaseKey, set[str]] = defaultdict(set)
    for side in sides:
        first: dict[CaseKey, Run] = {}
        for run in side:
            other = first.setdefault(run.key, run).settings
            names = other.keys() | run.settings.keys()
            differing[run.key] |= {name for name in names if other.get(name) != run.settings.get(name)}
    return {key: sorted(names) for key, names in differing.items()}


def _by_key(side: str, runs: Sequence[Run], distinguishing: Mapping[CaseKey, Sequence[str]]) -> dict[Key, Run]:
    by_key: dict[Key, Run] = {}
    for run in runs:
        key = (run.key, *(repr(run.settings.get(name)) for name in distinguishing[run.key]))
        if key in by_key:
            raise UsageError(f"{side} holds {run.key.title} twice: {by_key[key].path} and {run.path}; name one of them")
        by_key[key] = run
    return by_key


def _pair(old: Run | None, new: Run | None, distinguishing: Mapping[CaseKey, Sequence[str]]) -> Pair:
    run = new or old
    assert run is not None
    settings = [f"{name}={run.settings.get(name)}" for name in distinguishing[run.key]]
    return Pair(" · ".join([run.key.title, *settings]), (*run.key.words, *settings), old, new)


def _titles(runs: Iterable[Run]) -> str:
    return formatting.some([run.key.title for run in runs], NAMED, "; ")
