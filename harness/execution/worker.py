"""The worker: what a measuring process does with its share of a case, step by step."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import torch

from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import Variant, declared_work, describe, make_inputs, resolve
from harness.devices import choose, passed_over
from harness.devices.base import Device
from harness.execution.environment import of_process
from harness.execution.process import Task
from harness.measure import operation_checks as declaration
from harness.measure import timeline, trace
from harness.measure.compiling import Watch
from harness.measure.correctness import Expected, expect
from harness.measure.interference import Interference
from harness.measure.latency import Sampler
from harness.measure.profile import probe, record
from harness.measure.state import GlobalState
from harness.measure.subject import Subject, bind, own
from harness.measure.validity import examine, reexamine
from harness.results import columns
from harness.results.measurement import CONTROL, DEGRADED, FAILED, SKIPPED, WRONG

Send = Callable[[str, str, Any], None]


def run(task: Task, send: Send, set_turn: Callable[[str], None]) -> None:
    """Measures a task's variants; what goes wrong with one is told and costs only that one."""
    _Session(task, send, set_turn).run()


class _Session:
    def __init__(self, task: Task, send: Send, set_turn: Callable[[str], None]):
        self.task, self.case, self.send, self.set_turn = task, task.case, send, set_turn
        self.subjects: dict[str, Subject] = {}
        self.expected: Expected | None = None
        self.random: set[str] = set()
        self.wrong: set[str] = set()
        self.changes: dict[str, set[str]] = {}
        self.compiled: Counter[str] = Counter()  # compiles in each variant's turns
        self.limits: dict[str, str] = {}  # who reached Dynamo's recompile limit
        self.work: Mapping[str, float] | None = None

    def run(self) -> None:
        if self.task.settings.worker.threads is not None:
            torch.set_num_threads(self.task.settings.worker.threads)
        if self.case.mode == "backward":  # a compiled graph that is run again must leave its tensors alone
            functorch: Any = importlib.import_module("torch._functorch.config")
            functorch.donated_buffer = False
        self.device = choose(self.case.device)
        self.send("troubles", "", passed_over(self.case.device, self.device))
        self.device.open()
        self.case = replace(self.case, device=self.device.name)
        self.dtype = getattr(torch, self.case.dtype)
        self._place = self.device.torch_device()
        self.inputs = self._inputs(self.case.seed)
        self.send("device", "", {**self.device.describe(), "device": self.device.name})
        self.send("environment", "", of_process())
        if self.task.full_pass:
            self._refer()
        self.watch, self.state = Watch(), GlobalState()
        for name in self.task.variants:
            self._guarded(name, "prepare", self._prepare)
        self._time()
        if self.task.full_pass:
            for name in list(self.subjects):
                self._guarded(name, "profile", self._profile)
                self._guarded(name, "check", self._check_again)
            self.send("troubles", "", self.device.limits())
            self._doubt_work()
        for name, changes in self.changes.items():
            self.send("note", name, _left_changed(sorted(changes)))
        self.watch.close()

    def _inputs(self, seed: int) -> tuple[Any, ...]:
        return make_inputs(self.case.operation, self.dtype, torch.Generator().manual_seed(seed))

    def _refer(self) -> None:
        """Evaluates the reference; what is wrong with the declaration is its author's, so a UsageError."""
        operation = self.case.operation
        declaration.check_inputs(operation, self.inputs, self.dtype)
        for variant in operation.variants:
            if variant.name in self.task.variants and not unmet(variant, self.device):
                declaration.check_signature(variant, self.inputs)
        self.work = declared_work(operation, self.dtype, self.case.mode)
        self.send("work", "", self.work)
        if operation.reference is not None:
            self.expected = self._expect(self.inputs)

    def _expect(self, inputs: tuple[Any, ...]) -> Expected:
        operation = self.case.operation
        reference = resolve(operation.reference, "op.reference")  # type: ignore[arg-type]
        try:
            return expect(reference, inputs, self.case.mode, self.dtype, self.case.seed, operation.tolerance)
        except Exception as error:
            raise UsageError(
                f"op.reference={describe(reference)}: raised {type(error).__name__}: {one_line(error)}"
            ) from error

    def _guarded(self, name: str, step: str, work: Callable[[str], None]) -> bool:
        """Runs one step of one variant; whatever it raises is its own failure."""
        self.set_turn(name)
        self.send("step", name, step)
        try:
            with torch.enable_grad():
                work(name)
        except UsageError:
            raise
        except BaseException as error:  # Ctrl-C does not reach this process: even a KeyboardInterrupt is the variant's
            self._fail(name, step, error)
            return False
        finally:
            self._restore(name, everything=True)
        self.set_turn("")
        return True

    def _restore(self, name: str, everything: bool = False) -> None:
        changed = self.state.restore_all() if everything else self.state.restore()
        if changed:
            self.changes.setdefault(self.case.baseline.name if name == CONTROL else name, set()).update(changed)

    def _fail(self, name: str, step: str, error: BaseException) -> None:
        self.subjects.pop(name, None)
        with contextlib.suppress(Exception):  # a variant may have closed stderr, or raise where it is printed
            traceback.print_exception(error, file=sys.stderr)
        self.send("status", name, (FAILED, failure(step, error)))

    def _prepare(self, name: str) -> None:
        variant = self.case.operation.variant(name)
        reason = unmet(variant, self.device)
        if reason:
            self.send("status", name, (SKIPPED, reason))
            return
        subject = self._subject(name, bind(variant, self.device))
        self.watch.restart()
        start = time.perf_counter()
        outputs = subject()
        self.device.synchronize()
        seconds = time.perf_counter() - start
        if variant.compile is not None:
            dynamic = variant.compile.get("dynamic", self.device.compile_arguments().get("dynamic"))
            cost = self.watch.cost(seconds, bool(dynamic))
            cost = replace(cost, graphs=cost.graphs + subject.backward_graphs())
            self.send("compile", name, asdict(cost))
            if cost.degraded:
                self.send("status", name, (DEGRADED, cost.degraded))
        self.subjects[name] = subject
        if self.expected is not None:
            finding = examine(subject, outputs, self.inputs, self.expected, self.device)
            if finding.reason and finding.error is None and variant is self.case.baseline:
                raise declaration.disagreement(self.case.operation, resolve(variant.fn, "op.baseline"), finding.reason)
            self.send("finding", name, asdict(finding))
            if finding.random:
                self.random.add(name)
            if finding.reason:
                self.wrong.add(name)
                self.send("status", name, (WRONG, finding.reason))
                subject.refresh(self.inputs)

    def _subject(self, name: str, function: Callable[..., Any]) -> Subject:
        mine = [own(value, with_gradient=True, device=self._place) for value in self.inputs]
        return Subject(name, function, mine, self.case.mode, self.case.seed)

    def _time(self) -> None:
        """Times all variants, and the baseline once more under a hidden name."""
        baseline = self.subjects.get(self.case.baseline.name)
        twin = [self._subject(CONTROL, baseline.function)] if baseline is not None else []
        timed = [*self.subjects.values(), *twin]
        if not timed:
            return
        latency = self.task.settings.latency
        seed = self.case.seed * 1000 + self.task.replicate
        failed, after = self._failed_timing, self._after_turn
        sampler = Sampler(timed, self.device, self.case.mode, latency.cache, seed, failed, self.set_turn, after)
        sampler.warm()
        self.watch.restart()
        self.compiled.clear()
        troubles = Interference()
        samples = sampler.rounds(self.task.seconds)
        self.send("troubles", "", troubles.seen())
        self.send("samples", "", [(s.variant, s.round, s.calls, s.seconds) for s in samples])
        self._compiled_while_timed()

    def _failed_timing(self, name: str, error: BaseException) -> None:
        self._fail(self.case.baseline.name if name == CONTROL else name, "latency", error)

    def _after_turn(self, name: str) -> None:
        self._restore(name)
        compiles, limit = self.watch.news()
        self.compiled[name] += compiles
        if limit:
            self.limits[name] = limit

    def _compiled_while_timed(self) -> None:
        for name in self.subjects:
            count, limit = self.compiled[name], self.limits.get(name)
            if self.case.operation.variant(name).compile is not None or count:
                self.send("recompiles", name, count)
            if limit:
                self.send("status", name, (DEGRADED, limit))
            elif count:
                why = "; ".join(self.watch.recompile_reasons()) or "Dynamo gave no reason"
                self.send("status", name, (DEGRADED, f"compiled {count} times while it was timed: {why}"))

    def _profile(self, name: str) -> None:
        subject, settings = self.subjects[name], self.task.settings
        folder = self.task.traces / trace.folder_name(name)
        folder.mkdir(parents=True, exist_ok=True)
        call, grad = subject.timed(), self.case.mode != "forward"
        self.device.clear_fallbacks()  # from here to the end of the profile only this variant's own calls run
        with torch.set_grad_enabled(grad):
            seen = probe(call, self.device)
            peak = seen.peak_bytes if not self.device.accelerator else self._peak(call)
        self.send("peak", name, peak)
        profile = record(call, self.device, settings.profile, settings.neuron, folder, seen.events, grad)
        fallbacks = self.device.fallbacks()
        self.send("profile", name, asdict(profile))
        life = timeline.analyse(trace.from_file(folder / "trace.json"))
        self.send("timeline", name, life and asdict(life))
        with torch.set_grad_enabled(grad):
            values, notes = columns.probe(call, self.device)
        self.send("probed", name, values)
        for note in notes:
            self.send("note", name, note)
        if fallbacks:
            self.send("status", name, (DEGRADED, f"fell back to the CPU: {', '.join(fallbacks)}"))

    def _peak(self, call: Callable[[], Any]) -> int | None:
        """The most memory that a call holds beyond what was allocated before it."""
        self.device.synchronize()
        self.device.reset_peak_memory()
        before = self.device.allocated_memory()
        outputs = call()
        self.device.synchronize()
        peak = self.device.peak_memory()
        del outputs
        return None if peak is None else max(peak - before, 0)

    def _check_again(self, name: str) -> None:
        """On other contents in the same tensors."""
        if self.expected is None or name in self.random | self.wrong:
            return
        inputs = self._inputs(self.case.seed + 1)
        if not hasattr(self, "_renewed"):
            self._renewed = self._expect(inputs)
        reason = reexamine(self.subjects[name], inputs, self._renewed, self.device)
        if reason:
            self.send("again", name, reason)

    def _doubt_work(self) -> None:
        """Holds the declared work against what torch counts of the eager variants, and against the tensors."""
        operation, work = self.case.operation, self.work
        if work is None:
            return
        counted = []
        for name, subject in self.subjects.items():
            if operation.variant(name).compile is None:
                self.set_turn(name)
                counted.append(declaration.count_flops(subject))
                self.set_turn("")
        found = [declaration.doubt_flops(operation, work, [count for count in counted if count is not None])]
        if self.expected is not None:
            found.append(declaration.doubt_bytes(operation, work, self.inputs, self.expected, self.case.mode))
        self.send("troubles", "", [doubt for doubt in found if doubt])


