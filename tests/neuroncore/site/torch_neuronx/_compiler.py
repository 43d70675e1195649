"""The simulated compiler: finds programs in its caches or builds them, fails where it is told to, and keeps account.

A cache is a folder that one of the real package's variables names. Without any there is none: a process starts cold.
"""

from __future__ import annotations

import atexit
import csv
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from . import _core
from ._switches import Switches

NEFF = ("TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR", "TORCH_NEURONX_NEFF_CACHE_DIR")
NEFF_DISABLED = "TORCH_NEURONX_NEFF_DISABLE_CACHE"

# The stages of compiling, each with the variables that name its caches
Stages = Mapping[str, Sequence[str]]
GRAPH: Stages = {"hlo": ("TORCH_NEURONX_HLO_CACHE_DIR",), "neff": NEFF}
OPERATOR: Stages = {"neff": NEFF}
KERNEL: Stages = {"trace": ("NKI_TRACE_CACHE_URL",), "nki": ("NKI_COMPILE_CACHE_URL",)}


@dataclass(frozen=True)
class Compilation:
    """A graph whose NEFF was built: a row of the table graph_stats."""

    graph_id: str
    graph_name: str
    torch_neuronx_compile_us: int


compilations: list[Compilation] = []


def identity(*parts: object) -> str:
    """A name for a program made of these, the same in any process."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def build(kernel: str, program: str, stages: Stages, anew: bool = False) -> None:
    """Builds a program by its `identity`, as far as its stages are not cached; `anew` looks into no cache.

    Raises RuntimeError if the compile of a graph fails, or has failed before and that is cached.
    """
    switches = Switches.from_environment()
    started = time.perf_counter()
    built = set()
    for stage, variables in stages.items():
        files = [folder / f"{program}.{stage}" for folder in _folders(stage, variables)]
        if any(file.with_suffix(".failed").exists() for file in files):
            raise RuntimeError("neuronx-cc: this graph has failed to compile before, as its cache says")
        if anew or not any(file.exists() for file in files):
            fails = switches.compile_fails or "--no-such-option" in os.environ.get("NEURON_CC_FLAGS", "")
            if fails and stages is GRAPH and stage == "neff":
                _write([file.with_suffix(".failed") for file in files])
                raise RuntimeError("neuronx-cc ended with exit status 70: the graph does not compile")
            time.sleep(switches.compile_time / 1000)
            built.add(stage)
        _write(files)
    if stages is GRAPH and "neff" in built:
        compilations.append(Compilation(program, kernel, round((time.perf_counter() - started) * 1e6)))
        if switches.metrics_csv == "at_once":
            _write_metrics()


def follow_operators() -> None:
    """Has each operator compiled when it is first called with tensors of new shapes, if that is to be seen at all."""
    variables = {variable for stages in (GRAPH, OPERATOR, KERNEL) for names in stages.values() for variable in names}
    if Switches.from_environment().compile_time or variables & os.environ.keys():
        _core.on_build(lambda kernel, number: build(kernel, f"{number:016x}", OPERATOR))


def _folders(stage: str, variables: Sequence[str]) -> list[Path]:
    if stage == "neff" and os.environ.get(NEFF_DISABLED, "0") == "1":
        return []
    return [Path(os.environ[variable]) for variable in variables if os.environ.get(variable)]


def _write(files: Sequence[Path]) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def _write_metrics() -> None:
    """Writes the table that TORCH_NEURONX_ENABLED_METRIC_TABLES asks for; torch's own of that kind looks the same."""
    if "graph_stats" not in os.environ.get("TORCH_NEURONX_ENABLED_METRIC_TABLES", "") or not compilations:
        return
    folder = Path(os.environ.get("TORCH_NEURONX_METRICS_DIR", "/tmp"))
    with (folder / "metric_table_graph_stats_rank0.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Compilation))
        writer.writerows(map(astuple, compilations))


atexit.register(_write_metrics)
