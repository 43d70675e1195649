"""Reading: the runs that files hold; those whose contents the store does not know are looked into."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.configuration.errors import UsageError
from harness.history import helpers, record
from harness.history.record import Plain
from harness.history.runs import NONE, Runs
from harness.history.sources import ABSENT, KEY, UNREAD, Branch, Listing, Sources
from harness.history.store import Store

PORTION = 8  # files that a process reads at a time
KEPT = 1024  # files after which what was read is kept, whatever comes

Problem = tuple[str, str]  # a file that holds no whole results, and why


@dataclass(frozen=True)
class Reading:
    """What the sources hold."""

    runs: Runs
    problems: Sequence[Problem]
    copies: Sequence[str]  # files that hold what another one holds
    new: int  # contents that were not in the store
    told: str | None = None  # why that is all of them each time


def read(kept_in: Path, paths: Sequence[Path], branch: str | None) -> Reading:
    """The runs in folders and files, and in a branch; of a content that is there twice the first one counts.

    A store that is damaged is made again. Without one that can be written, all is read each time. Raises UsageError for
    a path that does not exist, and if there is no such branch.
    """
    try:
        with Store(kept_in) as store:
            return _read(store, paths, branch)
    except (OSError, sqlite3.OperationalError) as error:
        with Store(Path(":memory:")) as store:
            told = f"{kept_in}: cannot be written ({error}): all results are read each time"
            return replace(_read(store, paths, branch), told=told)
    except sqlite3.DatabaseError:
        kept_in.unlink()
        return read(kept_in, paths, branch)


def _read(store: Store, paths: Sequence[Path], branch: str | None) -> Reading:
    problems: list[Problem] = []
    listings = {path: Listing(path, store.listing(path)) for path in dict.fromkeys(paths)}
    several: list[Sources] = [*listings.values(), *([Branch(branch)] if branch is not None else [])]
    new = sum(_number(sources, store, problems) for sources in several)
    if changed := {path: listing.known for path, listing in listings.items() if listing.changed}:
        store.keep_listings(changed)
    _overlap(several)
    told = store.problems()
    for sources in several:
        for place in np.flatnonzero(np.isin(sources.contents, [*told])).tolist():
            problem = told[int(sources.contents[place])]
            if problem or sources.expected(place):
                problems.append((sources.names[place], problem or "holds no results"))
    columns, numbers = store.columns(), np.concatenate([sources.contents for sources in several])
    holding = np.flatnonzero(numbers >= 0)
    holding = holding[columns.runs["setup"][numbers[holding]] != NONE]
    first = np.sort(np.unique(numbers[holding], return_index=True)[1])
    counted = holding[first]
    names = np.array(_texts([name for sources in several for name in sources.names]), object)
    pages = np.concatenate([sources.pages() for sources in several])
    runs = Runs(columns, numbers[counted], names[counted], pages[counted])
    return Reading(runs, problems, names[np.delete(holding, first)].tolist(), new)


def _number(sources: Sources, store: Store, problems: list[Problem]) -> int:
    """Numbers the contents of files, after reading those that the store does not know; returns how many these are."""
    new = 0
    unread = np.flatnonzero(sources.contents == UNREAD).tolist()
    for start in range(0, len(unread), KEPT):
        numbers = store.numbers()
        keys = {place: sources.key(place) for place in unread[start : start + KEPT]}
        unknown = [place for place, key in keys.items() if key not in numbers]
        fresh: dict[bytes, bytes] = {}
        for place, content in zip(unknown, sources.read(unknown), strict=True):
            if isinstance(content, OSError):
                problems.append((sources.names[place], f"cannot be read: {content.strerror}"))
                continue
            key = keys[place] = keys[place] or _object_name(content)
            if key not in numbers:
                fresh[key] = content
        if fresh:
            numbers = store.keep(dict(zip(fresh, helpers.shared(_look, [*fresh.values()], PORTION), strict=True)))
        for place, each in keys.items():
            sources.contents[place] = numbers.get(each or b"", UNREAD)
        new += len(fresh)
    return new


def _overlap(several: Sequence[Sources]) -> None:
    """Leaves each file to the first of sources that has it."""
    seen: set[str] = set()
    for sources in several if len(several) > 1 else ():
        sources.contents = np.where([name in seen for name in sources.names], ABSENT, sources.contents)
        seen.update(sources.names)


def _texts(names: Sequence[str]) -> list[str]:
    """Names as any file can hold them: bytes that are no text are question marks."""
    return "\0".join(names).encode(errors="replace").decode().split("\0") if names else []


def _object_name(content: bytes) -> bytes:
    """The name that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()[:KEY]


def _look(content: bytes) -> Plain | str:
    """A content's record, or why it has none; an empty text if it is none of ours."""
    if b'"schema_version"' not in content:
        return ""
    try:
        return record.read(content)
    except UsageError as error:
        return str(error)
