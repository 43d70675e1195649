"""The program on the simulated NeuronCore, in a process that has its stand-in package on the path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import neuroncore
import pytest
from cli import QUICK, ROOT, Ran, in_process, run

SIX = ("aten::mul", "aten::mean", "aten::add", "aten::rsqrt", "aten::_fused_rms_norm", "graph")


def on_core(*arguments: str, cwd: Path, module: str = "harness", explorer: str | None = None, **switches: Any) -> Ran:
    """Runs `python -m MODULE device=neuron ARGUMENTS`; `explorer` puts the stand-in program on the PATH.

    Names in capitals are environment variables, others switches of the simulation. Skips where it cannot be built.
    """
    variables = {name: switches.pop(name) for name in [*switches] if name.isupper()}
    try:
        variables = neuroncore.environment(**switches) | variables
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))
    if explorer is not None:
        variables |= neuroncore.explorer_environment(explorer)
    return of_package(variables, "device=neuron", *arguments, cwd=cwd, module=module)


def of_package(variables: dict[str, str], *arguments: str, cwd: Path, module: str = "harness") -> Ran:
    """Runs the program with one of the packages of that name: those of neuroncore's environments.

    The command line runs within this process; what it measures is spawned, and has the package. Other modules import
    it themselves, and are processes. Arguments stand before those of QUICK.
    """
    variables = variables | {"PYTHONPATH": os.pathsep.join([variables["PYTHONPATH"], str(ROOT)])}
    if module == "harness":
        own = {argument.partition("=")[0] for argument in arguments}
        quick = [argument for argument in QUICK if argument.partition("=")[0] not in own]
        return in_process(*arguments, *quick, cwd=cwd, **variables)
    return run(*arguments, cwd=cwd, module=module, **variables)
