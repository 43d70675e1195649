"""Validity: checks that a variant does its work in every call, and nothing else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.configuration.operation import Inputs
from harness.devices.base import Device
from harness.measure.checks.correctness import compare, snapshot
from harness.measure.checks.reference import Expected
from harness.measure.kinds import ALIASING, CACHE, FORM, IN_PLACE, THREADS
from harness.measure.observations import Finding
from harness.measure.outputs import Label, Outputs, few, unmatched
from harness.measure.state import unmoved
from harness.measure.subject import Subject
from harness.measure.tensors import odd, same, seal, unseal

SETTLE_S = 0.02  # long enough for a thread that was left behind to show itself
RUNNING = "its output still changes after the call has returned: work is left running"
ALIASED = "returns the same memory from each call, as if it remembered: what was kept of earlier outputs may change"
RANDOM = "it draws random numbers, so its correctness is not known"
HALF = 0.5  # of the elements that are returned: fewer are sizes, indices or constants


class Given:
    """The outputs of a call, and copies that are taken at once: they may change later."""

    def __init__(self, outputs: Outputs):
        self.outputs = outputs
        self.taken = snapshot(outputs)

    @property
    def sealed(self) -> Outputs:
        """The copies, out of reach of whoever looks for tensors; what is no plain tensor as it is."""
        return tuple(value if odd(value) else seal(value) for value in self.taken)


@dataclass(frozen=True)
class Seen:
    """What the first two calls of a variant gave, taken before the reference's values were in the process."""

    keys: tuple[str, ...]
    labels: Sequence[Label]
    first: Outputs  # sealed
    second: Outputs | None  # likewise; None: there was none
    fault: str | None = None  # that is known without the reference
    kind: str | None = None  # of that
    elsewhere: bool = False  # so that nothing else can be said
    no_op: bool = False
    draws: bool = False  # random numbers


class HostWork(TorchDispatchMode):
    """Follows a call's copies between `device` and the CPU, and its operators on tensors of the CPU."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device.type
        self._to_host = 0  # elements
        self._to_device = 0
        self._returned = 0
        self._operators: dict[str, None] = {}  # on the CPU, in the order of their first call

    def follow(self, call: Callable[[], Outputs]) -> None:
        """Follows one call. What compiles within it may refuse to be followed, and is let go."""
        with contextlib.suppress(Exception, SystemExit), self:
            self._returned = sum(output.numel() for output in call() if isinstance(output, torch.Tensor))

    def __torch_dispatch__(self, func: Any, types: Sequence[Any], args: Any = (), kwargs: Any = None) -> Any:
        on_device, on_host = self._elements((args, kwargs))
        outputs = func(*args, **(kwargs or {}))
        made_on_device, made_on_host = self._elements(outputs)
        if on_device and made_on_host:
            self._to_host += made_on_host
        elif on_host and made_on_device:
            self._to_device += on_host
        elif on_host and made_on_host and not func.is_view:
            self._operators[func.name().partition(".")[0]] = None
        return outputs

    def reason(self) -> str | None:
        """Why the call was not the device's; None if it was, as far as torch sees."""
        if self._to_host <= 1 or self._to_device < max(HALF * self._returned, 1):
            return None
        operators = few(list(self._operators)) if self._operators else "none that torch sees"
        return f"computes on the CPU: copies its inputs there and its outputs back; operators there: {operators}"

    def _elements(self, values: Any) -> tuple[int, int]:
        """How many the tensors in a structure have on the device, and on the CPU."""
        sizes = {True: 0, False: 0}
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                sizes[value.device.type == self._device] += value.numel()
        return sizes[True], sizes[False]


