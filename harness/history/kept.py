"""Kept: a file that is written again and again in portions; those that are as they were are copied from the file."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import numpy as np

from harness.history.sources import state
from harness.results.storage import atomic

KEY = 16  # bytes
BUFFER = 1 << 20  # bytes that are copied at a time
Portion = tuple[bytes, Callable[[], str]]  # the key of all that a text is made of, and what makes it


@dataclass(frozen=True)
class Kept:
    """The portions that a file was written of, in their order; they are there as long as it is as it was left."""

    state: int = 0
    keys: bytes = b""
    ends: np.ndarray = field(default_factory=lambda: np.zeros(0, "<i8"))  # the byte after the last of each

    @property
    def places(self) -> dict[bytes, tuple[int, int]]:
        """The first byte of each portion and that after its last, by its key."""
        keys = [self.keys[start : start + KEY] for start in range(0, len(self.keys), KEY)]
        return dict(zip(keys, zip([0, *self.ends[:-1].tolist()], self.ends.tolist(), strict=True), strict=True))


def key(*parts: str | bytes) -> bytes:
    """The key of a text that is made of these."""
    digest = hashlib.blake2b(digest_size=KEY)
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.digest()


def write(path: Path, portions: Iterable[Portion], before: Kept) -> Kept:
    """Writes a file, which appears whole or not at all, and makes the texts that were not in it before.

    Raises OSError if it cannot be written, or if the file of before is written by another program meanwhile.
    """
    keys, ends = [], [0]
    with _opened(path) as old, atomic(path) as file:
        places = before.places if old is not None and state(os.fstat(old.fileno())) == before.state else {}
        copy = _Copy(old, file.buffer)
        for each, make in portions:
            first, last = places.get(each, (0, 0))
            copy.add(first, last)
            ends.append(ends[-1] + (last - first if last else file.buffer.write(make().encode())))
            keys.append(each)
        copy.flush()
        written = os.fstat(file.fileno()).st_ino
    seen = path.stat()
    if seen.st_ino != written:  # another process was faster
        return Kept()
    return Kept(state(seen), b"".join(keys), np.array(ends[1:], "<i8"))


class _Copy:
    """Copies parts of an old file, neighbours at once, through a buffer: to map the file takes twice as long."""

    def __init__(self, old: BufferedReader | None, new: BinaryIO):
        self.old, self.new = old, new
        self.buffer = memoryview(bytearray(BUFFER))
        self.first = self.last = 0

    def add(self, first: int, last: int) -> None:
        """Takes the bytes from `first` to before `last`, or none; copies what was taken unless they follow it."""
        if first != self.last or not last:
            self.flush()
            self.first = first
        self.last = last

    def flush(self) -> None:
        """Copies what was taken."""
        if self.old is None or self.first == self.last:
            return
        self.old.seek(self.first)
        for start in range(self.first, self.last, BUFFER):
            part = self.buffer[: self.last - start]
            if self.old.readinto(part) != len(part):
                raise OSError(f"{self.old.name}: was changed while it was read")
            self.new.write(part)
        self.first = self.last


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | None]:
    """A file, if there is one."""
    try:
        file = path.open("rb")
    except OSError:
        yield None
        return
    with file:
        yield file
