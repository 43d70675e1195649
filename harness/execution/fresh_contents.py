"""Fresh contents: the variants of a measuring process tried on inputs that they have not seen."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from time import perf_counter  # bound here: a variant may replace the module's
from typing import Any

from harness.execution.checking import Checking
from harness.execution.messages import Explained, Send, Status, Warnings
from harness.execution.task import Task
from harness.execution.turns import LATENCY, Turns
from harness.measure import fresh
from harness.measure.case_data import CaseData
from harness.measure.fresh import Slowdown
from harness.measure.kinds import CACHE
from harness.measure.latency import SLOW_S, Block, Sampler, no_garbage_collection
from harness.measure.outputs import OUTPUT, Label
from harness.measure.subject import Subject
from harness.measure.tensors import memories, seal
from harness.measure.trees import dotted, flatten, walk
from harness.measure.validity import Given
from harness.results.measurement import DEGRADED

EXPLAINING = 3  # tries of the baseline
LIMIT_S = 0.1  # of a variant's tries
STARVED_S = 1.0  # of them, if some are left out because they waited for a core
MOST = 4 * fresh.TRIES  # of these and the others: contents stay in memory
LIMIT_CALLS = 40  # and so many of its calls, that slow ones have a few tries as well


STARVED = (
    "whether variants take longer on contents that they have not seen is not known: the process waited for a core "
    "whenever the baseline was tried; end other programs, or try latency.wait=60"
)


class FreshContents:
    """Times the variants of one process on contents that are drawn anew, and sends what is found.

    In the process that checks outputs as well, one of a timed call is kept, to be compared with the reference.
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
        self._seeds: list[list[int]] = []  # of each try

    def run(
        self, subjects: Sequence[Subject], hidden_seed: int, explained_s: tuple[float, float, float] | None = None
    ) -> None:
        """Tries each of the subjects that is timed; the baseline, which comes first, explains what caches do.

        If it is not here, `explained_s` says what it was in a process of its own environment.
        The first contents are those of the hidden seed; all others are drawn when they are needed.
        """
        size = _size(self._data, self._task.case.seed)
        if not self._task.full_pass and size > fresh.BYTES:  # to draw so much takes longer than to time it
            return
        explained, known = Slowdown(*explained_s or (0.0, 0.0, 0.0)), True
        self._seeds.append([hidden_seed, *(secrets.randbits(62) for _ in range(fresh.calls(size) - 1))])
        for subject in subjects:
            block = self._sampler.warm_block(subject.name)
            if block is None or block.call_s >= SLOW_S:
                continue
            first = subject.name == self._task.case.baseline.name
            tries = self._tries(subject, block, fresh.calls(size))
            if first:  # its caches explain the others'
                seen = list(islice(tries, EXPLAINING))
                known = bool(seen)
                if known:
                    explained = fresh.typical(seen)
                    self._send(Explained((explained.first_s, explained.usual_s, explained.again_s)))
                else:
                    self._send(Warnings([STARVED]))
                continue
            if not known:
                next(tries, None)  # whose outputs are compared
                continue
            persistent = fresh.persistent(islice(tries, fresh.TRIES), explained)
            if persistent is not None:
                self._send(Status(subject.name, DEGRADED, fresh.reason(persistent), CACHE))
        self._data.forget_inputs(set(chain.from_iterable(self._seeds)) - {hidden_seed})

    def _tries(self, subject: Subject, block: Block, calls: int) -> Iterator[Slowdown]:
        """A few tries, each on contents of its own, which are drawn before its code runs, and ended if it fails.

        Those that had to wait for a core are left out: to draw contents takes long enough that who comes next waits.
        """
        call = subject.timed()
        since, call_s, limit_s = perf_counter(), block.call_s, LIMIT_S
        for number in range(MOST):
            if perf_counter() - since > limit_s + LIMIT_CALLS * call_s:
                return
            if number == len(self._seeds):
                self._seeds.append([secrets.randbits(62) for _ in range(calls)])
            others = [subject.on(self._data.inputs(seed), seed) for seed in self._seeds[number]]
            unseen = [other.timed() for other in others]
            compared = number == 0 and self._task.full_pass and self._task.case.mode == "forward"
            buffers: dict[str, Any] = {}
            look: Callable[[], None] = partial(_look, subject, buffers) if compared else _nothing
            take: Callable[[Any], None] = partial(self._keep, subject.name, buffers) if compared else _nothing
            grad = self._task.case.mode != "forward"
            with self._turns.turn(subject.name, LATENCY, grad) as turn, no_garbage_collection():
                waiting = self._sampler.delay.seconds
                start, waited = perf_counter(), waiting()
                seen = fresh.slowdown(call, block, unseen, self._sampler.synchronize, look, take)
                waited, elapsed = waiting() - waited, perf_counter() - start
            if turn.failed:
                return
            call_s = max(call_s, seen.first_s)
            if waited <= fresh.WAITED * elapsed:
                yield seen
            else:
                limit_s = STARVED_S

    def _keep(self, name: str, buffers: dict[str, Any], outputs: Any) -> None:
        """Keeps the outputs of the first call, whose contents are those of the hidden seed."""
        labels = [Label(OUTPUT, dotted(path)) for path, _ in walk(outputs)]
        self._checking.keep(name, Given(flatten(outputs)), labels, buffers)


def _look(subject: Subject, buffers: dict[str, Any]) -> None:
    """Notes the buffers of a module, which the calls so far may have changed."""
    if subject.state is not None:
        buffers.update((name, seal(value)) for name, value in subject.state.buffers() if value is not None)


def _nothing(*_: Any) -> None:
    """Where nothing is kept."""


def _size(data: CaseData, seed: int) -> int:
    """The bytes of a case's inputs."""
    tensors = [value for value in flatten(data.inputs(seed)) if hasattr(value, "untyped_storage")]
    return sum(memory.nbytes for tensor in tensors for memory in memories(tensor))
