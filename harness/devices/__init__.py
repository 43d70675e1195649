"""The devices that a case can be measured on, one file each, and the choice among them. Imports no torch."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.configuration.devices import AUTO, DeviceConfigs
from harness.configuration.errors import UsageError, unknown

if TYPE_CHECKING:
    from harness.devices.base import Device


def device(name: str, configs: DeviceConfigs) -> Device:
    """The device called `name`, with its settings, present or not. Raises UsageError for an unknown name."""
    if name not in configs:
        raise unknown("device", name, configs)
    instance: Device = pkgutil.resolve_name(configs[name].path)(configs[name].settings)
    return instance


def ordered(configs: DeviceConfigs) -> list[Device]:
    """All devices, in the order in which `device=auto` looks for them."""
    return sorted((device(name, configs) for name in configs), key=lambda known: known.order)


def candidates(name: str, configs: DeviceConfigs) -> list[Device]:
    """The devices that a run may get: the one it names, or for `auto` all whose package is installed, in order.

    Which of them is present is known only after torch is imported.
    """
    if name != AUTO:
        return [device(name, configs)]
    return [known for known in ordered(configs) if known.installed()]


def passed_over(name: str, chosen: Device, configs: DeviceConfigs) -> list[str]:
    """A line on each device that `auto` did not take although a package was installed for it alone."""
    return [
        f"device=auto takes {chosen.name} and passes {known.name} over: {known.absence()}"
        for known in candidates(name, configs)
        if name == AUTO and known.package is not None and known.order < chosen.order
    ]


def choose(name: str, configs: DeviceConfigs) -> Device:
    """The device that the run names, or for `auto` the first that is there.

    Raises UsageError, which says what was looked for and what to do, if a named device is not there.
    """
    if name == AUTO:
        return first(candidates(name, configs))
    chosen = device(name, configs)
    absence = chosen.absence()
    if absence is not None:
        others = [other.name for other in ordered(configs) if other.name != name and other.absence() is None]
        raise UsageError(f"device={name}: {absence}; here: {', '.join(others) or 'none'}")
    return chosen


def first(devices: Sequence[Device]) -> Device:
    """The first of these devices that is there; raises UsageError if none is."""
    for candidate in devices:
        if candidate.absence() is None:
            return candidate
    raise UsageError(f"device=auto: none is there of {', '.join(candidate.name for candidate in devices)}")
