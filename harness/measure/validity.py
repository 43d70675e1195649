"""Validity: checks that a variant does its work in every call, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from harness.configuration.operation import Inputs
from harness.devices.base import Device
from harness.measure.correctness import compare, snapshot
from harness.measure.observations import Finding
from harness.measure.outputs import Outputs, unmatched
from harness.measure.reference import Expected
from harness.measure.state import alike
from harness.measure.subject import Subject
from harness.measure.tensors import same

SETTLE_S = 0.02  # long enough for a thread that was left behind to show itself
RANDOM = "it draws random numbers, so its correctness is not known"


def examine(
    subject: Subject,
    first: Outputs,
    call: Callable[[], Outputs],
    inputs: Callable[[], Inputs],
    expected: Expected,
    device: Device,
) -> Finding:
    """Checks a variant by the outputs of its `first` call, then by those of a second call.

    `call` calls the subject and waits for its device; `inputs` gives the CPU tensors that its own were copied from.
    """
    alone = len(first) == 1 and not (subject.keys and expected.keys)  # one output needs no name
    if subject.keys != expected.keys and not alone:
        return Finding(f"outputs by {_listed(subject.keys)}, where the reference has {_listed(expected.keys)}", None)
    elsewhere = _elsewhere(first, device.torch_device())
    if elsewhere:
        return Finding(elsewhere, None)
    taken = snapshot(first)
    time.sleep(SETTLE_S)
    device.synchronize()
    settled = snapshot(first)
    labels = subject.labels
    verdict = compare(taken, expected, labels)
    if not _alike(taken, settled):
        return Finding("its output still changes after the call has returned: work is left running", verdict.error)
    changed = subject.changed_inputs(inputs())
    if changed:
        which = ", ".join(map(str, changed))
        also = f"; {verdict.reason}" if verdict.reason else ""
        return Finding(f"changes its inputs in place (input {which}){also}", verdict.error)
    no_op = subject.returns_input(first)
    subject.forget_graph()  # else a forward pass that draws random numbers would go unseen
    before = device.get_rng_state()
    second = snapshot(call())
    draws = not alike(before, device.get_rng_state())
    if (draws and not _alike(taken, second)) or expected.random:
        return Finding(None, None, not_comparable=RANDOM, no_op=no_op)
    again = compare(second, expected, labels)
    reason = verdict.reason or (again.reason and f"right in its first call only: {again.reason}")
    undetermined = None if reason else verdict.undetermined or again.undetermined
    notes = unmatched(taken, labels, expected.outputs, expected.labels)
    return Finding(reason, None if undetermined else verdict.error, undetermined, no_op, notes)


def reexamine(subject: Subject, call: Callable[[], Outputs], inputs: Inputs, expected: Expected) -> str | None:
    """Checks a variant once more after timing, on new contents in the same tensors; None: right."""
    subject.refresh(inputs)
    outputs = snapshot(call())
    reason = compare(outputs, expected, subject.labels).reason
    return f"wrong for new contents of its inputs, as if it remembered: {reason}" if reason else None


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "no keys"


def _elsewhere(outputs: Outputs, device: torch.device) -> str | None:
    for output in outputs:
        if isinstance(output, torch.Tensor) and output.device.type not in (device.type, "meta"):
            return f"returned a tensor on {output.device.type}, where {device.type} is asked for"
    return None


def _alike(left: Outputs, right: Outputs) -> bool:
    return len(left) == len(right) and all(map(same, left, right))
