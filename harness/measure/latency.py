"""Latency: wall time per call without a profiler, in rounds that visit all variants in random order.

On a shared machine order is bias: load drifts while variants wait for their turn. So every round times a block of
each variant, and ratios are taken within rounds. Two unrecorded calls before each block pay for the switch between
variants. Where a call is long, it is a block of its own, and the switch is negligible. Beside each block the yardstick
is timed, and what its threads waited for a core is counted: they say which blocks saw the machine quiet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter  # bound here: a variant may replace the module's
from typing import Any

from harness.devices.base import Device
from harness.measure.flush import Flush
from harness.measure.garbage import no_garbage_collection
from harness.measure.interference import RunDelay, yardstick
from harness.measure.subject import Subject

UNRECORDED = 2
MIN_CALLS = 5
BLOCK_S = 1e-3  # a block this long drowns the clock's resolution and the call to it
MAX_CALLS = 10_000
LONG_S = 5e-3  # of a call: a block need not hold several of them
SLOW_S = 0.1  # of a call: longer than a preemption, or what a switch between variants costs
HELD_UP = 10  # times as long as a block takes: if it is held up so long before it begins, a call has to do
FASTER = 0.8  # of what a call was taken for: its block holds too few
MAX_PROBES = 5
MIN_ROUNDS = 5
MAX_WARM_UPS = 16  # more than Dynamo's recompile limit, past which a call no longer compiles


Hold = Callable[[dict[str, Callable[[], object]], str], None]


@dataclass(frozen=True)
class Sample:
    """The mean wall time per call over one block of calls, and what the machine was like."""

    variant: str
    round: int
    calls: int
    seconds: float
    yardstick_s: float  # just before
    waited_s: float  # per call, that threads of this process waited for a core, added up


@dataclass
class Turn:
    """The outcome of one turn of a variant, known when it has ended."""

    failed: bool = False
    compiles: int = 0


@dataclass(frozen=True)
class Block:
    """How a variant is timed in each round: so many calls, after so many that are not recorded."""

    calls: int
    unrecorded: int
    call_s: float  # seconds per call, as far as it is known before

    @property
    def seconds(self) -> float:
        """Its whole duration, unrecorded calls included."""
        return (self.calls + self.unrecorded) * self.call_s


def block(call_s: float) -> Block:
    """The block for calls of so many seconds."""
    fewest = min(MIN_CALLS, int(LONG_S / call_s)) if call_s > 0 else MIN_CALLS
    calls = min(max(1, fewest, round(BLOCK_S / max(call_s, 1e-9))), MAX_CALLS)
    unrecorded = UNRECORDED if call_s < LONG_S else 1 if call_s < SLOW_S else 0
    return Block(calls, unrecorded, call_s)


class Sampler:
    """Times subjects in rounds, a time slice after the other.

    `turn(name)` is a context in which a subject is called, and which suppresses what it raises: the subject is left out
    from then on. `call_seconds` are seconds per call as far as they are known, so that a slow subject need not be
    called to find out.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        device: Device,
        cache: str,
        seed: int,
        turn: Callable[[str], AbstractContextManager[Turn]],
        call_seconds: Mapping[str, float],
    ):
        self._subjects = list(subjects)
        self._device = device
        self._turn = turn
        self._random = random.Random(seed)
        self._flush = Flush(device) if cache == "cold" else None
        self.delay = RunDelay()
        self._calls: dict[str, Callable[[], object]] = {}
        self.done = 0  # rounds that are recorded
        self.call_seconds = dict(call_seconds)  # of the fastest block of each, as far as is known
        self.blocks: dict[str, Block] = {}  # of those that are still timed

    def warm(self, hold: Hold) -> None:
        """Calls each subject until its block is known; what compiles late does so here.

        `hold` is given what will be timed, before the next one is called.
        """
        for subject in self._subjects:
            for _ in range(MAX_WARM_UPS):
                with self._turn(subject.name) as turn:
                    call = subject.timed()
                    block = self._block(call, self.call_seconds.get(subject.name, 0.0))
                    self._calls[subject.name] = call
                    self.blocks[subject.name] = block
                if turn.failed or not turn.compiles:  # one that compiled says nothing of the next
                    break
            if turn.failed:
                self._leave_out(subject.name)
            else:
                hold(self._calls, subject.name)

    def min_rounds(self, limit: float) -> int:
        """How many rounds are taken however little time there is: a few, or what fits into `limit` seconds, or one."""
        return max(1, min(MIN_ROUNDS, int(limit / max(self._round_s(), 1e-9))))

    def settle(self, seconds: float) -> None:
        """Rounds that are not recorded, as many as fit."""
        until = perf_counter() + seconds
        while self._calls and perf_counter() + self._round_s() <= until:
            self._one_round()

    def measure(self, seconds: float, left_out: Sequence[str] = ()) -> list[Sample]:
        """Samples of whole rounds, as many as fit but one at least, without the subjects that are `left_out`.

        If there is time, an unrecorded round comes first: caches hold what ran meanwhile.
        """
        for name in left_out:
            self._leave_out(name)
        until = perf_counter() + seconds
        if 2 * self._round_s() <= seconds:
            self._one_round()
        samples: list[Sample] = []
        while self._calls:
            samples += self._one_round()
            self.done += 1
            if perf_counter() + self._round_s() > until:
                break
        for sample in samples:
            known = self.call_seconds.get(sample.variant) or sample.seconds
            self.call_seconds[sample.variant] = min(known, sample.seconds)
        return samples

    def alone(self, name: str, seconds: float, tell: Callable[..., None]) -> None:
        """Times one subject for about so many seconds, and tells at once how many its calls took by their samples.

        First those of recorded calls, then with unrecorded ones, which are taken to last as long. None if it is not
        timed, or if a call takes long. No cache is emptied: that would take far longer than the calls.
        """
        alone = self.warm_block(name)
        if alone is None or alone.call_s >= SLOW_S:
            tell(None)
            return
        with self._turn(name) as turn, no_garbage_collection():
            number = max(1, round(seconds / max(alone.seconds, 1e-9)))
            samples = [self._time(name, alone, flush=None) for _ in range(number)]
            recorded = sum(sample.calls * sample.seconds for sample in samples)
            tell(recorded, recorded + sum(alone.unrecorded * sample.seconds for sample in samples))
        if turn.failed:
            self._leave_out(name)
            tell(None)

    def warm_block(self, name: str) -> Block | None:
        """How a subject is timed where no cache is emptied; None if it is not timed any more."""
        timed = self.blocks.get(name)
        return None if timed is None else block(timed.call_s)

    def _round_s(self) -> float:
        """Seconds that a round takes, as far as it is known before."""
        flush_s = 0.0 if self._flush is None else self._flush.seconds
        return sum(block.seconds + flush_s for block in self.blocks.values())

    def _one_round(self) -> list[Sample]:
        samples: list[Sample] = []
        names = list(self._calls)
        self._random.shuffle(names)
        for name in names:
            with self._turn(name) as turn, no_garbage_collection():
                samples = [*samples, self._time(name, self.blocks[name], self._flush)]  # methods can be replaced
            if turn.failed:
                self._leave_out(name)
        return samples

    def _leave_out(self, name: str) -> None:
        self._calls.pop(name, None)
        self.blocks.pop(name, None)

    def _time(self, name: str, block: Block, flush: Flush | None) -> Sample:
        """A sample of one block."""
        call = self._calls[name]
        clock, elapsed, waiting, made = perf_counter, self._elapsed(), self.delay.seconds, Sample  # before any call
        speed = yardstick()
        waited = waiting()
        start = clock()
        for _ in range(block.unrecorded):
            call()
        held_up = clock() - start > HELD_UP * max(block.seconds, BLOCK_S)
        calls = 1 if held_up else block.calls
        if flush is not None:  # so that the cache holds none of its data; not timed
            flush()
        seconds = elapsed(repeat(call, calls)) / calls
        waited = (waiting() - waited) / calls
        if seconds < FASTER * block.call_s:  # it was taken for slower, on a loud machine
            self.blocks[name] = self._sized(seconds)
        return made(name, self.done, calls, seconds, speed, waited)

    def _elapsed(self) -> Callable[..., float]:
        return timer(self._device.synchronize)

    @property
    def synchronize(self) -> Callable[[], None]:
        """Waits for the device."""
        return self._device.synchronize

    def _block(self, call: Callable[[], object], known: float) -> Block:
        """Finds how long a call takes."""
        if known >= SLOW_S:
            return self._sized(known)
        number = 1
        while True:
            elapsed = self._probe(call, number)
            if elapsed >= BLOCK_S / 2 or number >= MAX_CALLS:
                return self._sized(elapsed / number)
            number *= 4

    def _probe(self, call: Callable[[], object], number: int) -> float:
        """Seconds of so many calls, the fastest of two or more: those that were held up would say too much."""
        fastest, timed = float("inf"), self._elapsed()
        for probe in range(MAX_PROBES):
            waited = self.delay.seconds()
            elapsed = timed(repeat(call, number))
            fastest = min(fastest, elapsed)
            held_up = self.delay.seconds() - waited > elapsed / 2
            if not BLOCK_S / 2 <= elapsed < SLOW_S or (probe and not held_up):
                break
        return fastest

    def _sized(self, call_s: float) -> Block:
        """The block for calls of so many seconds; a single call if the cache is emptied before each."""
        sized = block(call_s)
        return sized if self._flush is None else Block(1, min(sized.unrecorded, 1), call_s)


def timer(synchronize: Callable[[], None]) -> Callable[..., float]:
    """A function of calls that gives their seconds, device drained; its clock is the one that there is now.

    What they return is kept if there is a list for it; else no memory is held.
    """
    clock = perf_counter

    def elapsed(calls: Iterable[Callable[[], object]], kept: list[Any] | None = None) -> float:
        synchronize()
        start = clock()
        if kept is None:
            for call in calls:
                call()
        else:
            for call in calls:
                kept.append(call())
        synchronize()
        return clock() - start

    return elapsed
