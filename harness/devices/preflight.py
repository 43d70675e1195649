"""Fitness: what is known to spoil a measurement before anything is measured. Imports no torch."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.configuration.errors import one_line

OFF = ("", "0", "false", "off")


@dataclass(frozen=True)
class Finding:
    """What was seen, its likely cause or effect, and what to do; `unfit` where it makes a measurement worthless."""

    seen: str
    cause: str
    remedy: str
    unfit: bool = True

    @property
    def line(self) -> str:
        """The finding in one line."""
        return f"{self.seen}: {self.cause}; {self.remedy}"


@dataclass(frozen=True)
class Variable:
    """An environment variable that spoils a measurement on `device` (None: on any) when it is on, or else off."""

    device: str | None
    name: str
    effect: str
    unfit: bool = True
    on: bool = True


VARIABLES = (
    Variable(
        "neuron",
        "NEURON_RT_INSPECT_ENABLE",
        "the runtime's own capture and torch.profiler exclude each other",
    ),
    Variable("neuron", "NEURON_LAUNCH_BLOCKING", "every launch waits for its execution, which no real program does"),
    Variable(
        "neuron",
        "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION",
        "an operator that would fall back to the CPU fails instead, and its variant with it",
        unfit=False,
    ),
    Variable(
        "neuron",
        "TORCH_DEVICE_BACKEND_AUTOLOAD",
        "torch does not load torch-neuronx by itself: what a variant starts in processes of its own has no such device",
        unfit=False,
        on=False,
    ),
    Variable("cuda", "CUDA_LAUNCH_BLOCKING", "every launch waits for its kernel, which no real program does"),
    Variable("cuda", "PYTORCH_NO_CUDA_MEMORY_CACHING", "every tensor costs a call of the driver's allocator"),
    Variable(None, "TORCH_COMPILE_DISABLE", "torch.compile does nothing, and compiled variants run eagerly"),
    Variable(None, "TORCHDYNAMO_DISABLE", "torch.compile does nothing, and compiled variants run eagerly"),
    Variable(None, "TORCH_SHOW_DISPATCH_TRACE", "every operator prints itself"),
)


def findings(device: str, environment: Mapping[str, str]) -> list[Finding]:
    """What can be known at no cost, for a measurement on `device` with the variables of `environment`."""
    return [*variables(device, environment), *(versions() if device == "neuron" else [])]


def unloadable(error: BaseException) -> Finding | None:
    """What keeps torch itself from being imported: the package of a device, which torch loads on its way; else None."""
    if "Failed to load the backend extension" not in str(error):
        return None
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    package = re.search(r"backend extension: ([\w.]+?)\. ", str(error))
    return Finding(
        f"{package[1] if package else 'a back end'} does not load, and torch with it",
        one_line(cause),
        "mend its installation, or measure without it by device=cpu",
    )


def variables(device: str, environment: Mapping[str, str]) -> list[Finding]:
    """Environment variables that spoil a measurement on `device`."""
    return [
        Finding(f"{known.name}={environment[known.name]}", known.effect, "unset it", known.unfit)
        for known in VARIABLES
        if known.device in (None, device)
        and known.name in environment
        and (str(environment[known.name]).lower() not in OFF) == known.on
    ]


def versions() -> list[Finding]:
    """A torch-neuronx that was built for another torch."""
    torch, neuron = _release("torch"), _release("torch-neuronx")
    if torch is None or neuron is None or torch == neuron:
        return []
    wanted = ".".join(map(str, torch))
    return [
        Finding(
            f"torch-neuronx {_version('torch-neuronx')} beside torch {_version('torch')}",
            "each torch-neuronx is built for one torch, whose first two numbers it shares",
            f"install torch-neuronx {wanted}, or torch {neuron[0]}.{neuron[1]}",
        )
    ]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(package: str) -> tuple[int, ...] | None:
    numbers = re.match(r"(\d+)\.(\d+)", _version(package) or "")
    return (int(numbers[1]), int(numbers[2])) if numbers else None
