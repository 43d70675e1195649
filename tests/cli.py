"""The program as a user runs it: its exit status, what it prints, its files; as a process or within this one."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import os
import runpy
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobRuntime
from hydra.version import VersionBase

ROOT = Path(__file__).parent.parent

# Peaks so high that no variant comes near, and none are measured
PEAKS = ("roofline.flops_per_s=1e15", "roofline.bytes_per_s=1e15")
# One short process in place of several: for tests that look at anything but statistics. QUICK draws no chart, and is on
# one thread: those of two tests at a time would wait for each other's.
SHORT = ("latency.processes=1", "latency.max_processes=1", "latency.seconds=0.05", "latency.wait=0")
QUICK = (*SHORT, *PEAKS, "report.charts=[]", "worker.threads=1")
# The same for `compare`, on one thread
BRIEF = ("device=cpu", "worker.threads=1", "lock=none", *SHORT[:2], "latency.seconds=0.01", "report.charts=[]")

HYDRAS_OWN = (GlobalHydra, HydraConfig, JobRuntime, VersionBase)  # what Hydra keeps for a process


@dataclass
class Ran:
    """What a run of the program left."""

    status: int
    out: str
    err: str
    cwd: Path

    @property
    def error(self) -> str:
        """The one line that a usage error is; fails where there is more, or a traceback."""
        assert "Traceback" not in self.err, self.err
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]

    @cached_property
    def folder(self) -> Path:
        """The folder of the run's results."""
        line = next(line for line in self.out.splitlines() if line.startswith("Results: "))
        return self.cwd / line.removeprefix("Results: ")

    @cached_property
    def rows(self) -> dict[str, dict[str, str]]:
        """comparison.csv by variant."""
        return {row["variant"]: row for row in table(self.folder / "comparison.csv")}

    @cached_property
    def operators(self) -> dict[str, dict[str, dict[str, str]]]:
        """operators.csv by variant and operator."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        for row in table(self.folder / "operators.csv"):
            found.setdefault(row["variant"], {})[row["operator"]] = row
        return found

    @cached_property
    def results(self) -> dict[str, Any]:
        """results.json, read as strictly as JSON is defined."""
        return strict_json(self.folder / "results.json")


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def strict_json(path: Path) -> Any:
    """A JSON file, refusing NaN and infinity."""

    def refuse(text: str) -> None:
        raise ValueError(f"{path}: {text} is not JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def run(
    *arguments: str,
    cwd: Path,
    module: str = "harness",
    timeout: float = 300,
    stdout: Any = subprocess.PIPE,
    **variables: str,
) -> Ran:
    """Runs `python -m MODULE ARGUMENTS` in `cwd`, with these environment variables besides."""
    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(cwd), **variables}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout or "", done.stderr, cwd)


def in_process(*arguments: str, cwd: Path, module: str = "harness", **variables: str) -> Ran:
    """Runs `python -m MODULE ARGUMENTS` in `cwd` within this process, which has the imports and the fork server warm.

    For what is not about processes: it costs a tenth of one. The measuring processes are the program's own, and find
    modules in `cwd` and in tests/. The fork server keeps the environment of the first run: `variables` reach only the
    command line, and the processes of a device that spawns them.
    """
    out, err = io.StringIO(), io.StringIO()
    path = variables.get("PYTHONPATH", "")
    with (
        _as_found(cwd),
        mock.patch.dict(os.environ, {"CI": "true", **variables}),
        mock.patch.object(sys, "argv", [module, *arguments]),
        mock.patch.object(sys, "path", [str(cwd), *filter(None, path.split(os.pathsep)), *sys.path]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Ran(status, out.getvalue(), err.getvalue(), cwd)


@contextlib.contextmanager
def _as_found(cwd: Path) -> Iterator[None]:
    """Works in `cwd`, and puts back what Hydra sets for a whole process."""
    root, before = logging.getLogger(), Path.cwd()
    handlers, level = root.handlers[:], root.level
    instances: dict[type, Any] = Singleton._instances
    kept = {kind: instances.pop(kind) for kind in HYDRAS_OWN if kind in instances}
    os.chdir(cwd)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)  # runpy: it is imported
            yield
    finally:
        os.chdir(before)
        for kind in HYDRAS_OWN:
            instances.pop(kind, None)
        instances.update(kept)
        root.handlers[:] = handlers
        root.setLevel(level)


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Until the condition holds; fails where it does not within these seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
