"""Sources: the files that may hold results - in folders, under any name, and in a branch of a git repository."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.configuration.errors import UsageError, unknown
from harness.history import helpers
from harness.results import storage

OTHER = (storage.SWEEP, storage.FAILURE)  # the harness's own JSON files that hold no results
UNREAD, ABSENT = -1, -2  # in place of the number of a content
KEY = 20  # bytes of a content's key: of the name that git gives to it
PAGE = "report.html"
UNSEARCHED = ("traces",)  # folders of a run in which there are none; nor in hidden ones
YOUNG, GONE = 1, 0  # states: changed so lately that a change yet to come may not show; not there
YOUNG_NS = 2_000_000_000  # the coarsest clock of a file system ticks so often
PORTION = 5000  # folders or files that a process looks at
FILE = np.dtype([("state", "<i8"), ("content", "<i4"), ("page", "?")])  # page: whether the run's own is beside it
NEW = np.array([(GONE, ABSENT, False)], FILE)  # what was known of a file that was not


class Sources(ABC):
    """Files, in the order in which they count, each with the number of its content in the store, UNREAD or ABSENT."""

    names: list[str]
    contents: np.ndarray

    @abstractmethod
    def read(self, places: Sequence[int]) -> Iterator[bytes | OSError]:
        """What files hold, or why they cannot be read."""

    @abstractmethod
    def expected(self, place: int) -> bool:
        """Whether it is an error if a file holds something else."""

    def key(self, place: int) -> bytes | None:
        """The key of a file's content, if it is known before it is read."""
        return None

    def pages(self) -> np.ndarray:
        """The path of each run's own page, or None."""
        return np.full(len(self.names), None, object)


class Branch(Sources):
    """The files of a branch, or any commit, of the repository around the working folder.

    Raises UsageError if there is none.
    """

    def __init__(self, branch: str):
        if subprocess.run(["git", "rev-parse", "--git-dir"], capture_output=True, check=False).returncode != 0:
            raise UsageError(f"--git={branch}: not in a git repository")
        listing = ["git", "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", branch]
        listed = subprocess.run(listing, capture_output=True, check=False)
        if listed.returncode != 0:
            names = _git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes").decode().split()
            raise unknown("--git", branch, names, "branches")
        self.names, self.blobs = [], []
        for line in filter(None, listed.stdout.split(b"\0")):
            described, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
            _, kind, blob = described.split()
            name = path.rpartition("/")[2]
            if kind == "blob" and name.endswith(".json") and name not in OTHER:
                self.names.append(f"{branch}:{path}")
                self.blobs.append(blob)
        self.contents = np.full(len(self.names), UNREAD)

    def expected(self, place: int) -> bool:
        return self.names[place].endswith((f"/{storage.FILE}", f":{storage.FILE}"))

    def key(self, place: int) -> bytes | None:
        return bytes.fromhex(self.blobs[place])[:KEY]

    def read(self, places: Sequence[int]) -> Iterator[bytes | OSError]:
        wanted = "".join(f"{self.blobs[place]}\n" for place in places)
        content = _git("cat-file", "--batch", input=wanted.encode())
        start = 0
        for _ in places:
            header, start = content[start : content.index(b"\n", start)], content.index(b"\n", start) + 1
            end = start + int(header.split()[-1])  # NAME blob SIZE
            yield content[start:end]
            start = end + 1


def _git(*arguments: str, input: bytes | None = None) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True, input=input).stdout


class Known(NamedTuple):
    """What was below a folder; paths are relative to it, of the folder itself empty.

    The state of a folder is equal as long as nothing comes into it, leaves it, or takes its place; that of a file as
    long as it is not written again.
    """

    folders: Sequence[str] = ()
    states: np.ndarray = np.zeros(0, "<i8")
    files: Sequence[str] = ()
    found: np.ndarray = np.zeros(0, FILE)


