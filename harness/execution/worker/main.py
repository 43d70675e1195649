"""The worker: what a measuring process does with its share of a case: prepares, times, profiles and checks variants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter  # bound here: a variant may replace the module's

import torch

from harness.configuration.errors import UsageError
from harness.configuration.operation import resolve
from harness.devices import choose, passed_over
from harness.execution.processes import messages
from harness.execution.processes.environment import of_process
from harness.execution.processes.messages import Alone, Finish, Measure, Receive, Send, SetTurn, Status
from harness.execution.task import Task
from harness.execution.worker import sandbox
from harness.execution.worker.checking import Checking
from harness.execution.worker.fresh_contents import FreshContents
from harness.execution.worker.profiling import Profiling
from harness.execution.worker.time_slices import TimeSlices
from harness.execution.worker.trying import Trying
from harness.execution.worker.turns import CHECK, LATENCY, PREPARE, PROFILE, SpoiltError, Turns, left_changed
from harness.measure import nki_kernel, torch_private
from harness.measure.binding import Bound, bind
from harness.measure.checks.case_data import CaseData
from harness.measure.checks.validity import Given
from harness.measure.interference import own_memory
from harness.measure.kinds import IN_PLACE
from harness.measure.latency import Sampler
from harness.measure.profile import PROFILE_S
from harness.measure.state import AT_IMPORT
from harness.measure.subject import Subject
from harness.measure.tensors import own
from harness.measure.trees import tree_map
from harness.results.measurement import ACROSS, CONTROL, CONTROLS, DEGRADED, SKIPPED, WRONG


def run(task: Task, send: Send, set_turn: SetTurn, receive: Receive) -> None:
    """Measures a task's variants and sends the observations; an error of one variant does not affect the others.

    Once its variants are prepared it measures when it is told to, and does the rest when there is nothing more to time.
    Raises UsageError if the command or the operation is at fault.
    """
    sandboxed = sandbox.enter(task.settings.worker, Path(task.traces)) if task.settings.worker.sandbox else None
    worker = _Worker(task, send, set_turn, sandboxed)
    try:
        worker.prepare()
        while isinstance(message := receive(), Alone | Measure):
            worker.measure(message)
        if isinstance(message, Finish):
            worker.finish(message)
    except SpoiltError:
        send(messages.Spoilt())


class _Worker:
    def __init__(self, task: Task, send: Send, set_turn: SetTurn, sandboxed: Mapping[str, bool] | None):
        self.task = task
        self.sandboxed = sandboxed
        self.case = task.case
        self.send = send
        self.set_turn = set_turn
        self.operation = task.case.operation
        self.settings = task.settings
        self.subjects: dict[str, Subject] = {}
        self.call_seconds: dict[str, float] = dict(task.call_seconds)
        self.control: Subject | None = None  # the baseline under its second name
        self.seed = self.case.seed * 1000 + task.replicate  # of the order in which variants are timed and profiled
        self.random = Random(self.seed)

    def prepare(self) -> None:
        """Calls all variants for the first time, checks them, and gets them ready to be timed."""
        replaced = AT_IMPORT.restore()  # to unpickle a variant's function imports its module
        self._open_device()
        if any(self.operation.variant(name).compile is not None for name in self.task.variants):
            torch_private.load_backend(self.device.compile_arguments().get("backend"))
        self.turns = Turns(self.send, self.set_turn, self.case.baseline.name, self.device)
        self.data = CaseData(self.case)
        with self.turns.key("op.inputs"):
            self.data.inputs(self.case.seed)
        self._put_back("what op imports", replaced)
        self._watch_operation()
        self.checking = Checking(self.case, self.device, self.data, self.turns, self.send)
        if self.task.full_pass:
            self.checking.declared(self.task.variants)
        for name in self.task.variants:
            with self._step(name, PREPARE):
                self._prepare(name)
        if self.task.full_pass:
            self.checking.judge(self.subjects, contents=self.task.several)
            self._put_back("op.reference")
        turn = partial(self.turns.turn, step=LATENCY, grad=self.case.mode != "forward")
        latency = self.settings.latency
        self.sampler = Sampler(self._timed(), self.device, latency.cache, self.seed, turn, self.call_seconds)
        self.turns.state.guard(self.sampler)
        self.slices = TimeSlices(self.sampler, self.send)
        limit = self.task.share * latency.seconds / latency.processes
        rounds = self.slices.warm(limit, self.task.settling_s, self.turns.state.hold)
        self.turns.forget_compiles()
        self.send(messages.Ready(rounds, own_memory() if self.task.full_pass else 0))

    def measure(self, message: Alone | Measure) -> None:
        """Times all variants for a time slice, or one of them for a moment."""
        if isinstance(message, Alone):
            self.slices.alone(message)
        else:
            self.slices.measure(message)

    def finish(self, message: Finish) -> None:
        """Profiles the variants, and checks them once more, on contents of a seed that none of them knew before."""
        self.call_seconds |= self.slices.end()
        self._send_compiles()
        self._put_back("a variant, while it was timed,")
        if message.fresh:
            fresh = FreshContents(self.task, self.data, self.turns, self.checking, self.sampler, self.send)
            fresh.run(self._ranked(), message.explained)
        self.data.drop_overwritten()
        self._profile()
        if self.task.full_pass:
            slow = {name for name, seconds in self.call_seconds.items() if seconds >= PROFILE_S}
            for name in self._standing():
                with self._step(name, CHECK):
                    self.checking.again(self.subjects[name], message.hidden_seed)
                    if name not in slow:
                        self.checking.on_device(self.subjects[name])
            self.checking.compare_kept()
            self.send(messages.Warnings(self.device.limits()))
            self.checking.work([self.subjects[name] for name in self._standing() if name not in slow])
            self._try(slow, message.hidden_seed)
        self.turns.close()

    def _watch_operation(self) -> None:
        """Watches what all variants are measured by: it is imported before any module of theirs."""
        operation, baseline = self.operation, self.case.baseline
        functions = {"op.inputs": operation.inputs, "op.reference": operation.right, "op.work": operation.work}
        functions[baseline.key] = None if baseline.unmet(self.device.name) else baseline.fn
        for key, function in functions.items():
            with self.turns.key(key), contextlib.suppress(UsageError):  # which is told where it is called
                if function is not None:
                    self.turns.state.watch(resolve(function, key))

    def _ranked(self) -> list[Subject]:
        """What is timed: the baseline first, by which the others are judged."""
        baseline = self.case.baseline.name
        return [self.subjects[name] for name in sorted(self._standing(), key=lambda name: name != baseline)]

    def _standing(self) -> list[str]:
        """The variants that have been prepared and have not failed."""
        return [name for name in self.subjects if name not in self.turns.failed]

    def _open_device(self) -> None:
        if self.settings.worker.threads is not None:
            torch.set_num_threads(self.settings.worker.threads)
        if self.case.mode == "backward":  # a compiled graph that is run again must leave its tensors alone
            torch_private.keep_backward_buffers()
        self.device = choose(self.case.device, self.settings.devices)
        self.send(messages.Warnings(passed_over(self.case.device, self.device, self.settings.devices)))
        self.device.open()
        self.case = replace(self.case, device=self.device.name)
        self.send(messages.DeviceOpened(self.device.facts()))
        shut_in = {} if self.sandboxed is None else {"sandbox": self.sandboxed}
        self.send(messages.Environment({**of_process(self.device), **shut_in}))

    def _put_back(self, key: str, before: Sequence[str] = ()) -> None:
        """Restores global state after code of the operation's author; warns of its changes and those in `before`."""
        if changed := [*before, *self.turns.state.restore_all()]:
            self.send(messages.Warnings([f"{key} {left_changed(changed)}"]))

    @contextlib.contextmanager
    def _step(self, name: str, step: str) -> Iterator[None]:
        """A step of a variant, after which what all others are measured by must be as it was."""
        others = {other: subject for other, subject in self.subjects.items() if other != name}
        versions = {other: subject.versions() for other, subject in others.items()}
        unchanged = self._unchanged(others) if step == PREPARE else set()
        with self.turns.step(name, step):
            yield
        if self.data.drop_overwritten():
            self._discard(name, "overwrites the memory in which the inputs and the reference's outputs are kept")
        written = {other for other, subject in others.items() if subject.versions() != versions[other]}
        if unchanged:  # by who writes to an address, of which torch knows nothing
            written |= unchanged - self._unchanged(others)
        if written:
            self._discard(name, f"overwrites the inputs of other variants ({', '.join(sorted(written))})")
        for other in written:
            self.subjects[other].refresh(self.data.inputs(self.case.seed))

    def _unchanged(self, subjects: Mapping[str, Subject]) -> set[str]:
        inputs = self.data.inputs(self.case.seed)
        return {name for name, subject in subjects.items() if not subject.changed_inputs(inputs)}

    def _discard(self, name: str, reason: str) -> None:
        """A variant that spoils what others are measured by is measured no further."""
        row = self.case.baseline.name if name in CONTROLS else name
        self.subjects.pop(row, None)
        self.send(Status(row, WRONG, reason, IN_PLACE))

    def _prepare(self, name: str) -> None:
        """Calls a variant for the first time, which may compile it, and compares its outputs with the reference's."""
        variant = self.operation.variant(name)
        reason = variant.unmet(self.device.name)
        if reason:
            self.send(messages.LeftOut(name) if variant.optional else Status(name, SKIPPED, reason))
            return
        inputs = self.data.inputs(self.case.seed)
        bound = bind(variant, self.case, self.device, inputs)
        for note in bound.notes:
            self.send(messages.Note(name, note))
        subject = self._subject(name, bound)
        self.turns.watch.restart()
        start = perf_counter()
        with nki_kernel.first_call(variant, self.case.mode):
            outputs = subject()
            self.device.synchronize()
        seconds = perf_counter() - start
        given = Given(outputs)
        if variant.compile is not None:
            dynamic = variant.compile.get("dynamic", self.device.compile_arguments().get("dynamic"))
            cost = self.turns.watch.cost(seconds, dynamic is not False)  # None lets torch decide
            if cost.graphs is not None:
                cost = replace(cost, graphs=cost.graphs + subject.backward_graphs())
            self.send(messages.Compiled(name, cost))
            if cost.degraded:
                self.send(Status(name, DEGRADED, cost.degraded))
        self.turns.put_back(name)
        self.subjects[name] = subject
        self.turns.state.hold({name: subject.bound}, name)
        if self.task.full_pass:
            self.checking.first(subject, given)
            if variant.compile is None:  # one that compiles may do so again
                self.call_seconds[name] = subject.call_s

    def _subject(self, name: str, bound: Bound) -> Subject:
        """A subject with inputs of its own."""
        device = self.device.torch_device()
        inputs = tree_map(lambda value: own(value, with_gradient=True, device=device), self.data.inputs(self.case.seed))
        return Subject(name, bound.function, inputs, self.case.mode, self.case.seed, bound.state)

    def _timed(self) -> list[Subject]:
        """What is timed: all variants, and the baseline once more under a hidden name."""
        timed = [self.subjects[name] for name in self._standing()]
        baseline = self.subjects.get(self.case.baseline.name)
        if baseline not in timed:
            return timed
        name = ACROSS if self.task.control else CONTROL
        self.control = self._subject(name, Bound(baseline.function, baseline.state))
        self.call_seconds[name] = self.call_seconds.get(baseline.name, 0.0)
        return [self.control] if self.task.control else [*timed, self.control]

    def _try(self, slow: Set[str], hidden_seed: int) -> None:
        """Calls the variants that are right so far on further inputs, but for slow ones, and checks what they give."""
        trying = Trying(self.case, self.device, self.data.inputs(self.case.seed), hidden_seed, self.turns, self.send)
        tried = [name for name in self._standing() if self.checking.comparable(name) and name not in slow]
        trying.run([self.subjects[name] for name in tried], self._step, self.checking.given)

    def _send_compiles(self) -> None:
        """Sends who compiled while it was timed."""
        for name in self._standing():
            count = self.turns.compiles[name]
            limit = self.turns.limits.get(name)
            if self.operation.variant(name).compile is not None or count:
                self.send(messages.Recompiled(name, count))
            if limit:
                self.send(Status(name, DEGRADED, limit))
            elif self.turns.watch.blind and self.operation.variant(name).compile is not None:
                with self.turns.turn(name, LATENCY, grad=self.case.mode != "forward"):
                    if reason := self.turns.watch.confirm(self.subjects[name].timed()):
                        self.send(Status(name, DEGRADED, reason))
            elif count:
                why = "; ".join(self.turns.watch.recompile_reasons()) or "Dynamo gave no reason"
                self.send(Status(name, DEGRADED, f"compiled {count} times while it was timed: {why}"))

    def _profile(self) -> None:
        """Profiles the variants in random order; on a device with a clock of its own the control too.

        The first process profiles all of them whole, later ones sample the device time of those that have any.
        """
        timed = set() if self.task.control else set(self._standing())
        if self.control and self.device.accelerator:
            timed.add(self.control.name)
        names = sorted(timed if self.task.full_pass else timed.intersection(self.task.device_timed))
        self.random.shuffle(names)
        grad = self.case.mode != "forward"
        profiling = Profiling(self.device, self.settings.profile, grad, self.turns.watch, self.send)
        for name in names:
            seconds = self.call_seconds.get(name, 0.0)
            with self._step(name, PROFILE):
                if name in CONTROLS and self.control is not None:
                    profiling.device_time(name, self.control.timed(), seconds)
                elif self.task.full_pass:
                    profiling.whole(name, self.subjects[name].timed(), seconds, Path(self.task.traces))
                else:
                    profiling.device_time(name, self.subjects[name].timed(), seconds)
