"""Pairing: the cases of two sides, brought together where they are the same case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.diff.runs import Run
from harness.errors import UsageError

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
