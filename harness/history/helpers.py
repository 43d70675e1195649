"""Helpers: other processes that share what is much, started when there is something for them to do."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

MOST = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


_left: list[Callable[[], object]] = []  # in a process that was started for it: what is to be done there


@contextlib.contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Has work done by a copy of this process meanwhile, if there can be one; raises what it raises."""
    if not _forking():
        work()
        yield
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, context, initializer=_left.append, initargs=(work,)) as pool:
        done = pool.submit(_do)
        yield
        done.result()


def _do() -> None:
    _left[-1]()


def _forking() -> bool:
    """Whether this process can be copied: one of several threads, of which another may hold a lock, cannot."""
    return "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1


class Helpers:
    """Processes that are copies of this one, if it can be copied: where it cannot, it works alone."""

    def __init__(self) -> None:
        self.count = min(os.cpu_count() or 1, MOST) if _forking() else 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], portion: int) -> Iterator[Result]:
        """Like the built-in function; items go to processes by portions, and to this one if there is a single one."""
        if self.count == 1 or len(items) <= portion:
            return map(function, items)
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("fork"))
        return self._pool.map(function, items, chunksize=portion)
