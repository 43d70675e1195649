"""Listing: the files below a folder that may hold results; what is known of it from the last time is checked alone."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.configuration.errors import UsageError
from harness.history.helpers import Helpers
from harness.history.sources import ABSENT, OTHER, UNREAD, Sources
from harness.results import storage

PAGE = "report.html"
UNSEARCHED = ("traces",)  # folders of a run in which there are none; nor in hidden ones
YOUNG, GONE = 1, 0  # states: changed so lately that a change yet to come may not show; not there
YOUNG_NS = 2_000_000_000  # the coarsest clock of a file system ticks so often
PORTION = 5000  # folders or files that a process looks at
FILE = np.dtype([("state", "<i8"), ("content", "<i4"), ("page", "?")])  # page: whether the run's own is beside it
NEW = np.array([(GONE, ABSENT, False)], FILE)  # what was known of a file that was not


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
    """The files that a path names, or that lie below it.

    A `results.json`, or a file that is named itself, is expected to hold results; another `*.json` may hold them.
    Raises UsageError if the path does not exist.
    """

    def __init__(self, path: Path, known: Known, helpers: Helpers):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        self.before = known
        self.helpers = helpers
        self.folders: Sequence[str]
        self.files: Sequence[str]
        self.young = time.time_ns() - YOUNG_NS
        if path.is_dir():
            self.root = os.path.join(path, "")
            self._search()
        else:
            self.root = str(path)
            self.folders, self.states, self.files = (), np.zeros(0, "<i8"), [""]
            self.found = self._found([path.with_name(PAGE).exists()])
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
        states = self._states(known.folders, folders=True)
        unchanged = (states == known.states) & (states != YOUNG)
        if unchanged.all() and len(known.folders):
            self.folders, self.states, self.files = known.folders, states, known.files
            self.found = self._found(known.found["page"])
            return
        there: dict[str, int] = {}
        for folder, state in zip(known.folders, states.tolist(), strict=True):
            if state != GONE and (not folder or _parent(folder) in there):
                there[folder] = state
        same = {folder for folder, equal in zip(known.folders, unchanged, strict=True) if equal} & there.keys()
        files = {
            file: page
            for file, page in zip(known.files, known.found["page"].tolist(), strict=True)
            if _parent(file) in same
        }
        there.setdefault("", _state(self.root, self.young, True, ""))
        ahead = [folder for folder in there if folder not in same]
        while ahead:
            if (folder := ahead.pop()) in there:
                ahead += self._scanned(folder, there, files)
        self.folders = sorted(there, key=_order)
        self.states = np.array([there[folder] for folder in self.folders], "<i8")
        self.files = sorted(files, key=_order)
        self.found = self._found([files[file] for file in self.files])

    def _scanned(self, folder: str, there: dict[str, int], files: dict[str, bool]) -> list[str]:
        """Adds what is in a folder; returns the folders in it that are new. One that cannot be read is passed over."""
        within = f"{folder}/" if folder else ""
        try:
            entries = list(os.scandir(self.root + folder))
        except OSError:
            for known in (there, files):
                for path in [path for path in known if path.startswith(within)]:
                    del known[path]
            there[folder] = YOUNG
            return []
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

    def _found(self, pages: Sequence[bool] | np.ndarray) -> np.ndarray:
        """The files as they are now, with the contents of those that are as before."""
        found = np.zeros(len(self.files), FILE)
        found["state"], found["page"] = self._states(self.files, folders=False), pages
        found["content"] = np.where(found["state"] == GONE, ABSENT, UNREAD)
        places = {file: place for place, file in enumerate(self.before.files)}
        before = np.array([places.get(file, len(places)) for file in self.files], int)
        known = np.append(self.before.found, NEW)[before]
        same = (found["state"] == known["state"]) & (found["state"] != YOUNG)
        found["content"][same] = known["content"][same]
        return found

    def _states(self, paths: Sequence[str], folders: bool) -> np.ndarray:
        portions = ["\0".join(paths[start : start + PORTION]) for start in range(0, len(paths), PORTION)]
        looked = self.helpers.map(partial(_look, self.root, self.young, folders), portions, 1)
        return np.frombuffer(b"".join(looked), "<i8")


def _look(root: str, young: int, folders: bool, paths: str) -> bytes:
    """Numbers of 64 bits: to send so many objects from process to process takes longer than to look at the files."""
    return np.array([_state(root, young, folders, path) for path in paths.split("\0")], "<i8").tobytes()


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


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _order(path: str) -> str:
    """To sort paths by: as if each folder was gone through by name."""
    return path.replace("/", "\0")