def _left_changed(what: list[str]) -> str:
    return (
        f"changes {', '.join(what)} and leaves them changed: other variants would be measured under them; "
        "they were put back after each of its turns; let the variant put them back itself"
    )


def unmet(variant: Variant, device: Device) -> str | None:
    """Why a variant cannot run here, or None."""
    if variant.devices and device.name not in variant.devices:
        return f"only for {', '.join(variant.devices)}, not {device.name}"
    for module in variant.requires:
        try:
            importlib.import_module(module)
        except Exception as error:  # a package that is broken is not there either
            return f"requires {module}: {one_line(error)}"
    return None


STEPS = {
    "prepare": "in its first calls",
    "latency": "while it was timed",
    "profile": "while it was profiled",
    "check": "when called again",
}


def failure(step: str, error: BaseException) -> str:
    """What a row says of an exception: its kind, its first line, and the step it came in."""
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code!r}) ({STEPS[step]})"
    kind = type(error).__name__
    return f"{kind}: {_telling(error)} ({STEPS[step]})"


def _telling(error: BaseException) -> str:
    """The line of a message that says what happened; a compiler's failure buries it."""
    with contextlib.suppress(Exception):
        for line in map(str.strip, str(error).splitlines()):
            if "No working C++ compiler" in line or "Invalid C++ compiler" in line or "Explanation:" in line:
                return one_line(line.removeprefix("Explanation: "))
    return one_line(error)
