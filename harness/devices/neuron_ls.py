"""neuron-ls: which processes hold the cores of this instance, as the program of that name lists them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

PROGRAM = "neuron-ls"
FORMATS = (["--output-format", "json"], ["-j"])  # from Neuron 2.34 on the first, before it the second
TIMEOUT_S = 10.0
COMMAND = 60  # letters of a process's command that are shown


@dataclass(frozen=True)
class Holder:
    """A process that holds cores."""

    pid: int
    command: str
    cores: tuple[int, ...]  # of the devices that it uses; empty if not known

    def __str__(self) -> str:
        called = f" ({self.command})" if self.command else ""
        cores = f", on cores {', '.join(map(str, self.cores))}" if self.cores else ""
        return f"process {self.pid}{called}{cores}"


def others() -> list[Holder]:
    """The processes that hold cores, but for this one and what it has started; [] if the program does not tell."""
    own = {os.getpid()}
    with contextlib.suppress(psutil.Error):
        own |= {child.pid for child in psutil.Process().children(recursive=True)}
    answer = listed()
    return [holder for holder in holders(answer[1]) if holder.pid not in own] if answer else []


def holders(value: Any) -> list[Holder]:
    """The processes of a list of devices, or of whatever holds one: each once, with the cores of all its devices."""
    found: dict[int, Holder] = {}
    for device in devices(value):
        for process in device["neuron_processes"] or ():
            pid = process.get("pid") if isinstance(process, Mapping) else None
            command = str(process.get("command", "")) if isinstance(pid, int) else ""
            if isinstance(pid, int) and not command.startswith(PROGRAM):
                cores = process.get("neuroncore_ids") or device.get("neuroncore_ids") or ()
                before = found[pid].cores if pid in found else ()
                shown = command if len(command) <= COMMAND else f"{command[: COMMAND - 1]}…"
                found[pid] = Holder(pid, shown, tuple(dict.fromkeys([*before, *cores])))
    return list(found.values())


def listed() -> tuple[list[str], Any] | None:
    """The options that the program takes for JSON, and what it lists by them; None if it is not there or fails."""
    for form in FORMATS:
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            done = subprocess.run([PROGRAM, *form], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            if done.returncode == 0:
                return form, json.loads(done.stdout)
    return None


def devices(value: Any) -> Iterator[Mapping[str, Any]]:
    """The descriptions of devices, wherever they stand in what was listed."""
    if isinstance(value, Mapping) and "neuron_processes" in value:
        yield value
    elif isinstance(value, (Mapping, list)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from devices(inner)
