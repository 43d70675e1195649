"""What the benchmarks share: runs of the harness and of scripts, and the printing of figures."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # the harness need not be installed


def environment(**variables: str) -> dict[str, str]:
    """Lets a program import the harness and the benchmarks' own variants from any folder."""
    path = os.pathsep.join([str(ROOT), str(HERE)])
    return {**os.environ, "CI": "true", "PYTHONPATH": path, **variables}


def compare(*overrides: str, **variables: str) -> dict[str, dict[str, str]]:
    """Runs the harness at its default settings except for `overrides`; returns its comparison.csv by variant.

    `variables` are set in its environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "harness", *overrides, f"hydra.run.dir={folder}/run"]
        done = subprocess.run(
            command, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        with (Path(folder) / "run" / "comparison.csv").open(newline="") as file:
            return {row["variant"]: row for row in csv.DictReader(file)}


def timed(command: list[str], folder: Path, **variables: str) -> float:
    """Wall seconds of a program that runs in a folder, with further `variables` in its environment."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment(**variables), capture_output=True, check=True)
    return time.perf_counter() - start


def script(name: str, *arguments: str) -> Any:
    """Runs a script of this folder in a fresh process; returns the JSON of its last line."""
    command = [sys.executable, str(HERE / name), *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def options(description: str, runs: int, minimum: int = 1) -> argparse.Namespace:
    """The command line of a benchmark: how many runs, at least `minimum`, and where its JSON goes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=runs, help="fresh runs of each program (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    if args.runs < minimum:
        parser.error(f"--runs={args.runs}: expected {minimum} or more")
    return args


def report(figures: dict[str, Any], path: Path | None) -> None:
    """Prints the figures as JSON, and writes them to `path` if given."""
    text = json.dumps(figures, indent=1)
    print(text)
    if path is not None:
        path.write_text(text + "\n")


def progress(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)
