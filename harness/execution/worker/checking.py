"""Checking: what the operation's author declares, and what the variants compute, held against the reference.

The reference's values are never in the process while a variant runs there: its outputs are copied first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from harness.configuration.operation import Case, declared_work
from harness.devices.base import Device
from harness.execution.processes import messages
from harness.execution.processes.messages import Send, Status, Warnings
from harness.execution.worker.turns import CHECK, Turns
from harness.measure.checks import declarations
from harness.measure.checks.case_data import CaseData
from harness.measure.checks.contents import figures
from harness.measure.checks.validity import Given, HostWork, Seen, judge, observe, remembered
from harness.measure.kinds import CACHE, IN_PLACE
from harness.measure.outputs import BUFFER, Label, Outputs
from harness.measure.subject import Subject
from harness.measure.tensors import dtypes, unseal
from harness.results.measurement import DEGRADED, WRONG


@dataclass(frozen=True)
class _Kept:
    """What a variant gave for contents of a seed that it could not know before."""

    variant: str
    seed: int
    outputs: Outputs  # sealed
    labels: Sequence[Label]
    buffers: Mapping[str, Any]  # those of a module before the call, sealed, if others had changed them


class Checking:
    """The checks of one measuring process, which sends what they find."""

    def __init__(self, case: Case, device: Device, data: CaseData, turns: Turns, send: Send):
        self._case = case
        self._operation = case.operation
        self._device = device
        self._data = data
        self._turns = turns
        self._send = send
        self._work: Mapping[str, float] | None = None
        self._seen: dict[str, Seen] = {}
        self._kept: list[_Kept] = []
        self.given: dict[str, list[Outputs]] = {}  # sealed, for contents of such seeds
        self._unchecked: set[str] = set()  # not checked a second time: random, or wrong already

    def declared(self, variants: Sequence[str]) -> None:
        """Checks what is declared of the operation and of these variants."""
        for name in variants:
            variant = self._operation.variant(name)
            with self._turns.key(f"op.variants.{name}.requires"):
                unmet = variant.unmet(self._device.name)
            if not unmet:
                with self._turns.key(variant.key):
                    declarations.check_signature(variant, self._data.inputs(self._case.seed))
                self._turns.put_back(name)  # its module was imported
        self._send(Warnings(self._device.dtype_warnings(dtypes(self._data.inputs(self._case.seed)))))
        with self._turns.key("op.work"):
            self._work = declared_work(self._operation, getattr(torch, self._case.dtype), self._case.mode)
        self._send(messages.Work(None if self._work is None else dict(self._work)))

    def first(self, subject: Subject, given: Given) -> None:
        """Looks at a variant's outputs, and how it treats its inputs and further calls, while there is no reference."""
        inputs = partial(self._data.inputs, self._case.seed)
        self._seen[subject.name] = observe(subject, given, partial(self._called, subject), inputs, self._device)

    def judge(self, subjects: Mapping[str, Subject], contents: bool = False) -> None:
        """Evaluates the reference, and compares with it what was seen of the variants in their first calls.

        With `contents` it sends figures by which inputs and reference can be compared with those of another process.
        """
        seed = self._case.seed
        with self._turns.key("op.reference"):
            expected = self._data.expected(seed)
        if contents:
            known = [] if expected.random else figures(expected.outputs)
            self._send(messages.Contents(figures(self._data.inputs(seed)), known))
        self._send(Warnings(self._data.warnings))
        for name, seen in self._seen.items():
            finding = judge(seen, expected)
            if finding.reason and finding.error is None and name == self._case.baseline.name:
                raise declarations.disagreement(self._operation, self._case.baseline.function(), finding.reason)
            self._send(messages.Checked(name, finding))
            if finding.not_comparable or finding.reason:
                self._unchecked.add(name)
            if finding.reason:
                self._send(Status(name, WRONG, finding.reason, finding.kind))
                if name in subjects:
                    subjects[name].refresh(self._data.inputs(seed))
        if self._work is not None:
            inputs = self._data.inputs(seed)
            warning = declarations.bytes_warning(self._operation, self._work, inputs, expected, self._case.mode)
            self._send(Warnings([warning] if warning else []))
        self._seen.clear()
        self._data.forget_expected()

    def again(self, subject: Subject, seed: int) -> None:
        """Calls a variant on other contents in the same tensors, to be compared when all have been called."""
        if subject.name in self._unchecked:
            return
        changed = subject.changed_inputs(self._data.inputs(self._case.seed))
        if changed:
            which = ", ".join(changed)
            reason = f"changes its inputs in place while it is timed (input {which})"
            self._send(Status(subject.name, WRONG, reason, IN_PLACE))
        subject.refresh(self._data.inputs(seed))
        self.keep(subject.name, seed, self._called(subject), subject.labels)

    def keep(
        self, name: str, seed: int, given: Given, labels: Sequence[Label], buffers: Mapping[str, Any] | None = None
    ) -> None:
        """Keeps a variant's outputs for contents of a seed that it could not know before.

        `buffers` are those of a module, sealed, that earlier calls have left as they were before this one.
        """
        self._kept.append(_Kept(name, seed, given.sealed, labels, buffers or {}))

    def compare_kept(self) -> None:
        """Compares what was kept with the reference, which is evaluated now."""
        for kept in self._kept:
            self.given.setdefault(kept.variant, []).append(kept.outputs)
            if kept.variant in self._unchecked:
                continue
            with self._turns.key("op.reference"):
                expected = self._data.expected(kept.seed)
            reason = remembered(kept.outputs, expected, kept.labels)
            moving = {label.name for label in expected.labels if label.kind == BUFFER}  # from call to call
            buffers = {name: unseal(value) for name, value in kept.buffers.items() if name in moving}
            if reason and buffers:
                with self._turns.key("op.reference"):
                    later = self._data.expected_from(kept.seed, buffers)
                reason = remembered(kept.outputs, later, kept.labels)
            if reason:
                self._send(Status(kept.variant, WRONG, reason, CACHE))
        self._kept.clear()
        self._data.forget_expected()

    def on_device(self, subject: Subject) -> None:
        """Tries whether it is an accelerator that does a variant's work; one that compiles is not asked."""
        if not self._device.accelerator or self._operation.variant(subject.name).compile is not None:
            return
        work = HostWork(self._device.torch_device())
        work.follow(subject)
        self._turns.put_back(subject.name)
        reason = work.reason()
        if reason:
            self._send(Status(subject.name, DEGRADED, reason))

    def comparable(self, name: str) -> bool:
        """Whether a variant's outputs can be compared, and were right when they were first."""
        return name not in self._unchecked

    def work(self, subjects: Sequence[Subject]) -> None:
        """Compares the declared work with what torch counts of those that are eager."""
        if self._work is None:
            return
        counted = []
        for subject in subjects:
            if self._operation.variant(subject.name).compile is None:
                with self._turns.turn(subject.name, CHECK, grad=True):
                    counted.append(declarations.count_flops(subject))
        known = [count for count in counted if count is not None]
        warning = declarations.flops_warning(self._operation, self._work, known)
        self._send(Warnings([warning] if warning else []))

    def _called(self, subject: Subject) -> Given:
        """What one call gives, after which global state is restored for the harness's own work."""
        outputs = subject()
        self._device.synchronize()
        given = Given(outputs)
        self._turns.put_back(subject.name)
        return given
