"""Storage: the files of a run's folder, written so that a kill at any time loses nothing finished."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

from harness import __version__
from harness.configuration.errors import UsageError
from harness.configuration.operation import Case
from harness.results.measurement import Outcome

SCHEMA_VERSION = 2  # of results.json
FILE = "results.json"  # written last: a folder that has it is complete
FAILURE = "failure.json"  # of a case that could not be measured at all, in place of results
SWEEP = "sweep.json"  # at the top of a sweep's folder, written before its first case runs
LEFT_BY_A_RUN = (FILE, "worker.log", "traces", "comparison.csv")  # one of them is there after a kill at any instant

Document = dict[str, Any]
GIT_TIMEOUT_S = 10.0  # of git, as on a network file system


def document(case: Case, config: Mapping[str, Any], command: str, outcome: Outcome) -> Document:
    """A run as plain values: its case and configuration, commit and environment, and the measurements."""
    operation = case.operation
    return {
        "schema_version": SCHEMA_VERSION,
        "harness": __version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "commit": commit(Path.cwd()),
        "case": {
            "op": operation.name,
            "dims": dict(operation.dims),
            "dtype": case.dtype,
            "device": outcome.device.get("device", case.device),
            "mode": case.mode,
            "seed": case.seed,
            "baseline": operation.baseline,
            "variants": [measurement.variant for measurement in outcome.measurements],
        },
        "config": config,
        "device": outcome.device,
        "environment": outcome.environment,
        "environments": outcome.environments,
        "machine": outcome.machine,
        "work": outcome.work,
        "stopped": outcome.stopped,
        "warnings": outcome.warnings,
        "measurements": [asdict(measurement) for measurement in outcome.measurements],
        "samples": {
            "columns": ["variant", "process", "round", "calls", "seconds", "yardstick", "waited", "slice"],
            "rows": [list(sample) for sample in outcome.samples],
        },
        "device_samples": {
            "columns": ["variant", "process", "call", "seconds"],
            "rows": [list(sample) for sample in outcome.device_samples],
        },
    }


def write(folder: Path, content: Document) -> None:
    """Writes results.json, strictly: a number that is not finite becomes null."""
    with atomic(folder / FILE) as file:
        json.dump(strict(content), file, allow_nan=False, ensure_ascii=False, indent=1)


def read(path: Path) -> Document:
    """The results in a run's folder, or in a copy of its results.json under any name.

    Raises UsageError if there are none, or if another version of the harness wrote them otherwise.
    """
    missing = f"no {FILE} there" if path.is_dir() else "no such file or folder"
    file = path / FILE if path.is_dir() else path
    return versioned(file, SCHEMA_VERSION, f"{path}: {missing}; a run's folder is one of outputs/DATE/TIME")


def holds_run(folder: Path) -> bool:
    """Whether a run has left anything in a folder, however it ended: another must not be mixed with it."""
    return any((folder / name).exists() for name in LEFT_BY_A_RUN)


def versioned(file: Path, version: int, missing: str) -> Any:
    """The content of a JSON file with a `schema_version`.

    Raises UsageError if there is none, which `missing` says, or if another version of the harness wrote it.
    """
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(missing) from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    try:
        return parsed(content, version)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def parsed(content: bytes, version: int) -> Any:
    """JSON of such a `schema_version`; raises UsageError if it is damaged or of another version."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot be read: {error}") from error
    written = value.get("schema_version") if isinstance(value, dict) else None
    if written != version:
        raise UsageError(f"schema_version {written}, where this harness reads {version}")
    return value


def write_table(path: Path, columns: list[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes a CSV; an unknown value is an empty cell."""
    with atomic(path) as file:
        writer = csv.DictWriter(file, columns, extrasaction="raise", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[TextIO]:
    """A text file that appears whole or not at all; an OSError names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # an error of a full disk has no name, and the temporary file's is of no use
        raise


def strict(value: Any) -> Any:
    """The value with every number that JSON cannot hold replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(inner) for inner in value]
    return value


def commit(folder: Path) -> dict[str, Any] | None:
    """What the repository around a folder is at, as results record it.

    `id`, `time` (of the committer, ISO 8601) and whether tracked files were `changed` since. None outside a
    repository, before its first commit, and without git.
    """
    shown = _git(folder, "show", "--no-patch", "--no-show-signature", "--format=%H %cI", "HEAD")
    if shown is None:
        return None
    identity, _, time = shown.strip().partition(" ")
    status = _git(folder, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    return {"id": identity, "time": time, "changed": bool(status)}


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return value


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
