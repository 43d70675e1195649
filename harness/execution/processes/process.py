"""Process: a measuring child process, seen from both of its ends, and its death.

It is forked from a server that has imported torch already, if the device permits, and spawned elsewhere. Each
message is sent as soon as its content is known, so that a process which dies loses nothing that it had measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection, util
from pathlib import Path
from typing import Any

import cloudpickle

from harness.configuration.errors import UsageError, one_line
from harness.configuration.settings import WorkerSettings
from harness.devices import preflight
from harness.devices.base import Device
from harness.execution.processes import fork_server, imports, interpreter, wire
from harness.execution.processes.encoding import from_json, to_json
from harness.execution.processes.environment import environ, importable, worker_environment
from harness.execution.processes.messages import Broken, Died, Done, Message, Spoilt, Tampered, Usage
from harness.execution.processes.wire import Frames
from harness.measure.kinds import TAMPERING, TIME

Environment = Mapping[str, str | None]  # variables, to be set or unset
Started = tuple[
    Any, connection.Connection, Any
]  # a process; our end of its pipe; whose turn it is, and a count of turns

CLOSED_S = 5.0  # for the end of one whose pipe is closed
PATIENCE_S = 0.2  # for the end of a process that has sent its last message
FORGED = Tampered(
    (),
    "tampers with what measures it: sends messages of its own by the process's pipe, which were left out",
    TAMPERING,
)


class Process:
    """A measuring process, its messages, and its end.

    `target` is the dotted path of a function of (task, send, set_turn, receive), imported in the child alone. A death
    is attributed to one of `names`: before each step the child writes whose turn it is into shared memory. `devices`
    are those that it may get, `worker` gives its variables and time-out. Its output goes to the file `log`. `preload`
    names modules that the fork server imports before it forks. `python` is the path of another interpreter.
    """

    def __init__(
        self,
        target: str,
        task: Any,
        names: Sequence[str],
        devices: Sequence[Device],
        worker: WorkerSettings,
        log: Path,
        preload: Sequence[str] = (),
        python: str | None = None,
    ):
        self._names = list(names)
        self._timeout = worker.timeout_s
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**importable(), **worker_environment(worker.env, devices)}
        self._token = wire.new_token()
        arguments = target, self._token + cloudpickle.dumps(task), self._names, str(log)
        self._process: Any
        if python is None:
            started = _forked(start_method(devices), environment, preload, *arguments)
        else:
            started = _interpreted(python, environment, preload, *arguments)
        self._process, self._connection, self._turn = started
        self._frames = Frames(self._connection)

    def tell(self, message: Message) -> None:
        """Sends it a message; one that has ended says so in `messages`."""
        with contextlib.suppress(OSError):
            self._connection.send_bytes(to_json(message))

    def messages(self, until: type[Message] = Done) -> Iterator[Message]:
        """What it sends, up to a message of the kind `until`, or the last: Done, Spoilt, Usage, Broken or Died."""
        turn = -1
        since = time.monotonic()
        while True:
            while (line := self._frames.next()) is not None:
                since = time.monotonic()
                message = self._message(line)
                yield message
                if isinstance(message, until | Done | Spoilt | Usage | Broken):
                    return
            ready = connection.wait([self._connection, self._process.sentinel], timeout=1.0)
            with contextlib.suppress(OSError):
                if (self._connection in ready or self._connection.poll()) and self._frames.read():
                    continue
            if self._process.sentinel in ready or self._connection in ready:
                variant = self._whose_turn()
                self._process.join(CLOSED_S)
                code = self._process.exitcode
                self.end()
                yield Died(variant, "closed its process's pipe" if code is None else _death(code))
                return
            if self._turn[1] != turn:
                turn = self._turn[1]
                since = time.monotonic()
            elif time.monotonic() - since > self._timeout:
                variant = self._whose_turn()
                self.end()
                yield Died(variant, f"did not end within worker.timeout_s={self._timeout:g} s", TIME)
                return

    def _message(self, line: bytes) -> Message:
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):  # with its token, but no message
            if line.startswith(self._token):
                return from_json(wire.content(line))
        return FORGED

    def _whose_turn(self) -> str | None:
        index = self._turn[0]
        return self._names[index - 1] if index else None

    def end(self, patience_s: float = PATIENCE_S) -> None:
        """Ends the process, if it has not ended by then, and whatever a variant started and left in its group."""
        self._process.join(patience_s)
        with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # one that has not yet come to lead its group
        self._process.join()
        self._connection.close()


def _forked(
    method: str, environment: Environment, preload: Sequence[str], target: str, task: bytes, names: list[str], log: str
) -> Started:
    """A process of this interpreter, forked from the server of its environment or else spawned."""
    with environ(environment), _hidden_main(), contextlib.ExitStack() as server:
        if method == "forkserver" and not fork_server.ensure(environment, preload):
            method = "spawn"
        if method == "forkserver":
            server.enter_context(fork_server.in_charge())
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        turn = context.RawArray("L", 2)
        process = context.Process(  # type: ignore[attr-defined]
            target=entry, args=(target, task, names, theirs, turn, log), daemon=True
        )
        with imports.strangers():  # what is on the path now is on that of the process
            process.start()
    theirs.close()
    return process, ours, turn


def _interpreted(
    python: str, environment: Environment, preload: Sequence[str], target: str, task: bytes, names: list[str], log: str
) -> Started:
    """A process of another interpreter."""
    with environ(environment):
        server = interpreter.server(python, preload, log)
    process = interpreter.Forked(server, task, target=target, names=names, log=log)
    return process, process.connection, process.turn


def entry(
    target: str, task: bytes, names: list[str], pipe: Any, turn: Any, log: str, parent: int | None = None
) -> None:
    """The child's main function: runs the target and turns what ends it early into a message.

    `task` is the pickled one, after the token that messages begin with.
    `parent` is a descriptor that is closed when the parent ends; else multiprocessing has one.
    """
    os.setsid()  # a group of its own: Ctrl-C is the parent's to handle, and the group ends as one
    Path(log).parent.mkdir(parents=True, exist_ok=True)  # it may have been removed since the run began
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)  # a variant that prints must not print into a table
    os.dup2(descriptor, 2)
    _end_with_parent(parent)
    fork_server.leave()

    senders = [str(Path(__file__).parents[2])]  # the files whose code may send: a variant finds this in the stack

    def send(message: Message) -> None:
        genuine = sys._getframe(1).f_code.co_filename.startswith(tuple(senders))
        pipe.send_bytes(wire.token(task) + to_json(message) if genuine else b"")

    def receive() -> Message:
        return from_json(pipe.recv_bytes())

    def set_turn(name: str | None) -> None:
        turn[0] = names.index(name) + 1 if name else 0
        turn[1] += 1

    try:
        run = pkgutil.resolve_name(target)  # first: to unpickle a function imports its module, which may patch torch
        senders.append(run.__code__.co_filename)
        content = cloudpickle.loads(wire.content(task))
        gc.freeze()  # imported objects are never garbage, and need not be scanned
        gc.enable()  # it is off in the server
        run(content, send, set_turn, receive)
        send(Done())
    except UsageError as error:
        traceback.print_exc()
        send(Usage(str(error)))
    except BaseException as error:  # to unpickle a function imports its module, which may raise anything
        traceback.print_exc()
        fault = preflight.unloadable(error)
        send(Usage(fault.line) if fault is not None else Broken(f"{type(error).__name__}: {one_line(error)}"))
    with contextlib.suppress(Exception):
        # of semaphores, such as tqdm's: multiprocessing would warn of those that are left
        util._run_finalizers(0)  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)  # everything is sent, and an orderly shutdown of torch takes a fifth of a second


def _end_with_parent(sentinel: int | None) -> None:
    """Ends this group when the parent has ended.

    On Linux by a signal on the parent's pipe: a waiting thread would make every malloc take a lock, and small operators
    2 % slower.
    """
    parent = multiprocessing.parent_process()
    if sentinel is None and parent is not None:
        sentinel = parent.sentinel
    if sentinel is None:
        return

    def wait(timeout: float | None) -> None:
        if connection.wait([sentinel], timeout):
            os.killpg(0, signal.SIGKILL)

    try:
        fcntl.fcntl(sentinel, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    except (AttributeError, OSError):  # not Linux, or a sandbox that lacks it
        threading.Thread(target=wait, args=(None,), daemon=True).start()
    else:
        wait(0)  # it may have ended before


def start_servers(
    devices: Sequence[Device],
    environments: Sequence[tuple[WorkerSettings, str | None]],
    preload: Sequence[str],
    log: Path,
) -> None:
    """Starts the servers that processes on these devices are forked from, if they are; they import in the background.

    `environments` are the settings of processes, and their interpreters; `log` gets what another interpreter prints.
    """
    if start_method(devices) != "forkserver":
        return
    fork_server.keep(sum(python is None for _, python in environments))
    interpreter.keep(sum(python is not None for _, python in environments))
    log.parent.mkdir(parents=True, exist_ok=True)
    for worker, python in environments:
        environment = {**importable(), **worker_environment(worker.env, devices)}
        with environ(environment), _hidden_main():
            if python is None:
                fork_server.ensure(environment, preload)
            else:
                interpreter.server(python, preload, str(log))


def start_method(devices: Sequence[Device]) -> str:
    """How a process starts that may measure on any of `devices`: by a fork server if all of them permit it."""
    spawned = any(device.start_method == "spawn" for device in devices)
    return "spawn" if spawned or not hasattr(os, "fork") else "forkserver"


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Keeps multiprocessing from importing the user's script or notebook a second time in the new process."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _death(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"ended its process with {name}{hint}"
    return f"ended its process with exit status {code}"
