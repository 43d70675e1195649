"""The program as a user runs it: a process, its exit status, its files."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

# One short process in place of several: for tests that look at anything but statistics
QUICK = ("latency.processes=1", "latency.max_processes=1", "latency.seconds=0.05")
# The same within the tests' own process, beside which others run
BRIEF = ("device=cpu", "worker.threads=1", "lock=none", *QUICK[:2], "latency.seconds=0.01")


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
        return Path(line.removeprefix("Results: "))

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
