"""Run delay: how long the threads of this process have waited for a core that another process had."""

from __future__ import annotations

import contextlib
import os

TASKS = "/proc/self/task"


class RunDelay:
    """The time that this process's threads spent ready to run but waiting for a core, from its creation on.

    Linux counts it for each thread (Documentation/scheduler/sched-stats.rst); elsewhere it is always 0.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # of each thread, kept open: to open one takes ten times as long as to read
        self._waited: dict[str, int] = {}  # in ns
        self._total = 0
        self._update()
        self._total = 0

    def seconds(self) -> float:
        """So far, over all threads. Takes some 2 µs a thread."""
        self._update()
        return self._total / 1e9

    def _update(self) -> None:
        for thread in self._threads():
            try:
                if thread not in self._files:
                    self._files[thread] = os.open(f"{TASKS}/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
                waited = int(os.pread(self._files[thread], 128, 0).split()[1])
            except (OSError, ValueError, IndexError):  # it has just ended, or a variant has closed the file
                self._files.pop(thread, None)
                continue
            self._total += max(waited - self._waited.get(thread, 0), 0)
            self._waited[thread] = waited

    def _threads(self) -> list[str]:
        """Those that run now; what is known of others is forgotten."""
        try:
            running = os.listdir(TASKS)
        except OSError:
            return []
        for thread in self._files.keys() - set(running):
            self._waited.pop(thread, None)
            with contextlib.suppress(OSError):
                os.close(self._files.pop(thread))
        return running
