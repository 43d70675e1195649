"""Helpers: copies of this process that share what is much, started when there is something for them to do.

They have all that this process had when they were started: only what they return goes from process to process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from typing import Any, TypeVar

MOST = 8

Item = TypeVar("Item")
Result = TypeVar("Result")

_left: list[Callable[..., Any]] = []  # in a helper: what is to be done there


@contextlib.contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Has work done meanwhile, if there can be a helper; raises what it raises."""
    if not _forking():
        work()
        yield
        return
    with _helpers(1, work) as pool:
        done = pool.submit(_do)
        yield
        done.result()


def shared(function: Callable[[Item], Result], items: Sequence[Item], portion: int) -> Iterator[Result]:
    """Like `map`; helpers take the items by portions, if there is more than one and there can be helpers."""
    count = min(os.cpu_count() or 1, MOST)
    if count == 1 or len(items) <= portion or not _forking():
        yield from map(function, items)
        return
    with _helpers(count, lambda start: list(map(function, items[start : start + portion]))) as pool:
        yield from chain.from_iterable(pool.map(_do, range(0, len(items), portion)))


@contextlib.contextmanager
def _helpers(count: int, work: Callable[..., Any]) -> Iterator[ProcessPoolExecutor]:
    """Processes that have `work` left to do."""
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(count, context, initializer=_left.append, initargs=(work,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _do(*args: Any) -> Any:
    return _left[-1](*args)


def _forking() -> bool:
    """Whether this process can be copied: one of several threads, of which another may hold a lock, cannot."""
    return "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
