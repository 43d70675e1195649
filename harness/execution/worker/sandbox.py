"""Sandbox: what a measuring process gives up before it imports anybody's code, as far as Linux lets it.

No network and no other processes (namespaces of its own), no writing but to a few folders (Landlock), limits on memory,
processes, files and time (setrlimit). It cannot be left, and holds for all that the process starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

from harness.configuration.settings import WorkerSettings
from harness.devices.cpu import cores

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
NO_NEW_PRIVILEGES = 38  # of prctl
# Landlock (Documentation/userspace-api/landlock.rst): system calls, rights, and the version that knows each
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # files written, removed and made
LATER = {2: 1 << 13, 3: TRUNCATE}  # moved between folders; cut short
NETWORK, SIGNALS = 4, 6
BOUND, CONNECTED = 1, 2
ABSTRACT_SOCKETS, SIGNAL = 1, 2
PROCESSES = 512
FILE_BYTES = 1 << 30
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SIGNALLED = 128  # added to a signal's number, as a shell does: a namespace's first process cannot send itself one
SHARED_MEMORY = ("/dev/shm", b"size=25%,mode=1777")  # of its own, of so much of the machine's memory


def enter(worker: WorkerSettings, traces: Path) -> dict[str, bool]:
    """Enters it, in a process of this one; says what is kept from this process from now on. `traces` stays writable."""
    traces.mkdir(parents=True, exist_ok=True)
    folders = [str(traces), tempfile.gettempdir(), *filter(None, map(os.environ.get, CACHES))]
    network = _no_network()
    alone = _own_processes()
    version = _restrict([folder for folder in folders if os.path.isdir(folder)])
    return {
        "no_network": network or version >= NETWORK,
        "read_only": version > 0,
        "no_signals": alone or version >= SIGNALS,
        "no_other_processes": alone,
        **_limits(worker.timeout_s),
    }


def _no_network() -> bool:
    """Moves this process, which has one thread, into a network namespace without a device."""
    if not sys.platform.startswith("linux"):
        return False
    user, group = os.getuid(), os.getgid()
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(CLONE_NEWNET) == 0:
        return True
    if unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text)
    return True


def _restrict(folders: Iterable[str]) -> int:
    """Restricts this process by Landlock to writing into these folders; returns its version, 0 if there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = int(call(CREATE_RULESET, None, 0, 1))
    if version < 1:
        return 0
    changes = CHANGES | sum(right for since, right in LATER.items() if version >= since)
    fields = [changes]
    if version >= NETWORK:
        fields.append(BOUND | CONNECTED)
    if version >= SIGNALS:
        fields.append(ABSTRACT_SOCKETS | SIGNAL)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    rules = int(call(CREATE_RULESET, attributes, len(attributes), 0))
    if rules < 0:
        return 0
    try:
        devices = changes & (WRITE_FILE | TRUNCATE)
        for folder, allowed in (*((folder, changes) for folder in folders), ("/dev", devices), ("/dev/shm", changes)):
            if os.path.isdir(folder):
                below = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                call(ADD_RULE, rules, 1, struct.pack("=Qi", allowed, below), 0)
                os.close(below)
        ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return version if call(RESTRICT_SELF, rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _limits(timeout_s: float) -> dict[str, bool]:
    """Limits memory to what is available, processes, the size of a file, and time to that of a step on all cores."""
    held = psutil.Process().memory_info().vms
    seconds = int(timeout_s * (cores() or 1)) + 60
    wanted = {
        "memory": (resource.RLIMIT_AS, held + psutil.virtual_memory().available),
        "time": (resource.RLIMIT_CPU, seconds),
        "files": (resource.RLIMIT_FSIZE, FILE_BYTES),
        "processes": (resource.RLIMIT_NPROC, PROCESSES),
    }
    entered = {}
    for name, (kind, limit) in wanted.items():
        hard = resource.getrlimit(kind)[1]
        try:
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (limit, limit))
            entered[f"limited_{name}"] = kind != resource.RLIMIT_NPROC or os.getuid() != 0  # which holds not for root
        except (OSError, ValueError):
            entered[f"limited_{name}"] = False
    return entered


def _own_processes() -> bool:
    """Goes on in the PID namespace of a new process of this one, which waits for it and ends as it does.

    There it can name no other process, so that it can neither stop, trace, read, limit nor pin its parent or another
    measuring process, and whatever it starts ends with it (man 7 pid_namespaces). False if that is not allowed.
    This process has one thread. Whether it is allowed is tried first, as there is no way back.
    """
    if not sys.platform.startswith("linux"):
        return False
    trial = os.fork()
    if not trial:
        with contextlib.suppress(OSError):
            _unshare()
            os._exit(0)
        os._exit(1)
    if os.waitpid(trial, 0)[1]:
        return False
    _unshare()
    return True


def _unshare() -> None:
    """Enters the namespace; raises OSError if that is not allowed."""
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
