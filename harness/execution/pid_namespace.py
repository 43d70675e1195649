"""PID namespace: a measuring process that can name no other process, and whatever it starts ends with it.

So it can neither stop, trace, read, limit nor pin its parent or another measuring process (man 7 pid_namespaces).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SIGNALLED = (
    128  # added to the number of a signal, as a shell does: the first process of a namespace cannot send itself one
)
SHARED_MEMORY = ("/dev/shm", b"size=25%,mode=1777")  # of its own, of so much of the machine's memory


def enter() -> bool:
    """Goes on in a new process of this one, which waits for it and ends as it does; False if that is not allowed.

    This process has one thread. Whether it is allowed is tried first, as there is no way back.
    """
    if not sys.platform.startswith("linux"):
        return False
    trial = os.fork()
    if not trial:
        with contextlib.suppress(OSError):
            _enter()
            os._exit(0)
        os._exit(1)
    if os.waitpid(trial, 0)[1]:
        return False
    _enter()
    return True


def _enter() -> None:
    """Raises OSError if it is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(CLONE_NEWPID | CLONE_NEWNS))
    _go_on_in_a_child()  # the first of the namespace, with which all others end
    _check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    _check(libc.mount(b"proc", b"/proc", b"proc", 0, None))
    if os.path.isdir(SHARED_MEMORY[0]):
        libc.mount(b"tmpfs", SHARED_MEMORY[0].encode(), b"tmpfs", 0, SHARED_MEMORY[1])
    _go_on_in_a_child()


def _go_on_in_a_child() -> None:
    child = os.fork()
    if not child:
        return
    status = None
    while status is None:
        ended, status = os.wait()
        status = status if ended == child else None  # another that nobody else waits for
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - SIGNALLED
    if os.getpid() != 1 and number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(code if code >= 0 else SIGNALLED + number)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
