"""Compiling on device=neuron: graphs that fail, what a failure leaves behind, caches, and what is built unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli import Ran, table
from neuron_runner import on_core

from harness.devices.neuron_compiles import CACHES

PAIR = "variants=[naive,compiled]"
VARIABLE = "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"


def statuses(ran: Ran) -> dict[str, str]:
    return {name: row["status"] for name, row in ran.rows.items()}


@pytest.mark.parametrize("fails", ["compile_fails", pytest.param("execution_fails", marks=pytest.mark.slow)])
@pytest.mark.parametrize("variable", [None, pytest.param("1", marks=pytest.mark.slow)], ids=["unset", "1"])
def test_a_graph_that_fails_is_a_failed_row(tmp_path: Path, fails: str, variable: str | None) -> None:
    """Even where torch-neuronx would by itself run it eagerly, as its default was: the harness sets the variable."""
    variables = {} if variable is None else {VARIABLE: variable}
    ran = on_core(PAIR, cwd=tmp_path, falls_back=variable is None, **{fails: True}, **variables)
    assert ran.status == 1
    assert statuses(ran) == {"naive": "ok", "compiled": "failed"}
    wanted = {"compile_fails": "BackendCompilerFailed", "execution_fails": "nrt_execute failed with status 1006"}
    assert wanted[fails] in ran.rows["compiled"]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["execution_fails", "compile_fails"])
@pytest.mark.parametrize("way", ["variable", "option"])
def test_a_graph_that_is_allowed_to_run_eagerly_is_degraded_where_it_does(tmp_path: Path, fails: str, way: str) -> None:
    """The run is refused, unless its user insists; then what ran within the compiled region gives it away."""
    option = ["+op.variants.compiled.compile.options.fallback_execution=true"] if way == "option" else []
    variables = {VARIABLE: "0"} if way == "variable" else {}
    ran = on_core(PAIR, "doctor=warn", *option, cwd=tmp_path, **{fails: True}, **variables)
    assert ran.status == 1
    assert statuses(ran) == {"naive": "ok", "compiled": "degraded"}
    reason = ran.rows["compiled"]["reason"]
    assert reason.startswith("its graph failed and was run eagerly: aten::mul, aten::mean, aten::add, aten::rsqrt ran")
    assert VARIABLE in reason
    assert ran.rows["compiled"]["verdict"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["[compiled,naive,fused]", "[naive,compiled,fused]"])
def test_a_failure_that_lingers_in_its_process_is_not_blamed_on_others(tmp_path: Path, order: str) -> None:
    """The next operation after a failed compile raises: the others are measured in a process of their own."""
    ran = on_core(f"variants={order}", cwd=tmp_path, compile_fails=True, compile_poisons=True)
    assert ran.status == 1
    assert statuses(ran) == {"compiled": "failed", "naive": "ok", "fused": "ok"}
    assert "the graph does not compile" in ran.rows["compiled"]["reason"]
    assert {row["process"] for row in table(ran.folder / "samples.csv")} == {"1"}, "the second process"
    assert float(ran.rows["fused"]["device_time_us"]) == pytest.approx(403.3, abs=0.001)


@pytest.mark.slow
def test_an_error_that_a_variant_hides_is_its_own(tmp_path: Path) -> None:
    """It catches the failure of its compile, and what that leaves behind shows before its turn ends."""
    (tmp_path / "hiding.py").write_text(
        "import contextlib, torch\n"
        "def rms(x, weight):\n"
        "    y = torch.rms_norm(x, [x.shape[-1]], weight, 1e-6)\n"
        "    with contextlib.suppress(Exception):\n"
        "        torch.compile(lambda t: t * 3, backend='neuron')(y)\n"
        "    return y\n"
    )
    ran = on_core(
        "variants=[naive,hiding,fused]",
        "+op.variants.hiding.fn=hiding.rms",
        cwd=tmp_path,
        compile_fails=True,
        compile_poisons=True,
    )
    assert statuses(ran) == {"naive": "ok", "hiding": "failed", "fused": "ok"}
    assert "an earlier compile in this process failed" in ran.rows["hiding"]["reason"]


@pytest.mark.slow
def test_what_a_probe_leaves_behind_is_not_blamed_on_others(tmp_path: Path) -> None:
    """It fails on tiny inputs alone, by a compile; naive and fused are tried on them in a process without it."""
    (tmp_path / "picky.py").write_text(
        "import torch\n"
        "def rms(x, weight):\n"
        "    y = torch.rms_norm(x, [x.shape[-1]], weight, 1e-6)\n"
        "    return torch.compile(lambda t: t * 3, backend='neuron')(y) if x.abs().max() < 0.1 else y\n"
    )
    ran = on_core(
        "variants=[naive,picky,fused]",
        "+op.variants.picky.fn=picky.rms",
        cwd=tmp_path,
        compile_fails=True,
        compile_poisons=True,
    )
    assert statuses(ran) == {"naive": "ok", "picky": "failed", "fused": "ok"}
    assert re.search("raises .* on the probe tiny: .*the graph does not compile", ran.rows["picky"]["reason"])
    assert "earlier compile" not in ran.out + ran.err


@pytest.mark.slow
def test_cold_caches_are_empty_and_leave_the_users_alone(tmp_path: Path) -> None:
    """A failed compile stays in a cache: it is overcome only if no cache that holds it is read."""
    caches = {name: str(tmp_path / "caches" / name) for name in CACHES}
    failed = on_core("variants=[naive,nki,compiled]", cwd=tmp_path, compile_fails=True, **caches)
    assert "neuronx-cc ended with exit status 70" in failed.rows["compiled"]["reason"]
    kept = sorted((tmp_path / "caches").rglob("*.*"))
    assert {path.suffix for path in kept} == {".failed", ".hlo", ".neff", ".trace", ".nki"}
    again = on_core(PAIR, cwd=tmp_path, **caches)
    assert "has failed to compile before" in again.rows["compiled"]["reason"]
    assert "compiled: a compile that failed is cached: once its cause is mended" in again.err
    cold = on_core(PAIR, "worker.compile_cache=cold", cwd=tmp_path, **caches)
    assert statuses(cold) == {"naive": "ok", "compiled": "ok"}
    assert cold.rows["compiled"]["compile_cached"] == "False"
    used = cold.results["environment"]["variables"]
    assert all(used[name] != folder for name, folder in caches.items())
    assert sorted((tmp_path / "caches").rglob("*.*")) == kept


@pytest.mark.slow
def test_a_graph_from_a_warm_cache_is_told_from_one_that_was_built(tmp_path: Path) -> None:
    caches = {name: str(tmp_path / name) for name in CACHES}
    built, found = (on_core(PAIR, cwd=tmp_path, **caches).rows["compiled"] for _ in range(2))
    assert (built["compile_cached"], found["compile_cached"]) == ("False", "True")


def test_a_cache_that_is_named_is_not_emptied(tmp_path: Path) -> None:
    named = f"worker.env.TORCH_NEURONX_HLO_CACHE_DIR={tmp_path}"
    ran = on_core(PAIR, "worker.compile_cache=cold", named, cwd=tmp_path)
    assert ran.status == 2
    assert "worker.compile_cache=cold" in ran.error
    assert named.partition("=")[0] in ran.error


@pytest.mark.slow
@pytest.mark.parametrize("metrics_csv", ["at_once", "at_exit"])
def test_what_the_compiler_builds_while_timed_is_a_recompile(tmp_path: Path, metrics_csv: str) -> None:
    """Dynamo knows nothing of it; torch.neuron's list does, and so does the table of an older torch-neuronx."""
    (tmp_path / "older.py").write_text(
        "import torch\nfrom variants.rmsnorm import inputs\ndel torch.neuron.get_dynamo_metrics\n"
    )
    older = ["op.inputs=older.inputs"] if metrics_csv == "at_once" else []
    ran = on_core(PAIR, *older, cwd=tmp_path, rebuild_every=2, metrics_csv=metrics_csv)
    assert statuses(ran) == {"naive": "ok", "compiled": "degraded"}
    assert int(ran.rows["compiled"]["recompiles"]) > 0
    assert "of which Dynamo knows nothing" in ran.rows["compiled"]["reason"]


@pytest.mark.slow
def test_compiles_that_end_before_timing_are_no_recompiles(tmp_path: Path) -> None:
    ran = on_core(PAIR, cwd=tmp_path, metrics_csv="at_once")
    assert statuses(ran) == {"naive": "ok", "compiled": "ok"}
    assert (ran.rows["compiled"]["graphs"], ran.rows["compiled"]["recompiles"]) == ("1", "0")
