"""Lock: one run at a time measures on a host or device, so that runs do not see each other's load."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_runtime_path

from harness.configuration.errors import CaseError

NAME = "variant-harness"
POLL_S = 0.05

_announced: set[str] = set()  # scopes for which this process has printed that it waits


@contextlib.contextmanager
def hold(scopes: Iterable[str], policy: str, run: str, why: str = "") -> Iterator[None]:
    """Holds all `scopes` (the host, a device), while other runs of this user on this machine wait for them.

    `policy`: `wait` for a run that holds one now, `fail`, or `none` to take no lock. `run` describes this run to those
    that wait for it, and `why` is the reason that it gives if it has to wait itself. Scopes are taken in the order of
    their names, so that no two runs wait for each other. Raises CaseError if another run holds one and the policy is to
    fail, and if there is no folder for locks.
    """
    if policy == "none":
        yield
        return
    folder = _folder()
    with contextlib.ExitStack() as held:
        for scope in sorted(scopes):
            held.enter_context(_held(folder, scope, policy, run, why))
        yield


@contextlib.contextmanager
def _held(folder: Path, scope: str, policy: str, run: str, why: str) -> Iterator[None]:
    lock = FileLock(folder / f"{scope}.lock")
    holder = folder / f"{scope}.holder"
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        reason = f": {why}" if why else ""
        busy = f"another run is measuring on the {scope} now{_by(holder)}{reason}"
        if policy == "fail":
            raise CaseError(f"{busy}; lock=wait waits for it to end") from error
        if scope not in _announced:  # once, not in every case of a sweep
            _announced.add(scope)
            print(f"{busy}; waiting for it to end (lock=fail and lock=none do not wait)", file=sys.stderr)
        lock.acquire(poll_interval=POLL_S)
    except (OSError, NotImplementedError) as error:  # a file system without locks
        raise CaseError(f"{folder} cannot be locked: {error}; lock=none measures all the same") from error
    try:
        with contextlib.suppress(OSError):  # a full disk: the holder stays unknown to those that wait
            holder.write_text(f"process {os.getpid()}, {run}", encoding="utf-8")
        yield
    finally:
        lock.release()


def _folder() -> Path:
    """The user's folder for what lives as long as a login; else one in the temporary folder, by the user's number.

    The first may not exist, and a container or a batch job may not be allowed to write there.
    """
    with warnings.catch_warnings(), contextlib.suppress(OSError):
        warnings.simplefilter("ignore")  # that there is no XDG_RUNTIME_DIR, and that another folder takes its place
        usual = user_runtime_path(NAME, ensure_exists=True)
        if os.access(usual, os.W_OK | os.X_OK):
            return usual
    instead = Path(tempfile.gettempdir()) / f"{NAME}-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    try:
        instead.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{instead} cannot be created: {error.strerror}"
        raise CaseError(
            f"no folder for locks: {reason}; set XDG_RUNTIME_DIR, or measure without by lock=none"
        ) from error
    return instead


def _by(holder: Path) -> str:
    try:
        return f" ({holder.read_text(encoding='utf-8')})"
    except OSError:
        return ""
