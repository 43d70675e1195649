"""The main job: what `python -m harness op=rmsnorm` prints and leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli import QUICK, Ran, in_process, run, strict_json

from harness.results import columns

CONTRACT = (
    "op,variant,status,reason,device,dtype,mode,dim_rows,dim_hidden,latency_us,latency_lo_us,latency_hi_us,speedup,"
    "speedup_lo,speedup_hi,verdict,device_time_us,self_cpu_us,operator_calls,device_executions,compile_s,graphs,"
    "graph_breaks,recompiles,peak_memory_bytes,max_error"
).split(",")


def test_counts_are_those_of_the_operation(main_job: Ran) -> None:
    calls = {name: row["operator_calls"] for name, row in main_job.rows.items()}
    assert calls == {"naive": "6", "fused": "1", "compiled": "1"}
    assert main_job.operators["naive"]["aten::mul"]["calls"] == "3"
    assert all(row["status"] == "ok" for row in main_job.rows.values())


@pytest.mark.slow  # test_counts_are_those_of_the_operation tells those of the default
@pytest.mark.parametrize("active", [1, 7, 50])
def test_counts_are_per_call_whatever_is_recorded(main_job: Ran, tmp_path: Path, active: int) -> None:
    ran = in_process("device=cpu", f"profile.active={active}", "variants=[naive,fused]", *QUICK, cwd=tmp_path)
    assert {name: row["operator_calls"] for name, row in ran.rows.items()} == {"naive": "6", "fused": "1"}
    assert {name: row["calls"] for name, row in ran.operators["naive"].items()} == {
        name: row["calls"] for name, row in main_job.operators["naive"].items()
    }
    for measurement in ran.results["measurements"]:
        assert measurement["profile"]["active"] == active
    trace = strict_json(ran.folder / "traces" / "naive" / "trace.json")
    assert sum(event.get("name") == "harness.call" for event in trace["traceEvents"]) == active


def test_compiled_time_is_not_lost(main_job: Ran) -> None:
    """On the CPU a compiled call has no aten rows; its time is in its region and what that calls."""
    trace = strict_json(main_job.folder / "traces" / "compiled" / "trace.json")["traceEvents"]
    regions = [event["dur"] for event in trace if event["name"] == "Torch-Compiled Region: 0/0"]
    calls = [event["dur"] for event in trace if event["name"] == "harness.call"]
    assert min(regions) <= float(main_job.rows["compiled"]["self_cpu_us"]) <= max(calls)
    assert "Torch-Compiled Region: 0/0" in main_job.operators["compiled"]


def test_files_and_columns_are_the_contract(main_job: Ran) -> None:
    files = {path.name for path in main_job.folder.iterdir()}
    assert {
        "comparison.csv",
        "operators.csv",
        "samples.csv",
        "results.json",
        "comparison.md",
        "comparison.png",
    } <= files
    header = (main_job.folder / "comparison.csv").read_text().splitlines()[0].split(",")
    assert header[: len(CONTRACT)] == CONTRACT
    assert header == columns.names(columns.of_case(["rows", "hidden"]))
    first = (main_job.folder / "operators.csv").read_text().splitlines()[0]
    assert first == "variant,operator,calls,self_cpu_us,device_time_us,device_pct"
    for name in main_job.rows:
        assert json.loads((main_job.folder / "traces" / name / "trace.json").read_text())["traceEvents"]


def test_unknown_values_are_empty_cells(main_job: Ran) -> None:
    text = (main_job.folder / "comparison.csv").read_text()
    assert "None" not in text
    assert "nan" not in text
    assert all(row["device_time_us"] == "" for row in main_job.rows.values())
    assert main_job.rows["naive"]["compile_s"] == ""


def test_results_hold_everything(main_job: Ran) -> None:
    results = main_job.results
    assert results["schema_version"] == 2
    assert results["case"]["dims"] == {"rows": 4, "hidden": 512}
    assert results["config"]["op"]["variants"]["compiled"]["compile"] == {"fullgraph": True}
    assert results["environment"]["torch"].startswith("2.")
    assert results["environment"]["variables"]["MALLOC_MMAP_THRESHOLD_"]
    sampled = {row[0] for row in results["samples"]["rows"]}
    assert sampled == {"naive", "fused", "compiled", "(control)"}


def test_operators_are_sorted_and_sum_to_the_comparison(main_job: Ran) -> None:
    for name, rows in main_job.operators.items():
        times = [float(row["self_cpu_us"]) for row in rows.values()]
        assert times == sorted(times, reverse=True)
        assert sum(times) == pytest.approx(float(main_job.rows[name]["self_cpu_us"]))


def test_tables_go_to_stdout_and_nothing_else_does(main_job: Ran) -> None:
    assert "aten::mul" in main_job.out
    assert "Speedup" in main_job.out
    assert re.search(r"^Results: outputs/\S+$", main_job.out, re.M)
    assert "USDT" not in main_job.out + main_job.err
    markdown = (main_job.folder / "comparison.md").read_text()
    assert "| Variant | Latency | Speedup |" in markdown


@pytest.mark.slow  # the commands of the documentation do the same
def test_dims_dtype_and_an_outside_variant(tmp_path: Path) -> None:
    (tmp_path / "my_package.py").write_text(
        "import torch\n"
        "def fast(x, weight, scale=1.0):\n"
        "    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6) * scale\n"
    )
    ran = in_process(
        "op.dims.hidden=1024",
        "dtype=float32",
        "variants=[naive,mine,scaled]",
        "+op.variants.mine.fn=my_package.fast",
        "+op.variants.scaled.fn=my_package.fast",
        "+op.variants.scaled.args.scale=1.5",
        *QUICK,
        cwd=tmp_path,
    )
    assert ran.status == 1
    assert ran.rows["mine"]["status"] == "ok"
    assert ran.rows["mine"]["dim_hidden"] == "1024"
    assert ran.rows["mine"]["dtype"] == "float32"
    assert ran.rows["scaled"]["status"] == "wrong"
    assert ran.rows["scaled"]["verdict"] == ran.rows["scaled"]["speedup"] == ""


def test_environment_of_the_worker_is_set_before_torch(tmp_path: Path) -> None:
    ran = run("worker.env.OMP_NUM_THREADS=1", "device=cpu", "variants=[naive]", *QUICK, cwd=tmp_path)
    assert ran.results["environment"]["threads"] == 1
    assert ran.results["environment"]["variables"]["OMP_NUM_THREADS"] == "1"


@pytest.mark.slow
def test_requirements_skip_with_the_reason(tmp_path: Path) -> None:
    ran = in_process(
        "device=cpu",
        "variants=[naive,fused,compiled]",
        "+op.variants.fused.requires=[no_such_module]",
        "+op.variants.compiled.devices=[neuron]",
        *QUICK,
        cwd=tmp_path,
    )
    assert ran.status == 0
    assert ran.rows["fused"]["status"] == "skipped"
    assert "no_such_module" in ran.rows["fused"]["reason"]
    assert ran.rows["compiled"]["reason"] == "only for neuron, not cpu"


def test_the_command_line_never_imports_torch(main_job: Ran) -> None:
    """It would cost as much as the measuring process's own start."""
    assert (main_job.cwd / "imported.txt").read_text().strip() == "False"
