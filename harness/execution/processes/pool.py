"""Pool: the measuring processes that are alive, prepared side by side, of which one measures at a time.

Loads come and go in phases of a second or so. Processes that measured one after the other would each see another phase,
and what the machine did would pass for a difference between them; in short time slices, round robin, all see the same.
Processes of several environments make a set of one each, whose time slices are neighbours.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from harness.devices.cpu import cores
from harness.execution.processes import messages, parent_clock
from harness.execution.processes.messages import Done, Measured, Message, Ready, Samples, TimedAlone
from harness.execution.processes.process import PATIENCE_S, Process
from harness.measure import kinds, memory

SLICE_S = 0.05  # of a set of processes: each has its share
SAMPLED = messages.Tampered(
    (), "tampers with what measures it: sends samples of its own, which were left out", kinds.TAMPERING
)
CLOCKED, FRESH = 2, 3  # processes of an environment, in which clocks are compared, or contents tried that are new
RANDOM = secrets.SystemRandom()
MEMORY_SHARE = 0.5  # of what is available, that further processes may take


@dataclass(frozen=True)
class Place:
    """The place of a process in its pool: its set, its environment, and whether it makes the full pass of that."""

    number: int
    side: int
    full_pass: bool


Start = Callable[[Place], Process]
Take = Callable[[Place, int, Message], None]  # of the process that has sent it, and its time slice


@dataclass
class _Member:
    """One of the processes."""

    place: Place
    process: Process
    share: float  # of the time of its set
    wanted: int = 1  # rounds that it has to measure
    rounds: int = 0
    seconds: float = 0.0  # of its time slices

    def has(self, share_s: float) -> bool:
        """Whether it has measured for its share of so long, and as often as it has to."""
        return self.seconds >= share_s * self.share and self.rounds >= self.wanted


class Pool:
    """Starts, prepares and ends measuring processes, and lets each set of them measure for `share_s` seconds.

    `start` starts one, `take` gets all that each sends. `shares` are the parts of a set's time, by environment, and
    `timed_only` the environments of which no process makes a full pass.
    """

    def __init__(
        self,
        start: Start,
        take: Take,
        share_s: float,
        shares: Sequence[float] = (1.0,),
        timed_only: Iterable[int] = (),
    ):
        self._start = start
        self._take = take
        self._share_s = share_s
        self._extra_s = 0.0
        self._shares = dict(enumerate(shares))
        self._started: Counter[int] = Counter()
        self._members: list[_Member] = []
        self._finished: Counter[int] = Counter()
        self._full_passes = set(timed_only)  # and the environments of which a process has made, or will make, one
        self._explained: tuple[float, float, float] | None = None
        self._slices = 0  # so far, of all processes
        self.seconds = 0.0  # spent on sampling, the full passes apart
        self.bytes = 0  # that a process takes for itself
        self._measured_s = 0.0  # of all time slices
        self._others_cpu_s = 0.0  # that other programs used during them
        self._rested_s = 0.0
        self._rested_cpu_s = 0.0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def sides(self) -> list[int]:
        """The environments that have processes."""
        return list(self._shares)

    @property
    def incomplete(self) -> list[int]:
        """Those of which no process has made, or will make, the full pass."""
        return [side for side in self._shares if side not in self._full_passes]

    @property
    def full_pass(self) -> bool:
        """Whether there are none."""
        return not self.incomplete

    @property
    def next(self) -> int:
        """The environment whose turn it is to have a process, if they have them one after the other."""
        return min(self._shares, key=lambda side: (count := self._started[side], -side if count % 2 else side))

    @property
    def complete(self) -> int:
        """How many processes of each environment have measured for their share of the time."""
        return min(self._counts(lambda member: member.has(self._share_s)).values(), default=0)

    @property
    def total(self) -> int:
        """How many processes of each measure, or have measured to their end."""
        return min(self._counts().values(), default=0)

    @property
    def waiting(self) -> bool:
        """Whether any has still to measure for its share of the time."""
        return not all(member.has(self._share_s) for member in self._members)

    def lacking(self, total: int) -> list[int]:
        """The environments whose processes have to be started for each to have so many: a set after the other."""
        counts = self._counts()
        return [side for number in range(total) for side, count in counts.items() if count <= number]

    @property
    def room(self) -> int:
        """How many more sets of processes the memory has room for."""
        return int(MEMORY_SHARE * memory.free_bytes() / max(self.bytes * len(self._shares), 1))

    @property
    def others_cores(self) -> float:
        """Cores that other programs used while processes measured."""
        return self._others_cpu_s / self._measured_s if self._measured_s else 0.0

    @property
    def restless(self) -> float:
        """Cores that processes used while they should have rested; nothing but the one that measures ought to run."""
        return self._rested_cpu_s / self._rested_s if self._rested_s else 0.0

    def prepare(self, sides: Sequence[int]) -> None:
        """Starts a process of each of these environments, as many at a time as there are cores; waits until all are
        ready.

        The first of an environment is alone: it compiles what the others find in the cache, and makes the full pass.
        """
        since = time.monotonic()
        first = not self._full_passes.issuperset(sides)
        most = 1 if first else cores() or 1
        for at in range(0, len(sides), most):
            started = [self._add(side) for side in sides[at : at + most]]
            for member in started:
                ready = self._read(member, Ready)
                if isinstance(ready, Ready):
                    member.wanted = ready.rounds
                    self._full_passes.add(member.place.side)
                    self.bytes = max(self.bytes, ready.bytes)
        if not first:
            self.seconds += time.monotonic() - since

    def measure(self, left_out: Callable[[], Sequence[str]]) -> None:
        """Lets each process measure for its share, one at a time."""
        since = time.monotonic()
        share = self._share_s + self._extra_s
        forward = 1
        while waiting := {member.place.number for member in self._members if not member.has(share)}:
            order = sorted(self._members, key=lambda member: (member.place.number, forward * member.place.side))
            for member in order:
                if member.place.number in waiting and member in self._members:
                    self._slice(member, share, tuple(left_out()))
            forward = -forward  # so that no environment is always the first of its set
        self.seconds += time.monotonic() - since

    def once(self) -> None:
        """Lets one of the processes, drawn at random, measure for a time slice more."""
        member = RANDOM.choice(self._members)
        self._slice(member, member.seconds / member.share + SLICE_S, ())

    def extend(self) -> None:
        """Gives each process that is alive another share of the time."""
        self._extra_s += self._share_s

    def finish(self, timed: Sequence[str] = ()) -> None:
        """Lets all processes do what is left to do, one after the other; last, and alone, the full passes.

        Before, the clocks of a few are held against this process's, for the calls of those that are `timed`; and
        a few, the full passes among them, try contents that are new. Which ones no variant can know.
        """
        clocked, fresh = self._few(CLOCKED), self._few(FRESH)
        for member in sorted(self._members, key=lambda member: (member.place.full_pass, member.place.side)):
            since = time.monotonic()
            found = parent_clock.tampered(timed if member in clocked else (), partial(self._alone, member))
            if found is not None:
                self._take(member.place, self._slices, found)
            if member not in self._members:  # it has died meanwhile
                continue
            tried = member.place.full_pass or member in fresh
            member.process.tell(messages.Finish(secrets.randbits(62), tried, self._explained))
            if isinstance(self._read(member, Done), Done):
                self._finished[member.place.side] += 1
                self._remove(member)
            if not member.place.full_pass:
                self.seconds += time.monotonic() - since

    def drop(self, side: int) -> None:
        """Ends the processes of an environment, and has no more of them."""
        for member in [member for member in self._members if member.place.side == side]:
            self._remove(member, patience_s=0.0)
        self._shares.pop(side, None)

    def end(self) -> None:
        """Ends all processes, which need not do what is left to do."""
        for member in self._members:
            member.process.tell(Done())
        for member in list(self._members):
            self._remove(member)

    def _counts(self, counted: Callable[[_Member], bool] = lambda member: True) -> dict[int, int]:
        """How many have finished, or are alive and count, by environment."""
        found = Counter(member.place.side for member in self._members if counted(member))
        return {side: self._finished[side] + found[side] for side in self._shares}

    def _few(self, number: int) -> list[_Member]:
        """A few processes of each environment, at random."""
        members = ([each for each in self._members if each.place.side == side] for side in self._shares)
        return [each for found in members for each in RANDOM.sample(found, min(number, len(found)))]

    def _alone(self, member: _Member, name: str) -> Iterator[tuple[float, TimedAlone]]:
        """A few times: the seconds that calls of one variant take by this process's clock, and what theirs says."""
        for seconds in parent_clock.TRIES_S:
            if member not in self._members:
                return
            since = time.monotonic()
            member.process.tell(messages.Alone(name, seconds))
            told = self._read(member, TimedAlone)
            elapsed = time.monotonic() - since
            if not isinstance(told, TimedAlone) or not isinstance(self._read(member, Measured), Measured):
                return
            yield elapsed, told

    def _slice(self, member: _Member, share: float, left_out: tuple[str, ...]) -> None:
        left = max(share * member.share - member.seconds, 0.0)
        seconds = left if len(self._members) == 1 else min(left, SLICE_S * member.share)
        self._slices += 1
        member.process.tell(messages.Measure(seconds, left_out))
        measured = self._read(member, Measured, samples=1)
        if isinstance(measured, Measured):
            # without a round there is nothing left to time
            member.rounds = measured.rounds if measured.rounds > member.rounds else member.wanted
            member.seconds += max(measured.seconds, seconds)
            self._measured_s += measured.seconds
            self._others_cpu_s += measured.others_cpu_s
            if measured.rested_s >= SLICE_S:  # in a shorter rest it has hardly sent its samples
                self._rested_s += measured.rested_s
                self._rested_cpu_s += measured.rested_cpu_s

    def _read(self, member: _Member, until: type[Message], samples: int = 0) -> Message:
        """Reads what a process sends, up to such a message; one that ends before it is no longer of the pool.

        If it sends samples as often as it was asked to, they are taken: it may not be the sampler that sends more.
        """
        sampled: list[Samples] = []
        for message in member.process.messages(until):
            if isinstance(message, Samples):
                sampled.append(message)
            elif isinstance(message, messages.Explained):
                self._explained = message.seconds
            else:
                self._take(member.place, self._slices, message)
        for each in sampled if len(sampled) == samples else ():
            self._take(member.place, self._slices, each)
        if len(sampled) > samples:
            self._take(member.place, self._slices, SAMPLED)
        if not isinstance(message, until):
            self._remove(member)
            if member.place.full_pass:
                self._full_passes.discard(member.place.side)
        return message

    def _add(self, side: int) -> _Member:
        place = Place(self._started[side], side, side not in self._full_passes)
        member = _Member(place, self._start(place), self._shares[side])
        self._started[side] += 1
        self._members.append(member)
        return member

    def _remove(self, member: _Member, patience_s: float = PATIENCE_S) -> None:
        self._members.remove(member)
        member.process.end(patience_s)
