"""Latency: wall time per call without a profiler, in rounds that visit all variants in random order.

On a shared machine order is bias: load drifts while variants wait for their turn. So every round times a block of
each variant, and ratios are taken within rounds. Two unrecorded calls before each block pay for the switch between
variants.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from harness.devices.base import Device
from harness.measure.subject import Subject

UNRECORDED = 2
SETTLING = 0.25  # a compiled call gets a tenth faster over its first thousand calls
LEAST_CALLS = 5
BLOCK_S = 1e-3  # a block this long drowns the clock's resolution and the call to it
MOST_CALLS = 10_000
LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Sample:
    """The mean wall time per call over one block of calls."""

    variant: str
    round: int
    calls: int
    seconds: float


class Sampler:
    """Times subjects in rounds until a time is up.

    A subject that raises is reported to `failed` and left out from then on. `set_turn` is told whose turn it is;
    `restore` puts back the global state that its turn has changed.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        device: Device,
        mode: str,
        cache: str,
        seed: int,
        failed: Callable[[str, BaseException], None],
        set_turn: Callable[[str], None],
        restore: Callable[[str], None],
    ):
        self._subjects = list(subjects)
        self._device, self._grad, self._random = device, mode != "forward", random.Random(seed)
        self._flush = _flusher(device) if cache == "cold" else None
        self._failed, self._set_turn, self._restore = failed, set_turn, restore
        self._begun = time.perf_counter()
        self._calls: dict[str, Callable[[], object]] = {}
        self._number: dict[str, int] = {}

    def warm(self) -> None:
        """Calls each subject until its block size is known; what compiles late does so here."""
        self._begun = time.perf_counter()
        for subject in self._subjects:
            self._guarded(subject.name, partial(self._enter, subject))

    def rounds(self, seconds: float) -> list[Sample]:
        """Samples of whole rounds: at least a few, then as many as fit into `seconds`.

        A quarter of them, from the start of `warm` on, settles what only calls can, and is not recorded.
        """
        self._rounds(self._begun + SETTLING * seconds, 0)
        return self._rounds(time.perf_counter() + (1 - SETTLING) * seconds, LEAST_ROUNDS)

    def _rounds(self, until: float, least: int) -> list[Sample]:
        samples: list[Sample] = []
        done = 0
        while self._calls and (done < least or time.perf_counter() < until):
            names = list(self._calls)
            self._random.shuffle(names)
            for name in names:
                taken = self._guarded(name, partial(self._block, name, self._calls[name]))
                if taken is not None:
                    samples.append(Sample(name, done, self._number[name], taken))
            done += 1
        return samples

    def _enter(self, subject: Subject) -> None:
        call = subject.timed()
        self._number[subject.name] = self._block_size(call)
        self._calls[subject.name] = call

    def _guarded(self, name: str, work: Callable[[], float | None]) -> float | None:
        self._set_turn(name)
        try:
            with torch.set_grad_enabled(self._grad):
                return work()
        except BaseException as error:  # whatever it raises is its own
            self._calls.pop(name, None)
            self._failed(name, error)
            return None
        finally:
            self._restore(name)
            self._set_turn("")

    def _block(self, name: str, call: Callable[[], object]) -> float:
        number = self._number[name]
        synchronize, clock = self._device.synchronize, time.perf_counter
        if self._flush is not None:
            return self._cold(call)
        for _ in range(UNRECORDED):
            call()
        synchronize()
        start = clock()
        for _ in range(number):
            call()
        synchronize()
        return (clock() - start) / number

    def _cold(self, call: Callable[[], object]) -> float:
        """One call with a cache that holds none of its data; the flush is not timed."""
        call()
        self._flush()  # type: ignore[misc]
        self._device.synchronize()
        start = time.perf_counter()
        call()
        self._device.synchronize()
        return time.perf_counter() - start

    def _block_size(self, call: Callable[[], object]) -> int:
        """Calls in a block, so that it is long enough for the clock."""
        if self._flush is not None:
            return 1
        number = 1
        while True:
            self._device.synchronize()
            start = time.perf_counter()
            for _ in range(number):
                call()
            self._device.synchronize()
            elapsed = time.perf_counter() - start
            if elapsed >= BLOCK_S / 2 or number >= MOST_CALLS:
                return min(max(LEAST_CALLS, round(number * BLOCK_S / max(elapsed, 1e-9))), MOST_CALLS)
            number *= 4


def _flusher(device: Device) -> Callable[[], object]:
    """A write over twice the last-level cache."""
    size = 2 * device.last_level_cache() // 4
    buffer = torch.zeros(size, dtype=torch.float32, device=device.torch_device())
    return lambda: buffer.add_(1.0)
