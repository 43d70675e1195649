"""Fork server: where measuring processes are forked from, with torch imported already; one for each environment.

The server is an own instance of multiprocessing's: variables that torch reads when it is imported differ between cases,
and the instance that multiprocessing shares cannot be restarted with others.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from typing import Any

from harness.execution import imports


@dataclass(frozen=True)
class _Server:
    server: Any  # a ForkServer
    variables: Mapping[str, str | None]
    modules: frozenset[str]


_current: _Server | None = None


def ensure(variables: Mapping[str, str | None], preload: Sequence[str]) -> bool:
    """Makes sure that a server runs with these variables, which are set now, and has imported these modules.

    False if there can be none: Python has moved it, or the temporary folder's name is too long for its socket.
    """
    global _current
    if not hasattr(forkserver, "ForkServer"):
        return False
    if _current is None or _current.variables != variables or not _current.modules.issuperset(preload):
        stop()
        server = forkserver.ForkServer()
        server.set_forkserver_preload([imports.__name__])
        os.environ |= imports.variables(preload)  # the caller's context puts the environment back
        _current = _Server(server, dict(variables), frozenset(preload))
    try:
        with _ignored_interrupt():
            _current.server.ensure_running()
    except OSError:
        _current = None
        return False
    return True


@contextlib.contextmanager
def in_charge() -> Iterator[None]:
    """A context in which multiprocessing forks from the server that `ensure` has started."""
    assert _current is not None
    shared = forkserver.connect_to_new_process
    forkserver.connect_to_new_process = _current.server.connect_to_new_process
    try:
        yield
    finally:
        forkserver.connect_to_new_process = shared


def stop() -> None:
    """Ends the server, to free the memory of an imported torch; it ends with this process in any case."""
    global _current
    if _current is not None:
        with contextlib.suppress(AttributeError, OSError):
            _current.server._stop()
        _current = None


@contextlib.contextmanager
def _ignored_interrupt() -> Iterator[None]:
    """A context in which started processes ignore Ctrl-C, even while they import: they end with this process."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
