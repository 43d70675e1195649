"""The torch-neuronx that is installed: whether it is TorchNeuron, and whether it was built for the installed torch."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re

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


def _release(package: str) -> tuple[int, ...] | None:
    try:
        numbers = re.match(r"(\d+)\.(\d+)", importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return None
    return (int(numbers[1]), int(numbers[2])) if numbers else None
