"""Checking: what the operation's author declares, and what the variants compute, held against the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch

from harness.configuration.operation import Case, declared_work
from harness.devices.base import Device
from harness.execution import messages
from harness.execution.messages import Send, Status, Warnings
from harness.execution.turns import CHECK, Turns
from harness.measure import operation_checks
from harness.measure.case_data import CaseData
from harness.measure.contents import figures
from harness.measure.host_work import HostWork
from harness.measure.outputs import Outputs
from harness.measure.subject import Subject
from harness.measure.tensors import dtypes
from harness.measure.validity import examine, reexamine
from harness.results.measurement import DEGRADED, WRONG


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
        self._unchecked: set[str] = set()  # not checked a second time: random, or wrong already

    def declared(self, variants: Sequence[str], contents: bool = False) -> None:
        """Checks what is declared of the operation and of these variants, and evaluates the reference.

        With `contents` it sends figures by which these can be compared with those of another process.
        """
        for name in variants:
            variant = self._operation.variant(name)
            with self._turns.key(f"op.variants.{name}.requires"):
                unmet = variant.unmet(self._device.name)
            if not unmet:
                with self._turns.key(variant.key):
                    operation_checks.check_signature(variant, self._data.inputs(self._case.seed))
                self._turns.put_back(name)  # its module was imported
        self._send(Warnings(self._device.slow_inputs(dtypes(self._data.inputs(self._case.seed)))))
        with self._turns.key("op.work"):
            self._work = declared_work(self._operation, getattr(torch, self._case.dtype), self._case.mode)
        self._send(messages.Work(None if self._work is None else dict(self._work)))
        with self._turns.key("op.reference"):
            expected = self._data.expected(self._case.seed)
        if contents:
            known = [] if expected.random else figures(expected.outputs)
            self._send(messages.Contents(figures(self._data.inputs(self._case.seed)), known))
        self._send(Warnings(self._data.warnings))

    def first(self, subject: Subject, outputs: Outputs) -> None:
        """Compares a variant's outputs with the reference's, and tries how it treats its inputs and further calls."""
        variant = self._operation.variant(subject.name)
        seed = self._case.seed
        call = partial(self._called, subject)
        finding = examine(
            subject, outputs, call, partial(self._data.inputs, seed), self._data.expected(seed), self._device
        )
        if finding.reason and finding.error is None and variant is self._case.baseline:
            raise operation_checks.disagreement(self._operation, variant.function(), finding.reason)
        self._send(messages.Checked(subject.name, finding))
        if finding.not_comparable or finding.reason:
            self._unchecked.add(subject.name)
        if finding.reason:
            self._send(Status(subject.name, WRONG, finding.reason))
            subject.refresh(self._data.inputs(seed))

    def again(self, subject: Subject) -> None:
        """Checks a variant on other contents in the same tensors."""
        if subject.name not in self._unchecked:
            seed = self._case.seed + 1
            expected = self._data.expected(seed)
            reason = reexamine(subject, partial(self._called, subject), self._data.inputs(seed), expected)
            if reason:
                self._send(Status(subject.name, WRONG, reason))

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
        """Compares the declared work with what torch counts of those that are eager, and with the tensors."""
        if self._work is None:
            return
        counted = []
        for subject in subjects:
            if self._operation.variant(subject.name).compile is None:
                with self._turns.turn(subject.name, CHECK, grad=True):
                    counted.append(operation_checks.count_flops(subject))
        known = [count for count in counted if count is not None]
        warnings = [operation_checks.flops_warning(self._operation, self._work, known)]
        expected = self._data.expected(self._case.seed)
        inputs = self._data.inputs(self._case.seed)
        warnings.append(operation_checks.bytes_warning(self._operation, self._work, inputs, expected, self._case.mode))
        self._send(Warnings([warning for warning in warnings if warning]))

    def _called(self, subject: Subject) -> Outputs:
        """The outputs of one call, after which global state is restored for the harness's own work."""
        outputs = subject()
        self._device.synchronize()
        self._turns.put_back(subject.name)
        return outputs
