"""Memory: how much of it is free, of the machine's or of the container's that this process runs in."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

CONTAINER = Path("/sys/fs/cgroup")
GROUPS = (  # control groups, versions 2 and 1: a container's limit, what it uses, and of what
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def free_bytes() -> int:
    """Bytes that can be had without swapping: the machine's, or what its container leaves of them."""
    free = [int(psutil.virtual_memory().available)]
    for limit, used, parts in GROUPS:
        with contextlib.suppress(OSError, ValueError):  # no container, or no limit, which is "max"
            lines = (line.split() for line in (CONTAINER / parts).read_text().splitlines())
            files = next((int(value) for name, value in lines if name == "inactive_file"), 0)  # are given back
            free.append(int((CONTAINER / limit).read_text()) - int((CONTAINER / used).read_text()) + files)
    return max(0, min(free))
