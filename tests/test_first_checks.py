"""benchmarks/neuron_first_checks.py on the simulated core: where nothing differs, and where something does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import neuroncore
import pytest
from cli import ROOT, strict_json

pytestmark = pytest.mark.slow


def checked(folder: Path, status: int, variables: dict[str, str] | None = None, **switches: Any) -> dict[str, Any]:
    """What first_checks.json says: by assumption the mark, `holds`, `DIFFERS` or `unseen`."""
    try:
        environment = neuroncore.environment(**switches)
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "neuron_first_checks.py"), str(folder / "checks")],
        env={**os.environ, **environment, **neuroncore.explorer_environment("flat"), **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    seen = strict_json(folder / "checks" / "first_checks.json")
    return {name: found["mark"] for name, found in seen.items() if isinstance(found, dict)}


def test_nothing_differs_on_two_physical_cores_with_all_that_may_happen(tmp_path: Path) -> None:
    """First executions, throttling and a failure that lingers are seen where they are."""
    marks = checked(
        tmp_path,
        0,
        {"NEURON_LOGICAL_NC_CONFIG": "2"},
        first_execution=1000,
        throttle=1.5,
        compile_poisons=True,
    )
    unseen = {name for name, mark in marks.items() if mark == "unseen"}
    assert unseen == {
        "NeuronConfig's signature has all documented arguments",
        "gather by int64 is far slower than by int32",
    }


def test_what_differs_is_named(tmp_path: Path) -> None:
    """Six operators in one execution are as many as the fused one; a capture without NEFFs is not whole."""
    marks = checked(tmp_path, 1, capture="no_neff", join=6)
    assert {name for name, mark in marks.items() if mark == "DIFFERS"} == {
        "the capture is whole",
        "neuron-explorer writes Parquet tables where it is told to",
        "the fused RMSNorm is fewer executions than the naive one",
    }
