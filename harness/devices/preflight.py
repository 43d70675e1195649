"""Preflight: checks for known causes of spoilt measurements, before anything is measured. Imports no torch."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.configuration.errors import one_line

OFF = ("", "0", "false", "off")


@dataclass(frozen=True)
class Finding:
    """An observation, its likely cause or effect, and a remedy; `unfit` if it makes a measurement worthless."""

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
    """An environment variable that spoils a measurement when it is on, or else off, and the `effect` that it has."""

    name: str
    effect: str
    unfit: bool = True
    on: bool = True


@dataclass(frozen=True)
class Tool:
    """A program that the doctor looks for, with the `loss` without it and a `remedy`.

    A `tried` program must also run, with `--version`.
    """

    program: str
    loss: str
    remedy: str
    tried: bool = False

    def missing(self) -> str | None:
        """What is wrong with the program, or None."""
        if not self.tried:
            return None if shutil.which(self.program) else f"{self.program} is not on the PATH"
        try:
            done = subprocess.run([*self.program.split(), "--version"], capture_output=True, timeout=20, check=False)
            runs = done.returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            runs = False
        return None if runs else f"{self.program} does not run"


COMMON = (
    Variable("TORCH_COMPILE_DISABLE", "torch.compile does nothing, and compiled variants run eagerly"),
    Variable("TORCHDYNAMO_DISABLE", "torch.compile does nothing, and compiled variants run eagerly"),
    Variable("TORCH_SHOW_DISPATCH_TRACE", "every operator prints itself"),
)


def variables(known: Iterable[Variable], environment: Mapping[str, str]) -> list[Finding]:
    """The variables of `environment` that spoil a measurement: those `known` of its device, and any device's."""
    return [
        Finding(f"{variable.name}={environment[variable.name]}", variable.effect, "unset it", variable.unfit)
        for variable in (*known, *COMMON)
        if variable.name in environment and (str(environment[variable.name]).lower() not in OFF) == variable.on
    ]


def compiler() -> Tool:
    """The C++ compiler that Inductor calls."""
    program = os.environ.get("CXX", "g++")
    return Tool(program, "a compiled variant fails without a C++ compiler", "install g++, or name another by CXX", True)


def installed(package: str) -> bool:
    """Whether a package can be found, without importing it."""
    return importlib.util.find_spec(package) is not None


def unloadable(error: BaseException) -> Finding | None:
    """The device's package whose failure to load keeps torch from being imported; None for any other error."""
    if "Failed to load the backend extension" not in str(error):
        return None
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    package = re.search(r"backend extension: ([\w.]+?)\. ", str(error))
    return Finding(
        f"{package[1] if package else 'a back end'} does not load, and torch with it",
        one_line(cause),
        "repair its installation, or measure without it by device=cpu",
    )
