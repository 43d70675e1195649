"""NeuronConfig's arguments: what of them the installed torch-neuronx knows."""

from __future__ import annotations

import re
from typing import Any

from harness.devices.neuron_package import version


def known_modes(known: Any, names: list[str]) -> tuple[list[Any], list[str]]:
    """The members of ProfileMode that there are, and a note on each that there is not."""
    there = [getattr(known, name) for name in names if hasattr(known, name)]
    notes = [
        f"ProfileMode of torch-neuronx {version()} has no {name}: left out"
        for name in names
        if not hasattr(known, name)
    ]
    return there, notes


def accepted(make: Any, arguments: dict[str, Any]) -> tuple[Any, list[str]]:
    """`make(**arguments)` without the arguments that it does not know, and their names."""
    dropped: list[str] = []
    while True:
        try:
            return make(**arguments), dropped
        except TypeError as error:
            unknown = _refused(str(error), list(arguments))
            if not unknown:
                raise
            dropped += unknown
            arguments = {name: value for name, value in arguments.items() if name not in unknown}


def _refused(message: str, names: list[str]) -> list[str]:
    """The names that a TypeError calls unknown: Python names one, pybind11 lists the valid ones."""
    python = re.search(r"unexpected keyword argument '?(\w+)'?", message)
    if python is not None:
        return [name for name in names if name == python[1]]
    if "incompatible constructor arguments" not in message:
        return []
    signatures = message.partition("Invoked with")[0]
    return [name for name in names if not re.search(rf"\b{name}:", signatures)]
