"""Pool: the measuring processes that are alive, prepared side by side, of which one measures at a time.

Loads come and go in phases of a second or so. Processes that measured one after the other would each see another phase,
and what the machine did would pass for a difference between them; in short time slices, round robin, all see the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.devices.cpu import cores
from harness.execution import memory
from harness.execution.messages import Done, Finish, Measure, Measured, Message, Ready
from harness.execution.process import PATIENCE_S, Process

SLICE_S = 0.05
MEMORY_SHARE = 0.5  # of what is available, that further processes may take

Start = Callable[[int, bool], Process]  # of a number, and whether it is the one that makes the full pass
Take = Callable[[int, Message], None]  # of the number of the process that has sent it


@dataclass
class _Member:
    """One of the processes."""

    number: int
    full_pass: bool
    process: Process
    wanted: int = 1  # rounds that it has to measure
    rounds: int = 0
    seconds: float = 0.0  # of its time slices

    def has(self, share_s: float) -> bool:
        """Whether it has measured for so long, and as often as it has to."""
        return self.seconds >= share_s and self.rounds >= self.wanted


class Pool:
    """Starts, prepares and ends measuring processes, and lets each measure for `share_s` seconds.

    `start` starts one, `take` gets all that each sends.
    """

    def __init__(self, start: Start, take: Take, share_s: float):
        self._start = start
        self._take = take
        self._share_s = share_s
        self._extra_s = 0.0
        self._started = 0
        self._members: list[_Member] = []
        self._finished = 0
        self.full_pass = False  # whether a process has made, or will make, the full pass
        self.seconds = 0.0  # spent on sampling, the full pass apart
        self.bytes = 0  # that a process takes for itself
        self._measured_s = 0.0  # of all time slices
        self._others_cpu_s = 0.0  # that other programs used during them
        self._rested_s = 0.0
        self._rested_cpu_s = 0.0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def complete(self) -> int:
        """How many processes have measured for their share of the time."""
        return self._finished + sum(member.has(self._share_s) for member in self._members)

    @property
    def total(self) -> int:
        """How many processes measure, or have measured to their end."""
        return self._finished + len(self._members)

    @property
    def room(self) -> int:
        """How many more processes the memory has room for."""
        return int(MEMORY_SHARE * memory.available() / max(self.bytes, 1))

    @property
    def others_cores(self) -> float:
        """Cores that other programs used while processes measured."""
        return self._others_cpu_s / self._measured_s if self._measured_s else 0.0

    @property
    def restless(self) -> float:
        """Cores that processes used while they should have rested; nothing but the one that measures ought to run."""
        return self._rested_cpu_s / self._rested_s if self._rested_s else 0.0

    def prepare(self, count: int) -> None:
        """Starts processes, as many at a time as there are cores, and waits until they are ready.

        The first is alone: it compiles what the others find in the cache, and makes the full pass.
        """
        since = time.monotonic()
        first = not self.full_pass
        for at_once in _batches(1 if first else count, cores() or 1):
            started = [self._add(first) for _ in range(at_once)]
            for member in started:
                ready = self._read(member, Ready)
                if isinstance(ready, Ready):
                    member.wanted = ready.rounds
                    self.full_pass = True
                    self.bytes = max(self.bytes, ready.bytes)
        if not first:
            self.seconds += time.monotonic() - since

    def measure(self, left_out: Callable[[], Sequence[str]]) -> None:
        """Lets each process measure for its share, one at a time."""
        since = time.monotonic()
        share = self._share_s + self._extra_s
        while waiting := [member for member in self._members if not member.has(share)]:
            for member in waiting:
                self._slice(member, share, tuple(left_out()))
        self.seconds += time.monotonic() - since

    def extend(self) -> None:
        """Gives each process that is alive another share of the time."""
        self._extra_s += self._share_s

    def finish(self) -> None:
        """Lets all processes do what is left to do, one after the other; last, and alone, the full pass."""
        for member in sorted(self._members, key=lambda member: member.full_pass):
            since = time.monotonic()
            member.process.tell(Finish())
            if isinstance(self._read(member, Done), Done):
                self._finished += 1
                self._remove(member)
            if not member.full_pass:
                self.seconds += time.monotonic() - since

    def end(self) -> None:
        """Ends all processes, at once."""
        for member in list(self._members):
            self._remove(member, patience_s=0.0)

    def _slice(self, member: _Member, share: float, left_out: tuple[str, ...]) -> None:
        left = max(share - member.seconds, 0.0)
        seconds = left if len(self._members) == 1 else min(left, SLICE_S)
        member.process.tell(Measure(seconds, left_out))
        measured = self._read(member, Measured)
        if isinstance(measured, Measured):
            # without a round there is nothing left to time
            member.rounds = measured.rounds if measured.rounds > member.rounds else member.wanted
            member.seconds += max(measured.seconds, seconds)
            self._measured_s += measured.seconds
            self._others_cpu_s += measured.others_cpu_s
            if measured.rested_s >= SLICE_S:  # in a shorter rest it has hardly sent its samples
                self._rested_s += measured.rested_s
                self._rested_cpu_s += measured.rested_cpu_s

    def _read(self, member: _Member, until: type[Message]) -> Message:
        """Reads what a process sends, up to such a message; one that ends before it is no longer of the pool."""
        for message in member.process.messages(until):
            self._take(member.number, message)
        if not isinstance(message, until):
            self._remove(member)
            self.full_pass = self.full_pass and not member.full_pass
        return message

    def _add(self, full_pass: bool) -> _Member:
        member = _Member(self._started, full_pass, self._start(self._started, full_pass))
        self._started += 1
        self._members.append(member)
        return member

    def _remove(self, member: _Member, patience_s: float = PATIENCE_S) -> None:
        self._members.remove(member)
        member.process.end(patience_s)


def _batches(count: int, most: int) -> list[int]:
    """A count in parts of at most `most`."""
    return [min(most, count - start) for start in range(0, count, most)]
