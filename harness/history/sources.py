"""Sources: the files that may hold results - in folders, under any name, and in a branch of a git repository."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from harness.configuration.errors import UsageError, unknown
from harness.results import storage

OTHER = (storage.SWEEP, storage.FAILURE)  # the harness's own JSON files that hold no results
UNREAD, ABSENT = -1, -2  # in place of the number of a content
KEY = 20  # bytes of a content's key: of the name that git gives to it


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
