"""Kept: a file that is written again and again in portions; those that are as they were are copied from the file."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from harness.history.listing import state
from harness.results.storage import atomic

KEY = 16  # bytes
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
    """Writes a file, which appears whole or not at all, and makes the texts that were not in it before."""
    keys, ends = [], [0]
    with _mapped(path, before) as (old, places), atomic(path) as file:
        copied = slice(0, 0)  # a part of the old file, of one portion or of several neighbours
        for each, make in portions:
            first, last = places.get(each, (0, 0))
            if first != copied.stop or not last:
                _copy(old, copied, file.buffer)
                copied = slice(first, first)
            copied = slice(copied.start, last)
            ends.append(ends[-1] + (last - first if last else file.buffer.write(make().encode())))
            keys.append(each)
        _copy(old, copied, file.buffer)
        written = os.fstat(file.fileno()).st_ino
    seen = path.stat()
    if seen.st_ino != written:  # another process was faster
        return Kept()
    return Kept(state(seen), b"".join(keys), np.array(ends[1:], "<i8"))


def _copy(old: mmap.mmap | bytes, part: slice, file: BinaryIO) -> None:
    with memoryview(old) as whole, whole[part] as text:
        file.write(text)


@contextlib.contextmanager
def _mapped(path: Path, before: Kept) -> Iterator[tuple[mmap.mmap | bytes, dict[bytes, tuple[int, int]]]]:
    """The text of a file and its portions; nothing if it is not as it was left."""
    try:
        file = path.open("rb")
    except OSError:
        yield b"", {}
        return
    with file:
        if not len(before.ends) or state(path.stat()) != before.state:
            yield b"", {}
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            yield text, before.places
