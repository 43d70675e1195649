"""Memory: how much more of it processes may take, of the machine's or of the container's that they run in."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

CONTAINER = Path("/sys/fs/cgroup")  # the limits of control groups, version 2


def available() -> int:
    """Bytes that can be taken without pushing anything out."""
    found = [int(psutil.virtual_memory().available)]
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        limit = int((CONTAINER / "memory.max").read_text())
        used = int((CONTAINER / "memory.current").read_text())
        lines = (line.split() for line in (CONTAINER / "memory.stat").read_text().splitlines())
        files = next((int(value) for name, value in lines if name == "inactive_file"), 0)  # are given back when needed
        found.append(limit - used + files)
    return max(min(found), 0)
