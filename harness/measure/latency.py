"""Latency: wall time per call without a profiler, in rounds that visit all variants in random order.

On a shared machine order is bias: load drifts while variants wait for their turn. So every round times a block of
each variant, and ratios are taken within rounds. Two unrecorded calls before each block pay for the switch between
variants. Where a call is long, it is a block of its own, and the switch is negligible.
"""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter  # bound here: a variant may replace the module's

import torch

from harness.devices.base import Device
from harness.measure.subject import Subject

UNRECORDED = 2
SETTLING = 0.25  # a compiled call gets a tenth faster over its first thousand calls
MIN_CALLS = 5
BLOCK_S = 1e-3  # a block this long drowns the clock's resolution and the call to it
MAX_CALLS = 10_000
LONG_S = 5e-3  # of a call: a block need not hold several of them
SLOW_S = 0.1  # of a call: longer than a preemption, or what a switch between variants costs
MIN_ROUNDS = 5
MAX_WARM_UPS = 16  # more than Dynamo's recompile limit, past which a call no longer compiles


@dataclass(frozen=True)
class Sample:
    """The mean wall time per call over one block of calls."""

    variant: str
    round: int
    calls: int
    seconds: float


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


def fastest(samples: list[Sample]) -> dict[str, float]:
    """Seconds per call of each variant in its fastest block."""
    seconds: dict[str, float] = {}
    for sample in samples:
        seconds[sample.variant] = min(sample.seconds, seconds.get(sample.variant, sample.seconds))
    return seconds


class Sampler:
    """Times subjects in rounds until a time is up.

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
        self._flush = _flusher(device) if cache == "cold" else None
        self._call_seconds = call_seconds
        self._started = perf_counter()
        self._calls: dict[str, Callable[[], object]] = {}
        self.blocks: dict[str, Block] = {}  # of those that are still timed

    def warm(self) -> None:
        """Calls each subject until its block is known; what compiles late does so here."""
        self._started = perf_counter()
        for subject in self._subjects:
            for _ in range(MAX_WARM_UPS):
                with self._turn(subject.name) as turn:
                    call = subject.timed()
                    block = self._block(call, self._call_seconds.get(subject.name, 0.0))
                    self._calls[subject.name] = call
                    self.blocks[subject.name] = block
                if turn.failed or not turn.compiles:  # one that compiled says nothing of the next
                    break
            if turn.failed:
                self._leave_out(subject.name)

    def min_rounds(self, limit: float) -> int:
        """How many rounds are taken however little time there is: a few, or what fits into `limit` seconds, or one."""
        return max(1, min(MIN_ROUNDS, int(limit / max(self._round_s(), 1e-9))))

    def rounds(self, seconds: float, minimum: int) -> list[Sample]:
        """Samples of whole rounds: as many as fit into `seconds`, but no fewer than `minimum`.

        The first quarter of the seconds, from the start of `warm` on, is warm-up and is not recorded.
        """
        self._rounds(self._started + SETTLING * seconds, 0)
        return self._rounds(perf_counter() + (1 - SETTLING) * seconds, minimum)

    def _round_s(self) -> float:
        """Seconds that a round takes, as far as it is known before."""
        return sum(block.seconds for block in self.blocks.values())

    def _rounds(self, until: float, minimum: int) -> list[Sample]:
        samples: list[Sample] = []
        done = 0
        while self._calls and (done < minimum or perf_counter() + self._round_s() <= until):
            names = list(self._calls)
            self._random.shuffle(names)
            for name in names:
                with self._turn(name) as turn, no_garbage_collection():
                    seconds = self._time(self._calls[name], self.blocks[name])
                    samples.append(Sample(name, done, self.blocks[name].calls, seconds))
                if turn.failed:
                    self._leave_out(name)
            done += 1
        return samples

    def _leave_out(self, name: str) -> None:
        self._calls.pop(name, None)
        self.blocks.pop(name, None)

    def _time(self, call: Callable[[], object], block: Block) -> float:
        """Seconds per call of a block."""
        for _ in range(block.unrecorded):
            call()
        if self._flush is not None:  # so that the cache holds none of its data; not timed
            self._flush()
        return self._elapsed(call, block.calls) / block.calls

    def _elapsed(self, call: Callable[[], object], number: int) -> float:
        synchronize = self._device.synchronize
        clock = perf_counter
        synchronize()
        start = clock()
        for _ in range(number):
            call()
        synchronize()
        return clock() - start

    def _block(self, call: Callable[[], object], known: float) -> Block:
        """Finds how long a call takes, by the faster of two probes: one that was preempted would say too much."""
        if known >= SLOW_S:
            return block(known)
        number = 1
        while True:
            elapsed = self._elapsed(call, number)
            if BLOCK_S / 2 <= elapsed < SLOW_S:
                elapsed = min(elapsed, self._elapsed(call, number))
            if elapsed >= BLOCK_S / 2 or number >= MAX_CALLS:
                break
            number *= 4
        timed = block(elapsed / number)
        return timed if self._flush is None else Block(1, min(timed.unrecorded, 1), timed.call_s)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turns off Python's garbage collector, whose full pass may take a tenth of a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _flusher(device: Device) -> Callable[[], object]:
    """A write over twice the last-level cache."""
    size = 2 * device.last_level_cache() // 4
    buffer = torch.zeros(size, dtype=torch.float32, device=device.torch_device())
    return lambda: buffer.add_(1.0)
