"""The devices that a case can be measured on, one file each, and the choice among them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from harness.configuration.errors import UsageError

if TYPE_CHECKING:
    from harness.devices.base import Device

ORDER = ("neuron", "cuda", "cpu")  # `device=auto` takes the first that is there


def device(name: str) -> Device:
    """The device called `name`, whether or not it is there."""
    if name == "neuron":
        from harness.devices.neuron import Neuron

        return Neuron()
    if name == "cuda":
        from harness.devices.cuda import Cuda

        return Cuda()
    from harness.devices.cpu import Cpu

    return Cpu()


def passed_over(asked: str, chosen: Device) -> list[str]:
    """A line on what `auto` did not take although its package is installed."""
    if asked != "auto" or chosen.name == "neuron" or importlib.util.find_spec("torch_neuronx") is None:
        return []
    return [f"device=auto takes {chosen.name} and passes neuron over: {device('neuron').absence()}"]


def choose(name: str) -> Device:
    """The device asked for, or for `auto` the first that is there.

    Raises UsageError, which says what was looked for and what to do, where a named device is not there.
    """
    if name == "auto":
        return next(found for found in map(device, ORDER) if found.absence() is None)
    found = device(name)
    absence = found.absence()
    if absence is not None:
        others = ", ".join(other for other in ORDER if other != name and device(other).absence() is None)
        raise UsageError(f"device={name}: {absence}; here: {others}")
    return found
