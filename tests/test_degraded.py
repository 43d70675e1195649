"""Rows that ran, but not as declared, say so; and what compiling costs stands apart from what is timed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import QUICK, ROOT, Ran, in_process, run
from conftest import Shared


def compiled(cwd: Path, function: str, *arguments: str) -> Ran:
    return in_process(
        "device=cpu",
        "variants=[naive,mine]",
        f"+op.variants.mine.fn={function}",
        "+op.variants.mine.compile.fullgraph=false",
        *arguments,
        *QUICK,
        cwd=cwd,
    )


@pytest.mark.slow
def test_the_recompile_limit_is_named(tmp_path: Path) -> None:
    ran = compiled(tmp_path, "adversarial_variants.recompiles_always")
    assert ran.status == 1
    row = ran.rows["mine"]
    assert row["status"] == "degraded"
    assert "recompile limit" in row["reason"]
    assert row["verdict"] == ""


@pytest.mark.slow
def test_what_dynamo_leaves_alone_is_not_compiled(tmp_path: Path) -> None:
    row = compiled(tmp_path, "adversarial_variants.never_compiles").rows["mine"]
    assert row["status"] == "degraded"
    assert "eager" in row["reason"]
    assert row["graphs"] == "0"


@pytest.mark.slow
def test_a_dynamic_kernel_is_right_if_declared(tmp_path: Path) -> None:
    row = compiled(tmp_path, "variants.rmsnorm.naive", "+op.variants.mine.compile.dynamic=true").rows["mine"]
    assert row["status"] == "ok"
    assert row["graphs"] == "1"


@pytest.fixture(scope="module")
def cold(shared: Shared) -> Ran:
    """Two processes, of which the first finds inductor's cache empty."""
    return shared(
        "cold",
        lambda folder: run(
            "device=cpu",
            "variants=[naive,compiled]",
            f"worker.env.TORCHINDUCTOR_CACHE_DIR={folder / 'cache'}",
            *QUICK,
            "latency.processes=2",
            "latency.max_processes=2",
            cwd=folder,
        ),
    )


@pytest.mark.slow
def test_an_empty_cache_costs_a_compile_that_does_not_count_as_cached(cold: Ran) -> None:
    (compiled,) = [row for row in cold.results["measurements"] if row["variant"] == "compiled"]
    first, second, *_ = compiled["compiles"]
    assert (first["cached"], second["cached"]) == (False, True)
    row = cold.rows["compiled"]
    assert row["compile_cached"] == "False"
    assert float(row["compile_s"]) == pytest.approx(first["seconds"])
    assert float(row["compile_warm_s"]) == pytest.approx(second["seconds"])
    assert row["recompiles"] == "0"


def test_a_cold_data_cache_is_reported_in_every_row(tmp_path: Path) -> None:
    """Caches are emptied before each timed call, which takes longer than it, and counts for nothing else."""
    cold = in_process("device=cpu", "variants=[naive,fused]", "latency.cache=cold", *QUICK, cwd=tmp_path)
    assert {(row["cache"], row["status"]) for row in cold.rows.values()} == {("cold", "ok")}
    assert {row[3] for row in cold.results["samples"]["rows"]} == {1}


@pytest.mark.slow
def test_many_compiled_variants_of_one_function_are_all_compiled(tmp_path: Path) -> None:
    """Dynamo counts its recompile limit by code object: ten variants of one function must not share it."""
    names = [f"v{number}" for number in range(10)]
    ran = in_process(
        "device=cpu",
        f"variants=[naive,{','.join(names)}]",
        *(f"+op.variants.{name}.fn=adversarial_variants.counts_up" for name in names),
        *(f"+op.variants.{name}.compile.fullgraph=true" for name in names),
        *QUICK,
        cwd=tmp_path,
    )
    assert ran.status == 0
    assert {(ran.rows[name]["status"], ran.rows[name]["graphs"]) for name in names} == {("ok", "1")}


@pytest.mark.slow
def test_who_recompiles_is_the_one_degraded(tmp_path: Path) -> None:
    ran = run(
        "device=cpu",
        "variants=[naive,compiled,mine]",
        "+op.variants.mine.fn=adversarial_variants.recompiles_always",
        "+op.variants.mine.compile.dynamic=false",
        *QUICK,
        cwd=tmp_path,
        PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}",
        TORCH_LOGS="recompiles",
    )
    assert {name: row["status"] for name, row in ran.rows.items()} == {
        "naive": "ok",
        "compiled": "ok",
        "mine": "degraded",
    }
    assert ran.rows["compiled"]["recompiles"] == "0"
    log = (ran.folder / "worker.log").read_text()
    assert "Recompiling function recompiles_always" in log
    assert "Recompiling function naive" not in log
