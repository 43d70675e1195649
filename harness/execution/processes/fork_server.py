"""Fork servers: where measuring processes are forked from, with torch imported already; one for each environment.

A server is an own instance of multiprocessing's: variables that torch reads when it is imported differ between cases,
and the instance that multiprocessing shares cannot be restarted with others.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from typing import Any

from harness.execution.processes import imports


@dataclass(frozen=True)
class _Server:
    server: Any  # a ForkServer
    variables: Mapping[str, str | None]
    modules: frozenset[str]


_servers: list[_Server] = []  # the one that was used last comes last
_most = 1


def keep(count: int) -> None:
    """How many servers there may be, from now on: the least recently used is ended in favour of another."""
    global _most
    _most = max(count, 1)
    _make_room(_most)


def ensure(variables: Mapping[str, str | None], preload: Sequence[str]) -> bool:
    """Makes sure that a server runs with these variables, which are set now, and has imported these modules.

    It is the one that `in_charge` takes. False if there can be none: Python has moved it, or the temporary folder's
    name is too long for its socket.
    """
    if not hasattr(forkserver, "ForkServer"):
        return False
    alike = next((known for known in _servers if known.variables == variables), None)
    if alike is not None and not alike.modules.issuperset(preload):
        _end(alike)
        alike = None
    if alike is None:
        server = forkserver.ForkServer()
        server.set_forkserver_preload([imports.__name__])
        os.environ |= imports.variables(preload)  # the caller's context puts the environment back
        alike = _Server(server, dict(variables), frozenset(preload))
        _make_room(_most - 1)
    else:
        _servers.remove(alike)
    try:
        with _ignored_interrupt():
            alike.server.ensure_running()
    except OSError:
        return False
    _servers.append(alike)
    return True


@contextlib.contextmanager
def in_charge() -> Iterator[None]:
    """A context in which multiprocessing forks from the server that `ensure` has started, or found."""
    shared = forkserver.connect_to_new_process
    forkserver.connect_to_new_process = _servers[-1].server.connect_to_new_process
    try:
        yield
    finally:
        forkserver.connect_to_new_process = shared


def leave() -> None:
    """Closes what a process that was forked from a server could end it by."""
    inherited = getattr(forkserver, "_forkserver", None)
    descriptor = getattr(inherited, "_forkserver_alive_fd", None)
    if descriptor is not None:
        os.close(descriptor)
        inherited._forkserver_alive_fd = None  # type: ignore[union-attr]


def stop() -> None:
    """Ends all servers, to free the memory of an imported torch; at the latest when this process ends."""
    _make_room(0)


def _make_room(count: int) -> None:
    while len(_servers) > count:
        _end(_servers[0])


def _end(server: _Server) -> None:
    """Ends it at once: it has nothing to lose, and an orderly shutdown of torch takes a second."""
    _servers.remove(server)
    with contextlib.suppress(AttributeError, TypeError, OSError):
        os.kill(server.server._forkserver_pid, signal.SIGKILL)
    with contextlib.suppress(AttributeError, OSError):
        server.server._stop()


atexit.register(stop)


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
