"""Memory: how much of the machine's is free."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

CGROUPS = (  # of a container, versions 2 and 1: its limit, and what it uses
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_bytes() -> int:
    """Bytes that can be had without swapping: the machine's, or what its container leaves of them."""
    free = [psutil.virtual_memory().available]
    for limit, used in CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # no container, or no limit, which is "max"
            free.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
    return max(0, min(free))
