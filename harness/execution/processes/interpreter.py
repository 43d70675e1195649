"""Interpreter: measuring processes of another Python, such as that of a virtual environment with another torch.

They are forked from a server of that Python, `harness.execution.processes.interpreted`: multiprocessing's serves none
of another version. It gets this package and whatever else the user has put on the path, but nothing of what is
installed here, which would hide its own.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from harness.execution.processes import imports

PACKAGES = ("harness", "variants")  # of this installation or checkout
OWN_VARIABLES = ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")  # which belong to this Python

_servers: dict[tuple[Any, ...], Server] = {}  # the one that was used last comes last
_most = 1


def keep(count: int) -> None:
    """How many servers there may be, from now on: the least recently used is ended in favour of another."""
    global _most
    _most = max(count, 1)
    _make_room(count)


def server(python: str, preload: Sequence[str], log: str) -> Server:
    """The server of an interpreter under the variables that are set now; starts one if there is none.

    It imports the modules in `preload` before it forks, or those that an earlier call has named.
    """
    key = (python, *sorted(os.environ.items()))
    known = _servers.pop(key, None)
    if known is not None and known.ended:
        known.end()
        known = None
    _make_room(_most - 1)
    _servers[key] = known or Server(python, preload, log)
    return _servers[key]


def stop() -> None:
    """Ends all servers; they end with this process in any case."""
    _make_room(0)


def _make_room(count: int) -> None:
    while len(_servers) > count:
        _servers.pop(next(iter(_servers))).end()


class Server:
    """A server of an interpreter."""

    def __init__(self, python: str, preload: Sequence[str], log: str):
        self._socket, theirs = socket.socketpair()
        variables = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        variables["PYTHONPATH"] = os.pathsep.join([_packages().name, *users_folders(os.environ.get("PYTHONPATH", ""))])
        content = json.dumps({"modules": list(preload), "path": _path()})
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [python, "-m", "harness.execution.processes.interpreted", str(theirs.fileno()), content],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, pass_fds=[theirs.fileno()], env=variables,
            )  # fmt: skip
        theirs.close()

    @property
    def ended(self) -> bool:
        """Whether it serves no more."""
        return self._process.poll() is not None

    @property
    def status(self) -> int:
        """That with which it has ended."""
        return self._process.wait()

    def end(self) -> None:
        """Ends it, but none of the processes that it has started."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def fork(self, content: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Has it start a process, which works where this one does; an interpreter that has ended does not."""
        request = {"folder": os.getcwd(), "path": [*_path(), *imports.STRANGERS], "arguments": content}
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)


class Forked:
    """A process of an interpreter's server, in the way of multiprocessing.Process: it runs `process.entry`.

    `arguments` are those of the same names, in JSON's kinds, and `task` is the pickled one.
    """

    def __init__(self, server: Server, task: bytes, **arguments: Any):
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        self._alive: int | None
        alive, self._alive = os.pipe()  # by whose end the process sees that this one has ended
        self.sentinel, tells = os.pipe()  # at its end its status
        with tempfile.TemporaryFile() as turns:
            turns.truncate(mmap.PAGESIZE)
            self.turn = memoryview(mmap.mmap(turns.fileno(), mmap.PAGESIZE)).cast("L")
            server.fork(arguments, [theirs.fileno(), alive, tells, turns.fileno()])
        theirs.close()
        os.close(alive)
        os.close(tells)
        self._server = server
        self.exitcode: int | None = None
        with contextlib.suppress(OSError):
            self.connection.send_bytes(task)

    @property
    def pid(self) -> int:
        """Its number; raises ProcessLookupError if it has none yet."""
        if not self.turn[2]:
            raise ProcessLookupError
        return self.turn[2]

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, for so many seconds at most."""
        if self.exitcode is None and wait([self.sentinel], timeout):
            told = os.read(self.sentinel, 8)
            self.exitcode = int.from_bytes(told, "little", signed=True) if told else self._server.status
            os.close(self.sentinel)
            self._let_go()

    def kill(self) -> None:
        """Ends it; one that has not begun ends when it does."""
        self._let_go()
        if self.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _let_go(self) -> None:
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None


@cache
def _packages() -> tempfile.TemporaryDirectory:
    """A folder with links to the packages of this installation, and to nothing that is installed beside them."""
    folder = tempfile.TemporaryDirectory(prefix="harness-")
    for name in PACKAGES:
        Path(folder.name, name).symlink_to(Path(__file__).parents[3] / name)
    return folder


def _path() -> list[str]:
    return users_folders(os.pathsep.join(sys.path))


def users_folders(path: str) -> list[str]:
    """The folders of a path that are not of this Python or of what is installed for it."""
    installed = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    installed -= {sysconfig.get_path("data"), sysconfig.get_path("scripts")}
    installed.add(str(Path(__file__).parents[3]))
    inside = tuple(os.path.join(folder, "") for folder in installed)
    folders = [folder for folder in path.split(os.pathsep) if folder and not folder.endswith(".zip")]
    return [folder for folder in folders if not os.path.join(os.path.abspath(folder), "").startswith(inside)]
