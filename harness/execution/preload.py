"""Imported once by the server that measuring processes are forked from, so that a compile in them starts warm.

It must not touch a device or leave a thread running: both would be lost or broken in a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Sequence

from harness.measure import torch_private


def warm() -> None:
    """Imports what a compile imports, and runs its one-time probes of the machine.

    Without one of torch's private names a process is slower to start, and nothing else.
    """
    _import(torch_private.BEFORE_PROBES)  # before there is a second thread: two that import in circles can break both
    # it waits for a compiler and a Python, on another core
    probe = threading.Thread(target=torch_private.find_vector_instructions)
    probe.start()
    _import(torch_private.LAZILY_IMPORTED)
    torch_private.read_source_key()
    probe.join()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)


warm()
