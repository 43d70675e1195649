"""Fresh contents: the variants of a measuring process tried on inputs that they have not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, starmap
from os import urandom  # bound here, as the clock is
from time import perf_counter  # bound here: a variant may replace the module's
from typing import Any

import torch

from harness.execution.processes.messages import Explained, Send, Status, Warnings
from harness.execution.task import Task
from harness.execution.worker.checking import Checking
from harness.execution.worker.turns import LATENCY, Turns
from harness.measure.checks import fresh
from harness.measure.checks.case_data import CaseData
from harness.measure.checks.fresh import Slowdown
from harness.measure.checks.validity import ALIASED, Given
from harness.measure.garbage import no_garbage_collection
from harness.measure.interference import Interference
from harness.measure.kinds import ALIASING, CACHE
from harness.measure.latency import SLOW_S, Block, Sampler
from harness.measure.outputs import OUTPUT, Label
from harness.measure.subject import Subject
from harness.measure.tensors import memories, seal, unseal
from harness.measure.trees import dotted, flatten, walk
from harness.results.measurement import DEGRADED, WRONG

EXPLAINING = 3  # tries of the baseline
LIMIT_S = 0.1  # of a variant's tries
STARVED_S = 1.0  # of them, if some are left out because they waited for a core
MOST = 4 * fresh.TRIES  # of these and the others: contents stay in memory
LIMIT_CALLS = 40  # and so many of its calls, that slow ones have a few tries as well


UNKNOWN = (
    "whether {} takes longer on contents that it has not seen is not known: whenever it was tried on such, it waited "
    "for a core that other programs used; end them, or try latency.wait=60"
)


class StarvedError(Exception):
    """Too many tries had to wait for a core that other programs used."""


class FreshContents:
    """Times the variants of one process on contents that are drawn anew, and sends what is found.

    In the process that checks outputs as well, those of a timed call are kept, to be compared with the reference: which
    call that is nobody can know, as it is drawn when all have been timed. Where variants are trusted, the reference is
    evaluated once for all of them, for contents that are among those of each; in a sandbox no two have any in common,
    lest one tell the other what is right.
    """

    def __init__(
        self, task: Task, data: CaseData, turns: Turns, checking: Checking, sampler: Sampler, send: Send
    ) -> None:
        self._task = task
        self._data = data
        self._turns = turns
        self._checking = checking
        self._sampler = sampler
        self._send = send
        self._common: int | None = None  # the seed of contents that variants have in common, once it is known

    def run(self, subjects: Sequence[Subject], explained_s: tuple[float, float, float] | None = None) -> None:
        """Tries each of the subjects that is timed; the baseline, which comes first, explains what caches do.

        If it is not here, `explained_s` says what it was in a process of its own environment.
        """
        size = _size(self._data, self._task.case.seed)
        if not self._task.full_pass and size > fresh.BYTES:  # to draw so much takes longer than to time it
            return
        explained = Slowdown(*explained_s or (0.0, 0.0, 0.0))
        starved = False  # the baseline was
        for subject in subjects:
            block = self._sampler.warm_block(subject.name)
            if block is None or block.call_s >= SLOW_S:
                continue
            first = subject.name == self._task.case.baseline.name
            tries = self._tries(subject, block, fresh.calls(size), first)
            try:
                if first:  # its caches explain the others'
                    explained = _explained(islice(tries, EXPLAINING))
                    self._send(Explained((explained.first_s, explained.usual_s, explained.again_s)))
                    continue
                if starved:
                    next(tries, None)  # whose outputs are compared
                    raise StarvedError
                persistent = fresh.persistent(islice(tries, fresh.TRIES), explained)
            except StarvedError:
                if first:
                    starved = True
                else:
                    self._send(Warnings([UNKNOWN.format(subject.name)]))
                continue
            if persistent is not None:
                self._send(Status(subject.name, DEGRADED, fresh.reason(persistent), CACHE))

    def _tries(self, subject: Subject, block: Block, calls: int, explains: bool) -> Iterator[Slowdown]:
        """A few tries, each on contents of its own, which are drawn before its code runs, and ended if it fails.

        They are in place only when its calls before them have ended: whoever found them could compute ahead.
        Those that had to wait for a core are left out: to draw contents takes long enough that who comes next waits. If
        that leaves too few, they count after all where other programs left the cores alone: its own threads wait for
        each other then, as they do in a block. Else raises StarvedError.
        """
        call = subject.timed()
        since, call_s = perf_counter(), block.call_s
        left_out: list[Slowdown] = []
        interference = Interference()
        with interference.watched():
            for number in range(MOST):
                if perf_counter() - since > (STARVED_S if left_out else LIMIT_S) + LIMIT_CALLS * call_s:
                    break
                compared = number == 0 and self._task.full_pass and self._task.case.mode == "forward"
                kept: list[Any] | None = [] if compared else None
                seeds = seal(torch.tensor(self._seeds(calls, compared)))
                others = [subject.on(self._data.inputs(seed), seed) for seed in unseal(seeds).tolist()]
                self._data.forget_inputs(unseal(seeds).tolist())
                unseen = [other.timed() for other in others]
                hidden = [other.hide() for other in others]
                buffers: dict[str, Any] = {}

                def show() -> None:
                    for each in hidden:
                        each()
                    if compared:
                        buffers.update(_buffers(subject))

                grad = self._task.case.mode != "forward"
                with self._turns.turn(subject.name, LATENCY, grad) as turn, no_garbage_collection():
                    waiting = self._sampler.delay.seconds
                    start, waited = perf_counter(), waiting()
                    seen = fresh.slowdown(call, block, unseen, self._sampler.synchronize, show, kept, explains)
                    waited, elapsed = waiting() - waited, perf_counter() - start
                if turn.failed:
                    return
                if kept and not explains:
                    self._keep(subject.name, unseal(seeds).tolist(), kept, buffers)
                    if any(starmap(subject.returns_again, combinations(map(flatten, kept), 2))):
                        self._send(Status(subject.name, WRONG, ALIASED, ALIASING))
                call_s = max(call_s, seen.first_s)
                if waited <= fresh.WAITED * elapsed:
                    yield seen
                else:
                    left_out.append(seen)
        if left_out and interference.busy():
            raise StarvedError
        yield from left_out

    def _seeds(self, calls: int, compared: bool) -> list[int]:
        """Seeds that nobody knows; somewhere among them, where outputs are compared, that of common contents."""
        seeds = [int.from_bytes(urandom(7), "big") for _ in range(calls)]
        if compared and self._common is not None:
            seeds[_below(calls)] = self._common
        return seeds

    def _keep(self, name: str, seeds: Sequence[int], kept: Sequence[Any], buffers: dict[str, Any]) -> None:
        """Keeps the outputs of one of the calls; of a module with buffers the first, since each call may move them."""
        at = 0 if buffers else _below(len(seeds)) if self._common is None else seeds.index(self._common)
        if not self._task.settings.worker.sandbox:
            self._common = seeds[at]
        labels = [Label(OUTPUT, dotted(path)) for path, _ in walk(kept[at])]
        self._checking.keep(name, seeds[at], Given(flatten(kept[at])), labels, buffers)


def _explained(tries: Iterator[Slowdown]) -> Slowdown:
    """What caches cost the baseline; raises StarvedError if no try tells."""
    seen: list[Slowdown] = []
    try:
        for each in tries:
            seen.append(each)
    except StarvedError:
        if not seen:
            raise
    return fresh.typical(seen) if seen else Slowdown(0.0, 0.0, 0.0)  # of one that failed


def _below(number: int) -> int:
    return urandom(1)[0] % number


def _buffers(subject: Subject) -> dict[str, Any]:
    """The buffers of a module, sealed, which the calls so far may have changed."""
    buffers = () if subject.state is None else subject.state.buffers()
    return {name: seal(value) for name, value in buffers if value is not None}


def _size(data: CaseData, seed: int) -> int:
    """The bytes of a case's inputs."""
    tensors = [value for value in flatten(data.inputs(seed)) if hasattr(value, "untyped_storage")]
    return sum(memory.nbytes for tensor in tensors for memory in memories(tensor))
