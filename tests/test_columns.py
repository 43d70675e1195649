"""Columns: one declaration, from which files, docs and tables derive."""

from __future__ import annotations

import copy
import csv
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import synthetic_results
from cli import QUICK, ROOT, Ran, run, table

from harness.devices import neuron_summary
from harness.measure.observations import CompileCost
from harness.report.tables import declared_tables
from harness.results import columns, storage, sweeps
from harness.results.column import Column
from harness.results.comparison import Comparison
from harness.results.measurement import Measurement

CONTRACT = (
    "op variant status reason device dtype mode dim_rows dim_hidden latency_us latency_lo_us latency_hi_us speedup "
    "speedup_lo speedup_hi verdict device_time_us self_cpu_us operator_calls device_executions compile_s graphs "
    "graph_breaks recompiles peak_memory_bytes max_error"
).split()

DECLARATION = """
MEASURED.append(
    Column("tensors", int, "tensors alive after a call", probe="harness.measure.tensors_alive:count", header="Tensors")
)
MEASURED.append(Column("broken", float, "a probe that raises", probe="harness.measure.tensors_alive:missing"))
MEASURED.append(Column("ns", float, "the latency in nanoseconds", lambda v: v.latency and v.latency.value * 1e9, "ns"))
"""
PROBE = (
    '"""Tensors alive."""\n\n\ndef count(call, device):\n    call()\n    return 3 if device.name == "cpu" else None\n'
)


def test_the_contract_comes_first_and_in_order() -> None:
    assert columns.names(columns.of_case(["rows", "hidden"]))[: len(CONTRACT)] == CONTRACT
    operators = ["variant", "operator", "calls", "self_cpu_us", "device_time_us", "device_pct"]
    assert columns.names(columns.OPERATORS) == operators


def test_names_are_unique() -> None:
    names = columns.names([*columns.CASE, *columns.MEASURED, *columns.SWEEP])
    assert len(names) == len(set(names))


def test_the_docs_hold_the_declaration() -> None:
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    update = "replace the tables of docs/files.md by what python -m harness.results.columns prints"
    assert columns.documentation() in text, update


def test_engine_columns_are_those_that_neuron_explorer_is_read_for() -> None:
    names = columns.names(columns.shown_in(columns.ENGINES))
    assert sorted(names) == sorted([*neuron_summary.COLUMNS, neuron_summary.THROTTLED])


def test_a_csv_is_read_as_it_was_written(main_job: Ran) -> None:
    comparison = Comparison(main_job.results)
    with (main_job.folder / "comparison.csv").open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        rows = columns.read_rows(lines, lines.fieldnames or ())
    assert rows == comparison.rows
    assert {name: type(value) for name, value in rows[2].items()} == {
        name: type(value) for name, value in comparison.rows[2].items()
    }


def test_texts_that_look_like_numbers_stay_texts() -> None:
    header = ["variant", "status", "latency_us", "graphs", "compile_cached", "dim_n", "unknown"]
    cells = dict(zip(header, ["1e3", "", "5", "2", "True", "4", "7"], strict=True))
    (row,) = columns.read_rows(iter([cells]), header)
    assert list(row.values()) == ["1e3", None, 5.0, 2, True, 4, "7"]
    assert isinstance(row["latency_us"], float)
    with pytest.raises(ValueError, match="ten"):
        columns.read_rows(iter([cells | {"graphs": "ten"}]), header)


def test_a_damaged_csv_is_made_again_from_results(main_job: Ran, tmp_path: Path) -> None:
    shutil.copy(main_job.folder / "results.json", tmp_path)
    (tmp_path / "comparison.csv").write_text("variant,graphs\nnaive,ten\n", encoding="utf-8")
    planned = synthetic_results.planned(main_job.results)
    assert [row["variant"] for row in sweeps.look(tmp_path.parent, planned(tmp_path.name)).rows] == [
        "naive", "fused", "compiled",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "swept"),
    [
        ("op", True), ("dtype", True), ("dim_rows", True), ("op.variants.fused.args.block", True),
        ("latency.cache", True), ("variant", False), ("latency_us", False), ("cache", False), ("case", False),
    ],
)  # fmt: skip
def test_swept_keys_are_what_may_tell_cases_apart(name: str, swept: bool) -> None:
    assert columns.swept(name) is swept


