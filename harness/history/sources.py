"""Sources: the files that may hold results - in folders, under any name, and in a branch of a git repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from harness.configuration.errors import UsageError, unknown
from harness.results import storage

OTHER = (storage.SWEEP, storage.FAILURE)  # the harness's own JSON files that hold no results
PAGE = "report.html"
UNSEARCHED = ("traces",)  # folders of a run in which there are none; nor in hidden ones


class Source(NamedTuple):
    """A file that may hold a run's results, before it is read."""

    name: str  # its path, or BRANCH:path
    state: str  # equal as long as the file is not written again
    expected: bool = True  # whether it is an error if it holds something else
    page: str | None = None  # the path of the run's own page
    blob: str | None = None  # the object in git

    @property
    def text(self) -> str:
        """Its name as any file can hold it: bytes that are no text are question marks."""
        return self.name.encode(errors="replace").decode()


def in_paths(paths: Sequence[Path]) -> Iterator[Source]:
    """The files that these paths name, or that lie below them.

    A `results.json`, or a file that is named itself, is expected to hold results; another `*.json` may hold them.
    Raises UsageError for a path that does not exist.
    """
    for path in paths:
        if path.is_dir():
            yield from _below(str(path))
        elif path.exists():
            yield Source(str(path), _state(path.stat()), page=_page(path.parent))
        else:
            raise UsageError(f"{path}: no such file or folder")


def in_branch(branch: str) -> list[Source]:
    """The files of a branch, or any commit, of the repository around the working folder.

    Raises UsageError if there is none.
    """
    if subprocess.run(["git", "rev-parse", "--git-dir"], capture_output=True, check=False).returncode != 0:
        raise UsageError(f"--git={branch}: not in a git repository")
    listing = ["git", "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", branch]
    listed = subprocess.run(listing, capture_output=True, check=False)
    if listed.returncode != 0:
        names = _git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes").decode().split()
        raise unknown("--git", branch, names, "branches")
    found = []
    for line in filter(None, listed.stdout.split(b"\0")):
        described, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
        _, kind, blob = described.split()
        name = path.rpartition("/")[2]
        if kind == "blob" and name.endswith(".json") and name not in OTHER:
            found.append(Source(f"{branch}:{path}", blob, expected=name == storage.FILE, blob=blob))
    return found


def blobs(sources: Sequence[Source]) -> Iterator[bytes]:
    """The contents of files of a branch, in their order."""
    names = "".join(f"{source.blob}\n" for source in sources)
    content = subprocess.run(
        ["git", "cat-file", "--batch"], input=names.encode(), capture_output=True, check=True
    ).stdout
    start = 0
    for _ in sources:
        header, start = content[start : content.index(b"\n", start)], content.index(b"\n", start) + 1
        end = start + int(header.split()[-1])  # NAME blob SIZE
        yield content[start:end]
        start = end + 1


def _below(folder: str) -> Iterator[Source]:
    """The files below a folder; folders that cannot be read, and links to folders, are passed over."""
    try:
        entries = sorted(os.scandir(folder), key=attrgetter("name"))
    except OSError:
        return
    page = next((entry.path for entry in entries if entry.name == PAGE), None)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in UNSEARCHED and not entry.name.startswith("."):
                yield from _below(entry.path)
        elif entry.name.endswith(".json") and entry.name not in OTHER:
            try:
                regular, state = entry.is_file(), _state(entry.stat())
            except OSError:  # a link that leads nowhere
                continue
            if regular:
                expected = entry.name == storage.FILE
                yield Source(entry.path, state, expected, page if expected else None)


def _page(folder: Path) -> str | None:
    path = folder / PAGE
    return str(path) if path.exists() else None


def _state(stat: os.stat_result) -> str:
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
