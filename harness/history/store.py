"""Store: what was read of results, kept in a SQLite file, so that each is read once; thrown away without loss."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from harness import results
from harness.history import record, runs, sources
from harness.history.kept import Kept
from harness.history.record import MEASURES, Plain, Setup
from harness.history.runs import FIGURE, RESULT, RUN, Columns, Texts, encoded
from harness.history.sources import FILE, KEY, Known

TABLES = {
    "portions": "first INTEGER PRIMARY KEY, keys BLOB, runs BLOB, results BLOB, problems TEXT",
    "figures": "measure TEXT, first INTEGER, figures BLOB, PRIMARY KEY (measure, first)",  # of portions that have any
    "texts": "number INTEGER PRIMARY KEY, text TEXT",
    "setups": "number INTEGER PRIMARY KEY, text TEXT",
    "listings": "path BLOB PRIMARY KEY, folders BLOB, files BLOB, states BLOB, found BLOB",
    "written": "path BLOB PRIMARY KEY, state INTEGER, keys BLOB, ends BLOB",
}
PAGE = 1 << 16  # bytes: columns are long


class Store:
    """A SQLite file of what was read. A content is known by its git object name, wherever it lies and when it was made.

    Contents are numbered as they come; a portion of them is a row, of columns as they are in memory. Rows are added,
    and never changed; the store is made again if the code that reads results has changed.

    Raises OSError or sqlite3.OperationalError if it cannot be opened or written, and sqlite3.DatabaseError if it is
    damaged.
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._numbers: dict[bytes, int] = {}
        self.code = _code()
        try:
            self.database.execute(f"PRAGMA page_size = {PAGE}")  # of a new file
            if self._made_by() != self.code:  # nothing is written to one that is as it should be: that takes a while
                with self._locked():
                    self._make()
        except BaseException:
            self.database.close()
            raise

    def _make(self) -> None:
        """Makes it again, unless another process just did."""
        if self._made_by() == self.code:
            return
        for (table,) in self.database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            self.database.execute(f"DROP TABLE {table}")
        for table, columns in TABLES.items():
            self.database.execute(f"CREATE TABLE {table} ({columns})")
        self.database.execute(f"PRAGMA user_version = {self.code}")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def numbers(self) -> dict[bytes, int]:
        """The number of each content, by its key."""
        keys = self._whole("keys", len(self._numbers))
        new = [keys[start : start + KEY] for start in range(0, len(keys), KEY)]
        self._numbers.update(zip(new, itertools.count(len(self._numbers)), strict=False))
        return self._numbers

    def keep(self, looked: Mapping[bytes, Plain | str]) -> dict[bytes, int]:
        """Keeps new contents by their keys: the plain values of a run, or why there is none; returns all numbers.

        Texts and contents are numbered while no other process writes.
        """
        with self._writing():
            known = self.numbers()
            new = {key: content for key, content in looked.items() if key not in known}
            texts, setups = self._texts("texts"), self._texts("setups")
            numbered = [
                None if isinstance(content, str) else (setups.number(content[0]), content[1])
                for content in new.values()
            ]
            columns, results, figures = encoded(numbered, texts)
            problems = {len(known) + place: each for place, each in enumerate(new.values()) if isinstance(each, str)}
            row = len(known), b"".join(new), columns.tobytes(), results.tobytes(), json.dumps(problems)
            self.database.execute("INSERT INTO portions VALUES (?, ?, ?, ?, ?)", row)
            measured = [(measure, len(known), values.tobytes()) for measure, values in figures.items()]
            self.database.executemany("INSERT INTO figures VALUES (?, ?, ?)", measured)
            for table, named in (("texts", texts), ("setups", setups)):
                self.database.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", enumerate(named.texts))
        return self.numbers()

    def columns(self) -> Columns:
        """The runs of all contents, by number; contents without one have the setup NONE."""
        texts, setups = self._texts("texts").texts, self._texts("setups").texts
        runs, results = np.frombuffer(self._whole("runs"), RUN), np.frombuffer(self._whole("results"), RESULT)
        begins = np.append(0, np.cumsum(runs["results"]))  # of each run's results
        figures: dict[str, np.ndarray] = {}
        for measure, first, values in self.database.execute("SELECT measure, first, figures FROM figures"):
            if measure not in figures:
                figures[measure] = np.full((len(results), 3), np.nan)
            part = np.frombuffer(values, FIGURE)
            figures[measure][begins[first] : begins[first] + len(part)] = part
        figures = {measure: figures[measure] for measure in MEASURES if measure in figures}
        return Columns(list(map(Setup.of, json.loads(f"[{','.join(setups)}]"))), texts, runs, results, figures)

    def problems(self) -> dict[int, str]:
        """Why contents hold no run, by number; empty if they are none of ours."""
        rows = self.database.execute("SELECT problems FROM portions")
        return {int(number): problem for (row,) in rows for number, problem in json.loads(row).items()}

    def listing(self, path: Path) -> Known:
        """What was known of the files that a path names, or has below it."""
        wanted = "SELECT folders, files, states, found FROM listings WHERE path = ?"
        row = self.database.execute(wanted, [_absolute(path)]).fetchone()
        if row is None:
            return Known()
        states, found = np.frombuffer(row[2], "<i8"), np.frombuffer(row[3], FILE)
        return Known(_split(row[0], len(states)), states, _split(row[1], len(found)), found)

    def keep_listings(self, listings: Mapping[Path, Known]) -> None:
        """Keeps what is known of them now, of several paths."""
        rows = {
            path: (*map(_joined, (known.folders, known.files)), known.states.tobytes(), known.found.tobytes())
            for path, known in listings.items()
        }
        self._keep_paths("listings", rows)

    def written(self, path: Path) -> Kept:
        """The portions that a file was written of."""
        row = self.database.execute(
            "SELECT state, keys, ends FROM written WHERE path = ?", [_absolute(path)]
        ).fetchone()
        return Kept() if row is None else Kept(row[0], row[1], np.frombuffer(row[2], "<i8"))

    def keep_written(self, path: Path, kept: Kept) -> None:
        """Keeps those that it was written of now."""
        self._keep_paths("written", {path: (kept.state, kept.keys, kept.ends.tobytes())})

    def _keep_paths(self, table: str, rows: Mapping[Path, tuple]) -> None:
        """Keeps what is known of paths, in place of what was, and nothing of paths that are gone."""
        with self._writing():
            known = self.database.execute(f"SELECT path FROM {table}").fetchall()
            gone = [path for path in known if not os.path.lexists(path[0])]
            self.database.executemany(f"DELETE FROM {table} WHERE path = ?", gone)
            for path, row in rows.items():
                places = ", ".join("?" * (1 + len(row)))
                self.database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", (_absolute(path), *row))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """All of it is written, or nothing; numbers that were read count as long as no other code made it again."""
        with self._locked():
            if self._made_by() != self.code:
                raise sqlite3.OperationalError("another version of this program writes to it")
            yield

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.database.execute("BEGIN IMMEDIATE")
        with self.database:
            yield

    def _made_by(self) -> int:
        return self.database.execute("PRAGMA user_version").fetchone()[0]

    def _whole(self, column: str, first: int = 0) -> bytes:
        wanted = f"SELECT {column} FROM portions WHERE first >= ? ORDER BY first"
        return b"".join(value for (value,) in self.database.execute(wanted, [first]))

    def _texts(self, table: str) -> Texts:
        return Texts(text for (text,) in self.database.execute(f"SELECT text FROM {table} ORDER BY number"))


def _code() -> int:
    """A number for the code that derives figures from results: another one makes other figures."""
    modules = map(Path, (__file__, sources.__file__, record.__file__, runs.__file__))
    files = [*sorted(Path(results.__path__[0]).glob("*.py")), *modules]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return int.from_bytes(digest.digest()[:3], "big") + 1


def _absolute(path: Path) -> bytes:
    return os.fsencode(os.path.abspath(path))


def _joined(names: Sequence[str]) -> bytes:
    return os.fsencode("\0".join(names))


def _split(names: bytes, count: int) -> list[str]:
    return os.fsdecode(names).split("\0") if count else []