class Listing(Sources):
    """The files that a path names, or that lie below it; what is known of these from the last time is checked alone.

    A `results.json`, or a file that is named itself, is expected to hold results; another `*.json` may hold them.
    Raises UsageError if the path does not exist.
    """

    def __init__(self, path: Path, known: Known):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        self.before = known
        self.folders: Sequence[str]
        self.files: Sequence[str]
        self.young = time.time_ns() - YOUNG_NS
        if path.is_dir():
            self.root = os.path.join(path, "")
            self._search()
        else:
            self.root = str(path)
            self.folders, self.states, self.files = (), np.zeros(0, "<i8"), [""]
            self.found = self._found([path.with_name(PAGE).exists()], self._states(known.files, ()))
        self.names = [self.root + file for file in self.files]
        self.contents = self.found["content"]

    @property
    def known(self) -> Known:
        """What to know the next time."""
        return Known(self.folders, self.states, self.files, self.found)

    @property
    def changed(self) -> bool:
        """Whether that is something else than what was known."""
        now, before = self.known, self.before
        same = now.folders == before.folders and now.files == before.files
        return not (same and np.array_equal(now.states, before.states) and np.array_equal(now.found, before.found))

    def read(self, places: Sequence[int]) -> Iterator[bytes | OSError]:
        for place in places:
            try:
                yield Path(self.names[place]).read_bytes()
            except OSError as error:
                yield error

    def expected(self, place: int) -> bool:
        return not self.files[place] or os.path.basename(self.names[place]) == storage.FILE

    def pages(self) -> np.ndarray:
        found = super().pages()
        for place in np.flatnonzero(self.found["page"]).tolist():
            if self.expected(place):
                found[place] = os.path.join(os.path.dirname(self.names[place]), PAGE)
        return found

    def _search(self) -> None:
        """Looks into the folders that are new, or not as before."""
        known = self.before
        now = self._states(known.files, known.folders)
        of_files, states = now[: len(known.files)], now[len(known.files) :]
        unchanged = (states == known.states) & (states != YOUNG)
        if unchanged.all() and len(known.folders):
            self.folders, self.states, self.files = known.folders, states, known.files
            self.found = self._found(known.found["page"], of_files)
            return
        there = dict(zip(known.folders, states.tolist(), strict=True))
        files = dict(zip(known.files, known.found["page"].tolist(), strict=True))
        changed = [known.folders[place] for place in np.flatnonzero(~unchanged).tolist()] or [""]
        for folder in changed:
            if there.get(folder, GONE) == GONE:
                self._forget(folder, there, files)
        there.setdefault("", _state(self.root, self.young, True, ""))
        while changed:
            if (folder := changed.pop()) in there:
                changed += self._scanned(folder, there, files)
        self.folders = sorted(there)
        self.states = np.array([there[folder] for folder in self.folders], "<i8")
        self.files = sorted(files)
        self.found = self._found([files[file] for file in self.files], of_files)

    def _forget(self, folder: str, there: dict[str, int], files: dict[str, bool]) -> None:
        """Takes out a folder, and all that was known to be in it, at any depth."""
        there.pop(folder, None)
        for path in _within(self.before.folders, folder):
            there.pop(path, None)
        for path in _within(self.before.files, folder):
            files.pop(path, None)

    def _scanned(self, folder: str, there: dict[str, int], files: dict[str, bool]) -> list[str]:
        """Takes in what is in a folder now; returns the new folders in it. One that cannot be read is passed over."""
        try:
            entries = list(os.scandir(self.root + folder))
        except OSError:
            self._forget(folder, there, files)
            there[folder] = YOUNG
            return []
        within = f"{folder}/" if folder else ""
        for path in _within(self.before.files, folder):
            if "/" not in path[len(within) :]:
                files.pop(path, None)
        page = any(entry.name == PAGE for entry in entries)
        new = []
        for entry in entries:
            path = within + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in UNSEARCHED and not entry.name.startswith(".") and path not in there:
                    there[path] = _state(self.root, self.young, True, path)
                    new.append(path)
            elif entry.name.endswith(".json") and entry.name not in OTHER:
                files[path] = page
        return new

    def _found(self, pages: Sequence[bool] | np.ndarray, states: np.ndarray) -> np.ndarray:
        """The files as they are now, with the contents of those that are as before.

        `states` are those that the files of before have now.
        """
        known = self.before
        places = {file: place for place, file in enumerate(known.files)}
        before = np.array([places.get(file, len(places)) for file in self.files], int)
        new = np.flatnonzero(before == len(places))
        now = np.append(states, GONE)[before]
        now[new] = self._states([self.files[place] for place in new.tolist()], ())
        found = np.append(known.found, NEW)[before]
        unread = (now != found["state"]) | (now == YOUNG)
        found["content"][unread] = UNREAD
        found["content"][now == GONE] = ABSENT
        found["state"], found["page"] = now, pages
        return found

    def _states(self, files: Sequence[str], folders: Sequence[str]) -> np.ndarray:
        """The states of files, and then of folders."""
        portions = [
            (paths[start : start + PORTION], paths is folders)
            for paths in (files, folders)
            for start in range(0, len(paths), PORTION)
        ]
        return np.frombuffer(b"".join(helpers.shared(self._seen, portions, 1)), "<i8")

    def _seen(self, paths: tuple[Sequence[str], bool]) -> bytes:
        """Numbers of 64 bits: to send so many objects to another process takes longer than to look at the files."""
        several, folders = paths
        return np.array([_state(self.root, self.young, folders, path) for path in several], "<i8").tobytes()


def _state(root: str, young: int, folder: bool, path: str) -> int:
    """The state of a folder or a file below a root; all that changed after `young` is."""
    try:
        seen = os.lstat(root + path) if folder and path else os.stat(root + path)  # links to folders are passed over
    except OSError:
        return GONE
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(seen.st_mode):
        return GONE
    return YOUNG if max(seen.st_ctime_ns, seen.st_mtime_ns) > young else state(seen)


def state(seen: os.stat_result) -> int:
    """A number for what the file system says of a file or a folder, which is another one if that is changed."""
    return hash((seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)) | 2  # the same in every process


def _within(paths: Sequence[str], folder: str) -> Sequence[str]:
    """Those of sorted paths that are in a folder, at any depth."""
    first = bisect_left(paths, f"{folder}/") if folder else 0
    return paths[first : bisect_left(paths, f"{folder}0", first) if folder else len(paths)]  # "0" comes after "/"
