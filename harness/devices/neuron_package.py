"""The torch-neuronx that is installed: whether it is TorchNeuron, for which torch, and what NeuronConfig takes."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from typing import Any

from harness.configuration.errors import one_line
from harness.devices.preflight import Finding

INSTALL = "install torch-neuronx 2.13 or later from AWS's own package index, as its TorchNeuron install page says"


def absent() -> str | None:
    """Why the installed torch-neuronx, if any, is not TorchNeuron."""
    if importlib.util.find_spec("torch_neuronx") is None:
        return f"no package torch_neuronx is installed; {INSTALL}"
    here = version()
    try:
        importlib.import_module("torch_neuronx")
    except ImportError as error:
        if "WRONG PACKAGE" in str(error):
            return f"torch-neuronx {here} from PyPI is a stub (WRONG PACKAGE), not the real wheel; {INSTALL}"
        if "torch_xla" in str(error):
            return f"torch-neuronx {here} is the older XLA package ({one_line(error)}); {INSTALL}"
        return f"torch_neuronx does not import: {one_line(error)}; {INSTALL}"
    except Exception as error:  # a driver that is missing: whatever the runtime raises
        return f"torch_neuronx does not load: {one_line(error)}; see python -m harness.doctor"
    import torch

    if not hasattr(torch, "neuron") and importlib.util.find_spec("torch_neuronx.profiling") is None:
        return f"torch-neuronx {here} is the older XLA package, which has no torch.neuron; {INSTALL}"
    return None


def version(package: str = "torch-neuronx") -> str:
    """Of a package, as its metadata give it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def mismatch() -> list[Finding]:
    """A torch-neuronx that was built for another torch."""
    torch, neuron = _release("torch"), _release("torch-neuronx")
    if torch is None or neuron is None or torch == neuron:
        return []
    wanted = ".".join(map(str, torch))
    return [
        Finding(
            f"torch-neuronx {version()} beside torch {importlib.metadata.version('torch')}",
            "each torch-neuronx is built for one torch, whose first two numbers it shares",
            f"install torch-neuronx {wanted}, or torch {neuron[0]}.{neuron[1]}",
        )
    ]


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


def _release(package: str) -> tuple[int, ...] | None:
    try:
        numbers = re.match(r"(\d+)\.(\d+)", importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return None
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def _refused(message: str, names: list[str]) -> list[str]:
    """The names that a TypeError calls unknown: Python names one, pybind11 lists the valid ones."""
    python = re.search(r"unexpected keyword argument '?(\w+)'?", message)
    if python is not None:
        return [name for name in names if name == python[1]]
    if "incompatible constructor arguments" not in message:
        return []
    signatures = message.partition("Invoked with")[0]
    return [name for name in names if not re.search(rf"\b{name}:", signatures)]