def test_a_measurement_is_read_from_json_as_it_was(main_job: Ran) -> None:
    for content in main_job.results["measurements"]:
        assert storage.strict(asdict(Measurement.from_json(content))) == content


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run of a copy of the harness in which columns were added: a declaration, and the file of the probe."""
    folder = tmp_path_factory.mktemp("extended")
    for name in ("harness", "conf", "variants", "hydra_plugins"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "harness" / "results" / "columns.py").open("a", encoding="utf-8") as file:
        file.write(DECLARATION)
    (folder / "harness" / "measure" / "tensors_alive.py").write_text(PROBE, encoding="utf-8")
    work = tmp_path_factory.mktemp("work")
    keys = ("device=cpu", "lock=none", "variants=[naive,fused]", "report.charts=[]")
    return run("op=rmsnorm", *QUICK, *keys, cwd=work, PYTHONPATH=str(folder))


def test_a_measured_column_is_a_declaration_and_a_probe(extended: Ran) -> None:
    assert extended.status == 0, extended.err
    rows = table(extended.folder / "comparison.csv")
    assert [row["tensors"] for row in rows] == ["3", "3"]
    assert float(rows[0]["ns"]) == pytest.approx(1e3 * float(rows[0]["latency_us"]))
    assert [row["probed"]["tensors"] for row in extended.results["measurements"]] == [3, 3]
    assert "Further measurements" in extended.out
    for file in ("comparison.md", "report.html"):
        assert "Tensors" in (extended.folder / file).read_text(encoding="utf-8")


def test_a_probe_that_raises_is_a_warning_of_its_variant(extended: Ran) -> None:
    assert [row["broken"] for row in table(extended.folder / "comparison.csv")] == ["", ""]
    assert "fused: broken was not measured: harness.measure.tensors_alive:missing raised AttributeError" in extended.err


def test_docs_show_a_new_column(monkeypatch: pytest.MonkeyPatch, main_job: Ran) -> None:
    new = Column("tensors", int, "tensors alive", probe="harness.measure.tensors_alive:count", table="Tensors")
    monkeypatch.setattr(columns, "MEASURED", [*columns.MEASURED, new])
    assert "| `tensors` |  | tensors alive |" in columns.documentation()
    document = copy.deepcopy(main_job.results)
    document["measurements"][0]["probed"] = {"tensors": 3}
    comparison = Comparison(document)
    assert [row["tensors"] for row in comparison.rows] == [3, None, None]
    (found,) = declared_tables(comparison, ["Tensors"])
    assert (found.headers, found.rows) == (["Variant", "tensors"], [["naive", "3"]])


@pytest.mark.parametrize(
    ("value", "accepted"), [(3, True), (None, True), (True, False), (3.5, False), ("3", False), ([3], False)]
)
def test_a_probe_returns_a_value_of_its_kind(value: Any, accepted: bool) -> None:
    assert Column("tensors", int, "").accepts(value) is accepted
    assert Column("time", float, "").accepts(3)


@pytest.mark.parametrize(
    ("first_cached", "later", "cached", "calls"),
    [
        (False, [], False, 200_000),
        (True, [], True, None),  # what a compile costs without a cache is not known
        (True, [0.1, 0.12], False, 200_000),  # the first took so much longer that it must have compiled
    ],
)
def test_a_warm_compile_does_not_tell_when_it_pays(
    first_cached: bool, later: list[float], cached: bool, calls: int | None
) -> None:
    costs = [CompileCost(1.0, first_cached, 1, 0), *(CompileCost(seconds, True, 1, 0) for seconds in later)]
    rounds = [["naive", 10e-6], ["compiled", 5e-6], ["(control)", 10e-6]]
    samples = [[name, process, turn, 1, s] for process in range(3) for turn in range(9) for name, s in rounds]
    rows = [synthetic_results.row("naive", None), synthetic_results.row("compiled", None)]
    document = synthetic_results.comparison(rows, samples={"rows": samples}).document
    document["measurements"][1]["compiles"] = [asdict(cost) for cost in costs]
    row = Comparison(document).rows[1]
    assert row["verdict"] == "faster"
    assert (row["compile_cached"], row["break_even_calls"]) == (cached, calls)
