"""The server of another interpreter, seen from that: imports what measuring processes need, and forks them.

Each is the child of a process of its own, which tells how it ended. Only the standard library is
imported above, so that an interpreter that lacks something can say so.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import socket
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from harness.execution.processes import wire

OLDEST = (3, 10)
MOST_BYTES = 1 << 20  # of a request


def main() -> None:
    """Serves until the other end of its socket is closed."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent's to handle
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that it forks
    with contextlib.suppress(Exception):  # who needs it will import it again, and be told
        from harness.execution.processes.imports import import_all

        import_all(**json.loads(sys.argv[2]))
    while True:
        content, descriptors, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not content:
            return
        if os.fork() == 0:
            requests.close()
            _watch(descriptors, **json.loads(content))
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(descriptors: list[int], folder: str, path: list[str], arguments: dict[str, Any]) -> None:
    """Forks the process, and tells of it; does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pipe, alive, tells, turns = descriptors
    child = os.fork()
    if child == 0:
        os.close(tells)
        turn = memoryview(mmap.mmap(turns, mmap.PAGESIZE)).cast("L")
        turn[2] = os.getpid()
        os.chdir(folder)
        sys.path += [entry for entry in path if entry not in sys.path]
        _run(Connection(pipe), alive, turn, arguments)
        os._exit(1)
    for descriptor in (pipe, alive, turns):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):
        os.write(tells, code.to_bytes(8, "little", signed=True))
    os._exit(0)


def _run(pipe: Connection, alive: int, turn: memoryview, arguments: dict[str, Any]) -> None:
    """Runs the measuring process, or tells what this interpreter lacks for it."""
    task = pipe.recv_bytes()
    try:
        if sys.version_info < OLDEST:
            raise ImportError(f"Python {sys.version.split()[0]}, where the harness needs 3.10 or later")
        from harness.execution.processes.process import entry
    except BaseException as error:
        traceback.print_exc()
        line = json.dumps(["Broken", {"line": f"{type(error).__name__}: {error}"}])
        pipe.send_bytes(wire.token(task) + line.encode())
    else:
        entry(task=task, pipe=pipe, turn=turn, parent=alive, **arguments)


if __name__ == "__main__":
    main()
