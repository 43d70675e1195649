"""Process: a child that measures, seen from both of its ends, and what is known when it dies.

It is forked from a server that has imported torch already, where the device permits, and spawned elsewhere. Messages
are (kind, variant, payload) of plain values, sent as soon as a thing is known, so that a process which dies
loses nothing that it had measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from pathlib import Path
from typing import Any

import cloudpickle

from harness.configuration.errors import CaseError, UsageError, one_line
from harness.configuration.operation import Case
from harness.configuration.settings import Settings
from harness.devices import preflight as fitness
from harness.execution.environment import applied, worker_environment

Message = tuple[str, str, Any]

LONGEST_SOCKET_FOLDER = 60  # bytes; multiprocessing adds some 35, and 104 are what the strictest system takes
SHORT_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


@dataclass(frozen=True)
class Task:
    """One process's share of a case."""

    case: Case
    settings: Settings
    variants: tuple[str, ...]  # to be measured, in the order of the configuration
    replicate: int
    full_pass: bool  # also checks, profiles and weighs the variants; once a case is enough
    seconds: float  # of timing
    traces: Path  # holds a folder for each variant


class Process:
    """A measuring process, its messages, and its end.

    `target` is the dotted path of a function of (task, send, set_turn), imported in the child alone. `names` are those
    that can be blamed for a death: before each step the child writes whose turn it is into shared memory.
    """

    def __init__(
        self,
        target: str,
        task: Any,
        names: Sequence[str],
        device: str,
        variables: dict[str, Any],
        log: Path,
        timeout_s: float,
        preload: Sequence[str] = (),
    ):
        self._names, self._timeout = list(names), timeout_s
        log.parent.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context(start_method(device))
        self._connection, theirs = context.Pipe(duplex=False)
        self._turn = context.RawArray("L", 2)  # whose turn it is, from 1; and a count of turns
        self._process = context.Process(  # type: ignore[attr-defined]
            target=entry,
            args=(target, cloudpickle.dumps(task), self._names, theirs, self._turn, str(log)),
            daemon=True,
        )
        environment: dict[str, str | None] = {**_importable(), **worker_environment(variables, device)}
        with _environment(environment), _hidden_main():
            _serve_with(context, environment, preload)
            self._process.start()
        theirs.close()

    def messages(self) -> Iterator[Message]:
        """What the process says; at its end `done`, or `died` with the variant to blame."""
        turn, since = -1, time.monotonic()
        while True:
            ready = connection.wait([self._connection, self._process.sentinel], timeout=1.0)
            if self._connection in ready or self._connection.poll():
                with contextlib.suppress(EOFError, OSError):
                    kind, variant, payload = json.loads(self._connection.recv_bytes())
                    since = time.monotonic()
                    yield kind, variant, payload
                    continue
            if self._process.sentinel in ready or self._connection in ready:
                self._process.join()
                yield "died", self._whose_turn(), _death(self._process.exitcode)
                return
            if self._turn[1] != turn:
                turn, since = self._turn[1], time.monotonic()
            elif time.monotonic() - since > self._timeout:
                blamed = self._whose_turn()
                self.end()
                yield "died", blamed, f"did not end within worker.timeout_s={self._timeout:g} s"
                return

    def _whose_turn(self) -> str:
        index = self._turn[0]
        return self._names[index - 1] if index else ""

    def end(self) -> None:
        """Ends the process, if it has not ended, and whatever a variant started and left in its group."""
        self._process.join(0.2)
        with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # one that has not yet come to lead its group
        self._process.join()
        self._connection.close()


def entry(target: str, task: bytes, names: list[str], pipe: Any, turn: Any, log: str) -> None:
    """The child's main function: runs the target and turns what ends it early into a message."""
    os.setsid()  # a group of its own: Ctrl-C is the parent's to handle, and the group ends as one
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)  # a variant that prints must not print into a table
    os.dup2(descriptor, 2)
    _end_with_parent()
    loaded = cloudpickle.loads(task)

    def send(kind: str, variant: str, payload: Any) -> None:
        # as JSON: a value of torch's own would have the parent import torch to read it
        pipe.send_bytes(json.dumps([kind, variant, payload]).encode())

    def set_turn(name: str) -> None:
        turn[0] = names.index(name) + 1 if name else 0
        turn[1] += 1

    try:
        pkgutil.resolve_name(target)(loaded, send, set_turn)
        send("done", "", None)
    except UsageError as error:
        traceback.print_exc()
        send("usage", "", str(error))
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        fault = fitness.unloadable(error)
        if fault is not None:
            send("usage", "", fault.line)
        else:
            send("broken", "", f"{type(error).__name__}: {one_line(error)}")
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)  # all has been told; to take torch down in good order takes a fifth of a second


def _end_with_parent() -> None:
    """Ends this group when the parent has ended.

    Linux is told to, by a signal for what happens to the parent's pipe: a thread that waits for it would have every
    malloc of a call take a lock, and make small operators 2 % slower than they are.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait(timeout: float | None) -> None:
        if connection.wait([parent.sentinel], timeout):
            os.killpg(0, signal.SIGKILL)

    try:
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, fcntl.fcntl(parent.sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    except (AttributeError, OSError):  # not Linux, or a sandbox that lacks it
        threading.Thread(target=wait, args=(None,), daemon=True).start()
    else:
        wait(0)  # it may have ended before


def start_method(device: str) -> str:
    """A fork server serves where importing torch does not open a device."""
    neuron = device in ("auto", "neuron") and importlib.util.find_spec("torch_neuronx") is not None
    return "spawn" if neuron or not hasattr(os, "fork") else "forkserver"


_served: tuple[dict[str, str | None], set[str]] | None = None  # the server's variables and what it has imported


def _serve_with(context: Any, variables: dict[str, str | None], preload: Sequence[str]) -> None:
    """Makes sure that the fork server has these variables, which torch reads when it is imported, and modules."""
    global _served
    if context.get_start_method() != "forkserver":
        return
    if _served is not None and (_served[0] != variables or not _served[1].issuperset(preload)):
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
        _served = None
    if _served is None:
        _served = variables, set(preload)
        context.set_forkserver_preload(list(preload))
    with _ignored_interrupt(), _short_sockets():
        forkserver.ensure_running()


@contextlib.contextmanager
def _short_sockets() -> Iterator[None]:
    """Has the server's socket put where its path is short: a system takes some 100 bytes, and TMPDIR may be longer.

    Raises CaseError, which names TMPDIR, where there is no such folder.
    """
    before = tempfile.tempdir
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > LONGEST_SOCKET_FOLDER:
        short = [path for path in SHORT_FOLDERS if os.access(path, os.W_OK | os.X_OK)]
        if not short:
            raise CaseError(f"TMPDIR={folder}: too long for a socket in it; set TMPDIR to a shorter folder")
        tempfile.tempdir = short[0]
    try:
        yield
    finally:
        tempfile.tempdir = before


def _importable() -> dict[str, str]:
    """Lets the server find this package wherever the user's path found it: it is not told of sys.path."""
    here = str(Path(__file__).parents[2])
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), here]))}


@contextlib.contextmanager
def _ignored_interrupt() -> Iterator[None]:
    """What is started meanwhile ignores Ctrl-C, also while it imports: it ends with this process."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(variables: dict[str, str | None]) -> Iterator[None]:
    before = dict(os.environ)
    after = applied(variables, before)
    try:
        os.environ.clear()
        os.environ.update(after)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Keeps multiprocessing from importing the user's script or notebook a second time in the new process."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"ended its process with {name}{hint}"
    return f"ended its process with exit status {code}"
