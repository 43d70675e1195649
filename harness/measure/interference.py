"""Interference with a measurement: what others take of the machine meanwhile, and how fast that makes it."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from operator import sub
from time import perf_counter  # bound here: a variant may replace the module's

import psutil

FAULTS_PER_SECOND = 20_000
STEAL_SHARE = 0.05
BACKGROUND_CORES = 0.5
SLOWDOWN = 0.85
TASKS = "/proc/self/task"
CALLS = 300  # of an empty function: the yardstick
WORK = f"{CALLS} calls"  # what the yardstick is, for those who remember it
REPEATS = 3  # the fastest counts: the first finds caches as a variant has left them


class Interference:
    """What the host did while something was measured, added up over the times that it was watched."""

    def __init__(self) -> None:
        self._cores = _cores()
        self._clock = _frequency()
        self.seconds = 0.0
        self.others_cpu_s = 0.0  # that other processes used, on the cores that this one may run on
        self._stolen_s = 0.0  # that the hypervisor withheld
        self._faults = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """A context in which something is measured."""
        before = (time.perf_counter(), *self._spent())
        try:
            yield
        finally:
            seconds, stolen, others, faults = map(sub, (time.perf_counter(), *self._spent()), before)
            self.seconds += seconds
            self._stolen_s += stolen
            self.others_cpu_s += others
            self._faults += int(faults)

    def busy(self) -> bool:
        """Whether other processes, or other guests of the hypervisor, used the cores."""
        return self._share(self._stolen_s) > STEAL_SHARE or self._share(self.others_cpu_s) > BACKGROUND_CORES

    def _spent(self) -> tuple[float, float, int]:
        """Seconds that the hypervisor has withheld and that other processes have used, and own page faults."""
        times = [each for core, each in enumerate(psutil.cpu_times(percpu=True)) if core in self._cores]
        stolen = sum(getattr(each, "steal", 0.0) for each in times)
        busy = sum(getattr(each, kind, 0.0) for each in times for kind in ("user", "nice", "system"))
        return stolen, busy - time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def _share(self, amount: float) -> float:
        return amount / max(self.seconds, 1e-3)

    def warnings(self) -> list[str]:
        """A warning for each kind of interference, with its likely cause and a remedy."""
        faults, steal, background = map(self._share, (self._faults, self._stolen_s, self.others_cpu_s))
        lines = []
        if faults > FAULTS_PER_SECOND:
            lines.append(
                f"{faults:,.0f} page faults a second while timing: memory is given back and taken again; "
                "try worker.env.LD_PRELOAD with jemalloc or tcmalloc"
            )
        if steal > STEAL_SHARE:
            lines.append(
                f"the hypervisor withheld {steal:.0%} of a core while timing: noisy neighbours on this host; "
                "try a dedicated machine, or more latency.seconds"
            )
        if background > BACKGROUND_CORES:
            lines.append(
                f"other processes used {background:.1f} cores while timing: they share caches and cores; "
                "end them, or raise latency.seconds"
            )
        clock = _frequency()
        if clock and self._clock and clock < SLOWDOWN * self._clock:
            lines.append(
                f"the clock fell from {self._clock:.0f} to {clock:.0f} MHz while timing: heat or power limits; "
                "try a fixed frequency, or a cooler machine"
            )
        return lines


class Rest:
    """The time from its creation on, in which this process should do nothing."""

    def __init__(self) -> None:
        self._before = (time.perf_counter(), time.process_time())

    def spent(self) -> tuple[float, float]:
        """Seconds so far, and seconds that its threads have used of the cores all the same."""
        return time.perf_counter() - self._before[0], time.process_time() - self._before[1]


def own_memory() -> int:
    """Bytes that this process shares with no other."""
    return int(psutil.Process().memory_full_info().uss)


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


def yardstick() -> float:
    """Seconds that a small fixed piece of work takes, the fastest of a few times: some 8 µs.

    It is timed beside every block, and tells how fast the machine is now. It has nothing to do with torch or with what
    is measured: calls of an empty function in a Python loop, which take as long as the processor's clock and those who
    share its cores from outside allow. Where other guests of the host slow an eager operator by three quarters, they
    slow it by as much; integer additions too, but these vary by a third with what ran before, where calls vary by a
    tenth; SHA-256 and searches in bytes are slowed by a tenth at most.
    """
    fastest = float("inf")
    for _ in range(REPEATS):
        start = perf_counter()
        for _ in range(CALLS):
            _nothing()
        fastest = min(fastest, perf_counter() - start)
    return fastest


def _cores() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _frequency() -> float | None:
    try:
        current = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError):
        return None
    return float(current.current) if current and current.current else None


def _nothing() -> None:
    pass
