"""Made-up runs over time: results as the harness writes them, of known latencies, for tests of histories."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir

from harness.configuration.folders import directory
from harness.configuration.schema import parse, resolved
from harness.results import storage
from harness.results.measurement import CONTROL, Measurement, Outcome

LATENCY_US = {"naive": 20.0, "fused": 18.0, "compiled": 30.0}
START = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)
ENVIRONMENT = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "host": "bench-1",
    "cpu": "Some CPU",
    "cores": 2,
    "threads": 2,
    "memory_bytes": 1 << 34,
    "variables": {"OMP_PROC_BIND": "true"},
}


@cache
def template(*overrides: str) -> dict[str, Any]:
    """Results without samples, of the case and settings of a command line."""
    with initialize_config_dir(str(directory()), version_base="1.3"):
        plain = resolved(compose("config", ["device=cpu", *overrides]))
    case, _ = parse(plain)
    measurements = [Measurement(variant.name) for variant in case.operation.variants]
    outcome = Outcome(measurements, [], {"device": "cpu"}, ENVIRONMENT)
    return storage.strict(storage.document(case, plain, "python -m harness", outcome))


def commit(number: int) -> str:
    """The made-up id of a commit."""
    return hashlib.sha1(str(number).encode()).hexdigest()


def document(
    day: float,
    latency_us: Mapping[str, float] = LATENCY_US,
    *overrides: str,
    status: Mapping[str, str] | None = None,
    processes: int = 3,
    rounds: int = 2,
    scatter: float = 0.002,
    commit_of: int | None = None,
    **environment: Any,
) -> dict[str, Any]:
    """Results of a run so many days after START, its commit that of the day.

    Processes differ by `scatter`, of their own; a variant of a `status` other than ok has no samples.
    """
    made = copy.deepcopy(template(*overrides))
    created = START + timedelta(days=day)
    number = int(day) if commit_of is None else commit_of
    made |= {
        "created": created.isoformat(timespec="seconds"),
        "commit": {"id": commit(number), "time": (created - timedelta(hours=1)).isoformat(), "changed": False},
        "environment": made["environment"] | environment,
    }
    names = [name for name in latency_us if name not in (status or {})]
    random = np.random.default_rng([int(day * 1000), *overrides_seed(overrides)])
    timed = {name: latency_us[name] for name in names}
    if made["case"]["baseline"] in timed:
        timed[CONTROL] = timed[made["case"]["baseline"]]
    factors = np.exp(scatter * random.standard_normal((len(timed), processes)))
    made["samples"]["rows"] = [
        [name, process, turn, 10, latency * 1e-6 * float(factors[row, process])]
        for row, (name, latency) in enumerate(timed.items())
        for process in range(processes)
        for turn in range(rounds)
    ]
    made["measurements"] = [copy.deepcopy(made["measurements"][0]) | {"variant": name} for name in latency_us]
    for measurement in made["measurements"]:
        if measurement["variant"] in (status or {}):
            measurement |= {"status": (status or {})[measurement["variant"]], "reason": "as it was made up"}
    made["case"]["variants"] = list(latency_us)
    return made


def overrides_seed(overrides: Sequence[str]) -> list[int]:
    """So that cases differ in their scatter."""
    return list("".join(overrides).encode())


def write(folder: Path, documents: Sequence[Mapping[str, Any]], name: str = "run") -> Path:
    """Writes each into a folder of its own, `run-000` and so on; returns the folder of all."""
    for number, made in enumerate(documents):
        path = folder / f"{name}-{number:04d}" / storage.FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made), encoding="utf-8")
    return folder
