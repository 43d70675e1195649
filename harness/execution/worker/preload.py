"""Imported by the server of a case with variants that compile, so that a compile in its forks starts warm.

It must not touch a device or leave a thread running: both would be lost or broken in a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Sequence

from harness.measure import torch_private


def warm() -> None:
    """Imports what a compile imports, and runs once what every process would run before its first compile.

    Without one of torch's private names a process is slower to start, and nothing else.
    """
    _import(torch_private.BEFORE_PROBES)  # before there is a second thread: two that import in circles can break both
    # it waits for a compiler and a Python, on another core
    probe = threading.Thread(target=torch_private.probe_cpp_compiler)
    probe.start()
    _import(torch_private.LAZILY_IMPORTED)
    torch_private.start_compiler()
    probe.join()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)


warm()
