"""Lock: one machine's device is measured by one run at a time, or both would see each other's load."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_runtime_path

from harness.configuration.errors import CaseError

DEVICES = ("neuron", "cuda", "cpu")  # always taken in this order, so that no two runs wait for each other
POLL_S = 0.05

_told: set[str] = set()  # the devices that this process has said it waits for


@contextlib.contextmanager
def hold(device: str, policy: str, what: str) -> Iterator[None]:
    """Holds a device, while other runs of this user on this machine wait for it.

    `policy`: wait for a run that holds it now, fail, or take no lock at all (none). `what` tells those who wait who
    holds it. `auto` holds every device: which one it will be is known only in the measuring process. Raises CaseError
    where another run holds the device and the policy is to fail.
    """
    if policy == "none":
        yield
        return
    with contextlib.ExitStack() as held:
        for name in DEVICES if device == "auto" else (device,):
            held.enter_context(_held(name, policy, what))
        yield


@contextlib.contextmanager
def _held(name: str, policy: str, what: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no XDG_RUNTIME_DIR, and that another folder takes its place
        folder = user_runtime_path("variant-harness", ensure_exists=True)
    lock, holder = FileLock(folder / f"{name}.lock"), folder / f"{name}.holder"
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        busy = f"{name} is being measured by another run{_by(holder)}"
        if policy == "fail":
            raise CaseError(f"{busy}; lock=wait waits for its turn") from error
        if name not in _told:  # once, not in every case of a sweep
            _told.add(name)
            print(f"{busy}; waiting for its turn (lock=fail or lock=none does not)", file=sys.stderr)
        lock.acquire(poll_interval=POLL_S)
    try:
        holder.write_text(f"process {os.getpid()}, {what}", encoding="utf-8")
        yield
    finally:
        lock.release()


def _by(holder: Path) -> str:
    try:
        return f" ({holder.read_text(encoding='utf-8')})"
    except OSError:
        return ""