def observe(
    subject: Subject, first: Given, call: Callable[[], Given], inputs: Callable[[], Inputs], device: Device
) -> Seen:
    """Looks at what a variant's `first` call gives and a second one, and at what it does to its inputs.

    `call` calls the subject and waits for its device; `inputs` gives the CPU tensors that its own were copied from.
    """
    keys, labels = subject.keys, subject.labels
    elsewhere = _elsewhere(first.outputs, device.torch_device())
    if elsewhere:
        return Seen(keys, labels, (), None, elsewhere, FORM, elsewhere=True)
    taken = first.taken
    time.sleep(SETTLE_S)
    device.synchronize()
    if not alike(taken, snapshot(first.outputs)):
        return Seen(keys, labels, first.sealed, None, RUNNING, THREADS)
    changed = subject.changed_inputs(inputs())
    if changed:
        which = ", ".join(map(str, changed))
        return Seen(keys, labels, first.sealed, None, f"changes its inputs in place (input {which})", IN_PLACE)
    no_op = subject.returns_input(first.outputs)
    subject.forget_graph()  # else a forward pass that draws random numbers would go unseen
    before = device.get_rng_state()
    second = call()
    draws = not unmoved(before, device.get_rng_state())
    aliased = subject.returns_again(first.outputs, second.outputs)
    fault, kind = (ALIASED, ALIASING) if aliased else (None, None)
    return Seen(keys, labels, first.sealed, second.sealed, fault, kind, no_op=no_op, draws=draws)


def judge(seen: Seen, expected: Expected) -> Finding:
    """What is found of a variant by what was seen of it and what its reference gives."""
    alone = len(seen.first) == 1 and not (seen.keys and expected.keys)  # one output needs no name
    if seen.keys != expected.keys and not alone:
        text = f"outputs by {_listed(seen.keys)}, where the reference has {_listed(expected.keys)}"
        return Finding(text, None, kind=FORM)
    if seen.elsewhere:
        return Finding(seen.fault, None, kind=seen.kind)
    first, second = (tuple(map(unseal, outputs or ())) for outputs in (seen.first, seen.second))
    verdict = compare(first, expected, seen.labels)
    if seen.fault:
        also = f"; {verdict.reason}" if verdict.reason else ""
        return Finding(f"{seen.fault}{also}", verdict.error, kind=seen.kind)
    if (seen.draws and not alike(first, second)) or expected.random:
        return Finding(None, None, not_comparable=RANDOM, no_op=seen.no_op)
    again = compare(second, expected, seen.labels)
    reason = verdict.reason or (again.reason and f"right in its first call only: {again.reason}")
    kind = verdict.kind or (again.kind and CACHE)
    undetermined = None if reason else verdict.undetermined or again.undetermined
    notes = unmatched(first, seen.labels, expected.outputs, expected.labels)
    return Finding(reason, None if undetermined else verdict.error, undetermined, seen.no_op, notes, kind)


def remembered(outputs: Outputs, expected: Expected, labels: Sequence[Label]) -> str | None:
    """What is wrong with outputs, sealed or not, for new contents of the inputs; None: nothing."""
    reason = compare(tuple(map(unseal, outputs)), expected, labels).reason
    return f"wrong for new contents of its inputs, as if it remembered: {reason}" if reason else None


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "no keys"


def _elsewhere(outputs: Outputs, device: torch.device) -> str | None:
    for output in outputs:
        if isinstance(output, torch.Tensor) and output.device.type not in (device.type, "meta"):
            return f"returned a tensor on {output.device.type}, where {device.type} is asked for"
    return None


def repeats(outputs: Outputs, earlier: Outputs) -> bool:
    """Whether outputs are those of an earlier call, and none that many contents have: constant, or not finite."""
    left, right = (tuple(map(unseal, each)) for each in (outputs, earlier))
    return any(map(_various, left)) and alike(left, right)


def _various(value: Any) -> bool:
    """Whether a tensor has several values, all finite."""
    if not isinstance(value, torch.Tensor) or not value.numel() or odd(value) is not None:
        return False
    return bool(value.isfinite().all()) and bool((value != value.flatten()[0]).any())


def alike(left: Outputs, right: Outputs) -> bool:
    """Whether two calls gave the same."""
    return len(left) == len(right) and all(map(same, left, right))
