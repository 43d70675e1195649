"""Honesty: what a variant does besides giving the right result once."""

from __future__ import annotations

import time

import torch

from harness.devices.base import Device
from harness.measure.correctness import Expected, compare, snapshot
from harness.measure.observations import Finding
from harness.measure.subject import Outputs, Subject

SETTLE_S = 0.02  # long enough for a thread that was left behind to show itself


def examine(subject: Subject, first: Outputs, inputs: tuple, expected: Expected, device: Device) -> Finding:
    """Judges a variant by the outputs of its first call, then by those of a second call.

    `inputs` are the CPU tensors that its own were copied from.
    """
    if subject.keys != expected.keys:
        mine, others = (", ".join(keys) or "no keys" for keys in (subject.keys, expected.keys))
        return Finding(f"outputs by {mine}, where the reference has {others}", None)
    kept = snapshot(first)
    time.sleep(SETTLE_S)
    device.synchronize()
    settled = snapshot(first)
    verdict = compare(kept, expected)
    if not _alike(kept, settled):
        return Finding("its output still changes after the call has returned: work is left running", verdict.error)
    changed = subject.changed_inputs(inputs)
    if changed:
        which = ", ".join(map(str, changed))
        also = f"; {verdict.reason}" if verdict.reason else ""
        return Finding(f"changes its inputs in place (input {which}){also}", verdict.error)
    before = device.get_rng_state()
    second = subject()
    device.synchronize()
    draws = any(not torch.equal(old, new) for old, new in zip(before, device.get_rng_state(), strict=True))
    no_op = subject.returns_input(first)
    if (draws and not _alike(kept, snapshot(second))) or expected.random:
        return Finding(None, None, random=True, no_op=no_op)
    again = compare(snapshot(second), expected)
    reason = verdict.reason or (again.reason and f"right in its first call only: {again.reason}")
    return Finding(reason, verdict.error, no_op=no_op)


def reexamine(subject: Subject, inputs: tuple, expected: Expected, device: Device) -> str | None:
    """Judges a variant once more after timing, on new contents in the same tensors; None: right."""
    subject.refresh(inputs)
    outputs = subject()
    device.synchronize()
    reason = compare(snapshot(outputs), expected).reason
    return f"wrong for new contents of its inputs, as if it remembered: {reason}" if reason else None


def _alike(left: Outputs, right: Outputs) -> bool:
    return all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) if isinstance(a, torch.Tensor) and a.shape == b.shape else a is b
        for a, b in zip(left, right, strict=True)
    )
