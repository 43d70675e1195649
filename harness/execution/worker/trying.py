"""Trying: the variants of a measuring process called on further inputs, and what they give compared when all have been.

The reference's values are made after the last call, so that none is in the process while a variant runs there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import Case, Inputs
from harness.devices.base import Device
from harness.execution.processes.messages import Note, Send, Status
from harness.execution.worker.turns import CHECK, ProbeError, SpoiltError, Turns, informative_line
from harness.measure import nki_kernel, torch_private
from harness.measure.binding import Bound, bind
from harness.measure.checks.correctness import Verdict, compare
from harness.measure.checks.reference import Expected
from harness.measure.checks.trials import Trial, trials
from harness.measure.checks.validity import Given, repeats
from harness.measure.kinds import CACHE
from harness.measure.nki_kernel import UnsupportedError
from harness.measure.outputs import Label, Outputs
from harness.measure.subject import Subject
from harness.measure.tensors import own, unseal
from harness.measure.trees import tree_map
from harness.results.measurement import WRONG

MODEST, ALIKE = 3.0, 2.0  # an error of the baseline's may be rounding up to so much; then one twice as large as well
Step = Callable[[str, str], AbstractContextManager[None]]  # of a variant, by name: a context of its own
REFUSALS = (UnsupportedError, NotImplementedError)  # by which a variant says that it does not take its inputs


@dataclass(frozen=True)
class _Given:
    """What a variant gave in a trial."""

    variant: str
    outputs: Outputs  # sealed
    labels: Sequence[Label]

    def compared(self, expected: Expected) -> Verdict:
        """Whether it is what the reference gives."""
        return compare(tuple(map(unseal, self.outputs)), expected, self.labels)


class Trying:
    """The trials of one measuring process, which sends what they find."""

    def __init__(self, case: Case, device: Device, inputs: Inputs, seed: int, turns: Turns, send: Send):
        """`inputs` are the case's own, `seed` that of contents which no variant can know before."""
        self._case = case
        self._device = device
        self._turns = turns
        self._send = send
        self._seed = seed
        with turns.key("op.inputs"):
            self._trials = list(trials(case, inputs, reshaped=not device.builds_shapes))
            for trial in self._trials:
                trial.inputs(self._seed)
        self._given: dict[Trial, list[_Given]] = {trial: [] for trial in self._trials}
        self._notes: dict[Trial, list[Note]] = {trial: [] for trial in self._trials}
        self._plain: dict[str, Bound | None] = {}  # what is called at other sizes, by variant

    def run(self, subjects: Sequence[Subject], step: Step, earlier: Mapping[str, Sequence[Outputs]]) -> None:
        """Calls variants, each in a step of its own, and sends who fails, who is wrong, and where most.

        `earlier` are outputs that each gave for other contents, sealed: who gives one of them again remembers. Raises
        SpoiltError where a variant has failed and others can no longer be tried in this process.
        """
        for declared, subject in itertools.product((True, False), subjects):
            if subject.name in self._turns.failed:
                continue
            try:
                with step(subject.name, CHECK):
                    self._call(subject, declared)
            except SpoiltError:
                if declared:  # it has failed: the others can be tried in a process without it
                    raise
                break
        self._compare(earlier)

    def _call(self, subject: Subject, declared: bool) -> None:
        """Calls a variant on the inputs of each trial that is `declared`, or of the others, and keeps what it gives.

        What is compiled is called as such at the case's own sizes alone, lest it be compiled again: at others, the
        function that it was compiled from. Where it raises it has a note, or fails if the probe is declared. Raises
        SpoiltError if nothing more can be called in this process.
        """
        if subject.name not in self._plain:
            self._plain[subject.name] = self._eager(subject)
        eager = self._plain[subject.name]
        for trial in self._trials:
            if trial.declared != declared or (trial.reshaped and eager is None):
                continue
            try:
                self._given[trial].append(self._called(subject, eager, trial))
            except REFUSALS as error:
                text = f"does not take what it is given {trial.words}: {one_line(error)}"
                self._notes[trial].append(Note(subject.name, text))
            except UsageError:
                raise
            except Exception as error:
                if torch_private.NO_COMPILED_CODE in str(error):  # that it compiles within itself is its own affair
                    continue
                raised = f"raises {type(error).__name__} {trial.words}: {informative_line(error)}"
                if declared:
                    raise ProbeError(raised) from error
                self._notes[trial].append(Note(subject.name, raised))
                if self._device.failures_linger():
                    raise SpoiltError from error

    def _compare(self, earlier: Mapping[str, Sequence[Outputs]]) -> None:
        """Evaluates the reference for each trial, and sends who is wrong, and where most."""
        found: dict[str, list[tuple[bool, Trial, Verdict]]] = {}
        baseline = self._case.baseline.name
        for trial, given in self._given.items():
            verdicts: dict[str, Verdict] = {}
            outputs = {each.variant: each.outputs for each in given}
            if given:
                with self._turns.key("op.reference"):
                    expected = trial.expected(self._seed)
                verdicts = {each.variant: each.compared(expected) for each in given}
            if not trial.declared and (baseline not in verdicts or verdicts[baseline].reason):
                continue  # sizes that the operation does not take
            for note in self._notes[trial]:
                self._send(note)
            rounding = _rounding(verdicts.get(baseline))
            for name, verdict in verdicts.items():
                if verdict.reason and _size(verdict) > rounding:
                    others = [*earlier.get(name, ()), *self._of_others(name, trial)]
                    found.setdefault(name, []).append(
                        (any(repeats(outputs[name], each) for each in others), trial, verdict)
                    )
        for name, wrong in found.items():
            again, trial, verdict = max(wrong, key=lambda each: (each[0], _size(each[2])))
            more = f", and in {len(wrong) - 1} more" if len(wrong) > 1 else ""
            remembers = ", where it remembers what it gave for other contents" if again else ""
            reason = f"wrong {trial.words}{remembers}{more}: {verdict.reason}"
            self._send(Status(name, WRONG, reason, CACHE if again else verdict.kind))

    def _of_others(self, name: str, trial: Trial) -> list[Outputs]:
        """What a variant gave in all trials but one."""
        given = (each for other, given in self._given.items() if other is not trial for each in given)
        return [each.outputs for each in given if each.variant == name]

    def _called(self, subject: Subject, eager: Bound | None, trial: Trial) -> _Given:
        variant = self._case.operation.variant(subject.name)
        inputs = trial.inputs(self._seed)
        if not trial.reshaped:
            subject.refresh(inputs)
        elif eager is not None:
            device = self._device.torch_device()
            inputs = tree_map(lambda value: own(value, with_gradient=True, device=device), inputs)
            subject = Subject(subject.name, eager.function, inputs, self._case.mode, self._case.seed, eager.state)
        with nki_kernel.first_call(variant, self._case.mode):
            outputs = subject()
            self._device.synchronize()
        given = _Given(subject.name, Given(outputs).sealed, subject.labels)
        self._turns.put_back(subject.name)
        return given

    def _eager(self, subject: Subject) -> Bound | None:
        """What is called at other sizes; None if another variant is the same function, not compiled."""
        variants = self._case.operation.variants
        variant = self._case.operation.variant(subject.name)
        if variant.compile is None:
            return Bound(subject.function, subject.state)
        plain = replace(variant, compile=None)
        if any(replace(other, name=variant.name, optional=variant.optional) == plain for other in variants):
            return None
        return bind(plain, self._case, self._device, subject.inputs)


def _rounding(baseline: Verdict | None) -> float:
    """How much of the allowed error is rounding's where the baseline has this.

    On extreme inputs the reference may be more sensitive than a few perturbed ones have shown.
    """
    size = 0.0 if baseline is None or baseline.error is None else baseline.error.allowed
    return max(1.0, ALIKE * size) if size <= MODEST else 1.0


def _size(verdict: Verdict) -> float:
    """How wrong it is."""
    return verdict.error.allowed if verdict.error else float("inf")
