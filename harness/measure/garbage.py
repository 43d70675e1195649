"""Garbage: Python's collector of it, kept from work that it would interrupt. Imports no torch."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turns off Python's garbage collector: a full pass may take a tenth of a second, and more of very many objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
