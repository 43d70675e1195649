"""Store: what was read of results, kept in a SQLite file, so that each is read once; thrown away without loss."""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness import results
from harness.configuration.errors import UsageError
from harness.history import record, sources
from harness.history.record import Run, Setup
from harness.history.sources import Source
from harness.results.storage import strict

MANY = 64  # files to read for which starting other processes pays
PORTION = 16  # files that a process reads at a time
MOST = 8  # such processes
KEPT = 1024  # files after which what was read is kept, whatever comes
SNIFFED = 4096  # bytes in which results show what they are
TABLES = """
    CREATE TABLE IF NOT EXISTS files (name BLOB PRIMARY KEY, state TEXT, content TEXT);
    CREATE TABLE IF NOT EXISTS contents (content TEXT PRIMARY KEY, setup TEXT, plain TEXT);
    CREATE TABLE IF NOT EXISTS setups (setup TEXT PRIMARY KEY, plain TEXT);
"""

Looked = tuple[str | None, str | None, str]  # the digest of a content's setup, that, and its run or problem


@dataclass
class Reading:
    """What the sources hold."""

    runs: list[Run] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)  # files that hold no whole results, and why
    copies: list[str] = field(default_factory=list)  # files that hold what another one holds
    new: int = 0  # contents that were not in the store


class Store:
    """A SQLite file of what was read. A content is known by its git object name, wherever it lies and when it was made.

    It is made again if the code that reads results has changed, and if it is damaged. Where it cannot be written, all
    is read each time, which `problem` says.
    """

    def __init__(self, path: Path):
        self.problem: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.database = _opened(path)
        except (OSError, sqlite3.Error) as error:
            self.problem = f"{path}: cannot be written ({error}): all results are read each time"
            self.database = _opened(Path(":memory:"))

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def read(self, listed: Sequence[Source]) -> Reading:
        """The runs of these files; contents that the store does not know are looked into."""
        files = self.database.execute("SELECT * FROM files")
        known = {os.fsdecode(name): (state, content) for name, state, content in files}
        contents = {content for (content,) in self.database.execute("SELECT content FROM contents")}
        keys: dict[str, str] = {}
        unread = []
        for source in listed:
            state, content = known.get(source.name, ("", ""))
            if source.blob in contents or state == source.state:
                keys[source.name] = source.blob or content
            else:
                unread.append(source)
        reading = Reading()
        for start in range(0, len(unread), KEPT):
            keys |= self._add(unread[start : start + KEPT], contents, reading)
        self._fill(reading, listed, keys)
        return reading

    def _add(self, unread: Sequence[Source], contents: set[str], reading: Reading) -> dict[str, str]:
        """Reads files, and keeps what they hold; returns the keys of their contents by name."""
        keys = {}
        fresh: dict[str, tuple[bytes, bool]] = {}
        for source, content in zip(unread, _bytes(unread), strict=True):
            if isinstance(content, OSError):
                reading.problems.append((source.name, f"cannot be read: {content.strerror}"))
                continue
            keys[source.name] = key = source.blob or _object_name(content)
            if key not in contents:
                fresh[key] = content, source.expected
            if source.blob is None:
                row = os.fsencode(source.name), source.state, key  # a name may be bytes that are no text
                self.database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", row)
        for key, (digest, setup, plain) in zip(fresh, _looked(list(fresh.values())), strict=True):
            self.database.execute("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", (key, digest, plain))
            if digest is not None:
                self.database.execute("INSERT OR IGNORE INTO setups VALUES (?, ?)", (digest, setup))
        self.database.commit()
        contents |= fresh.keys()
        reading.new += len(fresh)
        return keys

    def _fill(self, reading: Reading, listed: Sequence[Source], keys: Mapping[str, str]) -> None:
        """Adds the runs and problems of files, by the keys of their contents."""
        wanted = set(keys.values())
        rows = [row for row in self.database.execute("SELECT * FROM contents") if row[0] in wanted]
        plains = json.loads(f"[{','.join(plain for _, _, plain in rows)}]")
        contents = {key: (digest, plain) for (key, digest, _), plain in zip(rows, plains, strict=True)}
        setups = {
            digest: Setup.of(json.loads(plain)) for digest, plain in self.database.execute("SELECT * FROM setups")
        }
        seen: set[str] = set()
        for source in listed:
            key = keys.get(source.name)
            if key is None:
                continue
            digest, plain = contents[key]
            if digest is None:
                if source.expected or plain:
                    reading.problems.append((source.name, plain or "holds no results"))
            elif key in seen:
                reading.copies.append(source.name)
            else:
                seen.add(key)
                reading.runs.append(Run.of(source.text, source.page, setups[digest], plain))


def _opened(path: Path) -> sqlite3.Connection:
    """The store at a path, empty if what is there is damaged or was made by other code."""
    version = _code()
    for _ in range(2):
        database = sqlite3.connect(path, timeout=60)
        try:
            made_by = database.execute("PRAGMA user_version").fetchone()[0]
            if made_by != version:  # nothing is written to a store that is as it should be: that takes a disk's time
                for table in ("files", "contents", "setups") if made_by else ():
                    database.execute(f"DROP TABLE IF EXISTS {table}")
                database.executescript(TABLES)
                database.execute(f"PRAGMA user_version = {version}")
                database.commit()
            return database
        except sqlite3.DatabaseError as error:
            database.close()
            if isinstance(error, sqlite3.OperationalError):
                raise
            path.unlink()
    raise sqlite3.DatabaseError("not a database")


def _code() -> int:
    """A number for the code that derives figures from results: another one makes other figures."""
    files = sorted([*Path(results.__path__[0]).glob("*.py"), Path(record.__file__), Path(__file__)])
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return int.from_bytes(digest.digest()[:3], "big") + 1


def _bytes(listed: Sequence[Source]) -> Iterator[bytes | OSError]:
    """What the files hold, or why they cannot be read."""
    stored = [source for source in listed if source.blob is not None]
    branch = iter(sources.blobs(stored) if stored else ())
    for source in listed:
        try:
            yield next(branch) if source.blob is not None else Path(source.name).read_bytes()
        except OSError as error:
            yield error


def _object_name(content: bytes) -> str:
    """The name that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _looked(contents: Sequence[tuple[bytes, bool]]) -> Iterator[Looked]:
    """What contents are, in their order; other processes help with many."""
    forking = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    if len(contents) < MANY or not forking:
        yield from itertools.starmap(_look, contents)
        return
    from scipy import stats  # noqa: F401  once, before the fork

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MOST), context) as pool:
        yield from pool.map(_look, *zip(*contents, strict=True), chunksize=PORTION)


def _look(content: bytes, expected: bool) -> Looked:
    """A content's record, or why it has none; an empty text if it is none of ours."""
    if not expected and b'"schema_version"' not in content[:SNIFFED]:
        return None, None, json.dumps("")
    try:
        setup, run = record.read(content)
    except UsageError as error:
        return None, None, json.dumps(str(error))
    text = json.dumps(strict(setup), sort_keys=True)
    return _object_name(text.encode()), text, json.dumps(strict(run))
