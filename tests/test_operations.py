"""The library through a measuring process's work: every operation, mode and dtype, on the CPU and a simulated core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import neuroncore
import pytest
from cli import QUICK, ROOT, in_process
from conftest import Shared
from measuring import HEAVY, SHORT, measured

from harness.configuration import compose
from harness.configuration.folders import options
from harness.configuration.operation import DTYPES, MODES
from harness.results.measurement import Measurement

OPS = [name for name in options("op", []) if "/" not in name]
COMPILED = "bfloat16"  # one dtype is enough to see that a graph is captured in each mode
# The other dtypes in the mode that checks the outputs and every gradient
WAYS = [(mode, COMPILED) for mode in MODES] + [("forward_backward", dtype) for dtype in DTYPES if dtype != COMPILED]
SHORTLY = ("forward_backward", COMPILED)


@cache
def configuration(op: str) -> dict[str, Any]:
    return compose.composed([f"op={op}", *SHORT])


def settings(op: str, mode: str, dtype: str, device: str) -> dict[str, Any]:
    """The configuration of a case at dims that a test can afford."""
    plain = deepcopy(configuration(op)) | {"mode": mode, "dtype": dtype, "device": device}
    most = 96 if device == "cpu" else 32  # blockwise attention has more than one block of 64 on the CPU
    plain["op"]["dims"] = {name: max(2, min(size, most)) for name, size in plain["op"]["dims"].items()}
    if dtype != COMPILED:
        plain["op"]["variants"].pop("compiled")
        plain["op"]["variants"].pop("nki_compiled", None)
    elif device == "cpu":  # captures as inductor does, and spares the time to generate code
        plain["op"]["variants"]["compiled"]["compile"] |= {"backend": "aot_eager"}
    return plain


def check(measurements: list[Measurement], mode: str, dtype: str, device: str) -> None:
    """Every variant is right and was seen by the profiler; a compiled one is a graph in each direction."""
    for row in measurements:
        if row.status == "skipped":
            elsewhere = row.variant.startswith("nki") and (device == "cpu" or dtype == "float64")
            assert elsewhere or (row.variant, device) == ("fused", "neuron"), row.reason
            continue
        assert (row.status, row.notes) == ("ok", []), (row.variant, row.reason)
        assert row.error is not None and row.error.allowed <= 1
        assert row.profile is not None and row.profile.operator_calls
        for compile in row.compiles:
            assert (compile.graphs, compile.graph_breaks, row.recompiles) == (1 + (mode != "forward"), 0, 0)


def marks(op: str, way: tuple[str, str]) -> list[pytest.MarkDecorator]:
    return [] if way == SHORTLY and op not in HEAVY else [pytest.mark.slow]


@pytest.mark.parametrize(
    ("op", "mode", "dtype"), [pytest.param(op, *way, marks=marks(op, way)) for op in OPS for way in WAYS]
)
def test_on_the_cpu(op: str, mode: str, dtype: str) -> None:
    measurements, warnings = measured(settings(op, mode, dtype, "cpu"))
    check(measurements, mode, dtype, "cpu")
    assert not [warning for warning in warnings if "op.work" in warning]


@pytest.fixture(scope="session")
def on_the_core(shared: Shared) -> Callable[[int], dict[str, list[dict[str, Any]]]]:
    """Every operation in one of WAYS, measured one after the other in one process on the simulated core."""
    try:
        variables = neuroncore.environment(default_cost=1)
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(ROOT), str(ROOT / "tests")])

    def make(way: int) -> dict[str, list[dict[str, Any]]]:
        command = [sys.executable, __file__, str(way)]
        done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return lambda way: shared(f"on_the_core_{way}", lambda folder: make(way))


@pytest.mark.slow  # tests/test_neuron.py measures RMSNorm there
@pytest.mark.parametrize("way", range(len(WAYS)), ids=["-".join(names) for names in WAYS])
@pytest.mark.parametrize("op", OPS)
def test_on_the_simulated_core(
    on_the_core: Callable[[int], dict[str, list[dict[str, Any]]]], op: str, way: int
) -> None:
    mode, dtype = WAYS[way]
    rows = [Measurement.from_json(row) for row in on_the_core(way)[op]]
    check(rows, mode, dtype, "neuron")
    assert all(row.profile.device_time_us for row in rows if row.profile is not None)


@pytest.mark.slow
def test_a_backward_pass_that_inductor_compiled(tmp_path: Path) -> None:
    """Its graph is kept and run again, which donated buffers would forbid."""
    ran = in_process("op=softmax", "mode=backward", "device=cpu", *QUICK, cwd=tmp_path)
    assert ran.status == 0, ran.err
    row = ran.rows["compiled"]
    assert (row["graphs"], row["graph_breaks"], row["recompiles"], row["operator_calls"]) == ("2", "0", "0", "1")
    assert "CompiledFunctionBackward" in ran.operators["compiled"]
    assert not [name for name in ran.operators["naive"] if name in ("aten::exp", "aten::amax")]  # forward is not timed


@pytest.mark.slow
def test_the_upstream_gradient_is_not_made_in_the_call(tmp_path: Path) -> None:
    ran = in_process("op=gelu", "mode=forward_backward", "variants=[naive,fused]", "device=cpu", *QUICK, cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert int(ran.rows["naive"]["operator_calls"]) > int(ran.rows["fused"]["operator_calls"]) == 2
    assert not [name for name in ran.operators["fused"] if "normal" in name]


def measure_all(mode: str, dtype: str) -> dict[str, list[dict[str, Any]]]:
    """What the fixture's process does: the measurements of each operation."""
    return {op: [asdict(row) for row in measured(settings(op, mode, dtype, "neuron"))[0]] for op in OPS}


if __name__ == "__main__":
    print(json.dumps(measure_all(*WAYS[int(sys.argv[1])])), flush=True)
    os._exit(0)  # autograd's threads may abort an interpreter that is taken down
