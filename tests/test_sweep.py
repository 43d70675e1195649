"""Sweeps: what is run, what is refused before anything runs, and the one table that comes out."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic_results
from cli import QUICK, ROOT, Ran, in_process, run, table
from conftest import Shared
from in_process import say

from harness.configuration.errors import UsageError
from harness.configuration.overrides import quoted
from harness.report.sweep_report import collect
from harness.results import columns, plan, sweeps

TWO = ("device=cpu", "variants=[naive,fused]", *QUICK)


@pytest.fixture(scope="module")
def swept(shared: Shared) -> Ran:
    """Two operations with different dims, at two sizes each."""

    def make(folder: Path) -> Ran:
        ran = in_process("-m", "op=softmax,rmsnorm", "op.dims.rows=4,2", *TWO, "report.charts=null", cwd=folder)
        assert ran.status == 0, ran.err
        return ran

    return shared("swept", make)


@pytest.fixture
def copy(swept: Ran, tmp_path: Path) -> Path:
    """A copy of that sweep's folder, to spoil."""
    return shutil.copytree(swept.cwd / swept.folder, tmp_path / "sweep")


def rows_of(ran: Ran) -> list[dict[str, str]]:
    return table(ran.cwd / ran.folder / "sweep.csv")


def test_one_table_holds_all_cases(swept: Ran) -> None:
    folder = swept.cwd / swept.folder
    with (folder / "sweep.csv").open(newline="") as file:
        assert next(csv.reader(file)) == [*columns.names(columns.of_case(["rows", "columns", "hidden"])), "case"]
    rows = rows_of(swept)
    assert [(row["op"], row["dim_rows"], row["variant"]) for row in rows] == [
        (op, size, variant) for op in ("softmax", "rmsnorm") for size in "42" for variant in ("naive", "fused")
    ]
    for row in rows:
        assert (row["dim_columns"] == "") == (row["op"] == "rmsnorm")
        assert (row["dim_hidden"] == "") == (row["op"] == "softmax")
        case = {one["variant"]: one for one in table(folder / row["case"] / "comparison.csv")}[row["variant"]]
        assert {key: row[key] for key in case} == case


def test_each_case_has_a_complete_folder_with_a_short_name(swept: Ran) -> None:
    folder = swept.cwd / swept.folder
    cases = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert cases == ["000-softmax-rows_4", "001-softmax-rows_2", "002-rmsnorm-rows_4", "003-rmsnorm-rows_2"]
    contract = {"comparison.csv", "operators.csv", "samples.csv", "results.json", "comparison.md", "comparison.png"}
    for case in cases:
        assert contract | {"report.html", "traces"} <= {path.name for path in (folder / case).iterdir()}
    command = json.loads((folder / cases[3] / "results.json").read_text())["command"]
    assert "op=rmsnorm op.dims.rows=2" in command
    assert "hydra" not in command


def test_stdout_holds_the_table_and_stderr_no_progress(swept: Ran) -> None:
    assert swept.out.count("Variant") == 1
    assert "operators, per call" not in swept.out
    assert "\x1b" not in swept.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dtype=float32,bogus,bfloat16"], ["dtype=bogus", "float16"]),
        (["op=glob(x*)"], ["op=glob(x*)", "matches nothing", "rmsnorm"]),
        (["op=rmsnorm,softmax", "op.dims.hidden=64,128"], ["op.dims.hidden", "op=softmax", "columns"]),
        (["op.dims.hidden=64,abc"], ["op.dims.hidden=abc", "whole number"]),
        (["op.dims.hiden=64,128"], ["op.dims.hiden", "did you mean op.dims.hidden"]),
        (["latency.seconds=1,abc"], ["latency.seconds"]),
        (["op=rmsnorm,rmsnrom"], ["op=rmsnrom", "did you mean rmsnorm"]),
        (["op.dims.hidden=interval(1,4)"], ["op.dims.hidden=interval(1,4)", "range"]),
        (["sweep=shapes,dtypes"], ["sweep=shapes,dtypes"]),
        (["resume=last"], ["resume=last", "no sweep"]),
        (["resume=elsewhere"], ["resume=elsewhere", "sweep.json"]),
    ],
)
def test_an_impossible_sweep_is_refused_before_anything_runs(
    tmp_path: Path, arguments: list[str], message: list[str]
) -> None:
    refusal = say(["-m", *TWO, *arguments], tmp_path).refusal
    assert all(text in refusal for text in message), refusal
    assert not (tmp_path / "outputs").exists()


def test_resume_is_for_sweeps(tmp_path: Path) -> None:
    assert "add -m" in say(["resume=last", *TWO], tmp_path).refusal


@pytest.mark.slow
def test_a_folder_takes_one_sweep(swept: Ran) -> None:
    ran = run("-m", "dtype=float32,bfloat16", f"hydra.sweep.dir={swept.folder}", *TWO, cwd=swept.cwd)
    assert ran.status == 2
    assert f"resume={swept.folder}" in ran.error


@pytest.mark.slow
def test_a_folder_takes_either_a_run_or_a_sweep(tmp_path: Path) -> None:
    """Also one that was killed, which has left a log alone; nothing in the folder is changed."""
    sweep = ["-m", "dtype=float32,bfloat16", "hydra.sweep.dir=fixed"]
    assert say(["hydra.run.dir=fixed"], tmp_path).measured
    (tmp_path / "fixed" / "worker.log").write_text("of the first run")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert "hydra.run.dir=fixed: holds earlier results" in say(["hydra.run.dir=fixed"], tmp_path).refusal
    assert "hydra.sweep.dir=fixed: holds a run" in say(sweep, tmp_path).refusal
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    shutil.rmtree(tmp_path / "fixed")
    assert say(sweep, tmp_path).measured == 2
    assert "holds earlier results" in say(["hydra.run.dir=fixed"], tmp_path).refusal


@pytest.mark.slow  # which nothing else of the program does
def test_a_folder_that_is_removed_meanwhile_is_told(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text("import shutil\nshutil.rmtree('outputs')\n\n\ndef f(x, weight): ...\n")
    ran = run("-m", "op.dims.rows=4", "+op.variants.gone.fn=gone.f", *TWO[:1], *QUICK, cwd=tmp_path)
    assert ran.status == 1
    assert "Traceback" not in ran.err
    assert "error: outputs" in ran.err


def test_a_case_that_is_measured_again_starts_in_an_empty_folder(copy: Path) -> None:
    """But for results that are whole, which stand until there are new ones."""
    whole = copy / "000-softmax-rows_4"
    killed = copy / "001-softmax-rows_2"
    (killed / "results.json").unlink()
    for case in (whole, killed):
        sweeps.clear_attempt(case)
    assert {path.name for path in whole.iterdir()} == {".hydra", "results.json"}
    assert {path.name for path in killed.iterdir()} == {".hydra"}
    assert [case.missing for case in sweeps.read(copy).cases] == [None, "started, not finished", None, None]


@pytest.mark.slow
def test_two_mappings_of_one_key_are_both_in_each_case(tmp_path: Path) -> None:
    two = ["+op.variants={a: {fn: a.a}}", "+op.variants={b: {fn: b.b},c: {fn: c.c}}"]
    folders = [f"hydra.sweep.dir={name}" for name in ("both", "chosen", "last")]
    assert say(["-m", folders[0], *two, "dtype=float32,bfloat16"], tmp_path).measured == 2
    cases = plan.read(tmp_path / "both").cases
    assert [case.variants for case in cases] == [("naive", "fused", "compiled", "a", "b", "c")] * 2
    assert say(["-m", folders[1], two[0], "+op.variants={b: {fn: b.b}},{c: {fn: c.c}}"], tmp_path).measured == 2
    cases = plan.read(tmp_path / "chosen").cases
    assert [case.variants[3:] for case in cases] == [("a", "b"), ("a", "c")]
    assert say(["-m", folders[2], "seed=1,2", "seed=3", "dtype=float32,float64"], tmp_path).measured == 2


@pytest.mark.slow  # test_faults resumes the last one
def test_the_printed_command_continues_a_sweep_in_any_folder(tmp_path: Path) -> None:
    """The stub fails every case, so that all are measured again."""
    name = "out (1), a=b größe's \\"
    arguments = ["-m", "dtype=float32,bfloat16", "worker.env.A=1e5", f"hydra.sweep.dir={quoted(name)}"]
    assert say(arguments, tmp_path).measured == 2
    command = plan.read(tmp_path / name).resuming(Path(name))
    assert say(shlex.split(command)[3:], tmp_path).measured == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]
    again = say(arguments, tmp_path).refusal
    resume = shlex.split(again.partition("continue it by ")[2])
    assert say(["-m", *arguments[1:3], *resume], tmp_path).measured == 2


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusal = say(["-m", "dtype=float32,bfloat16", "hydra.sweep.dir=file/sweep", *TWO], tmp_path).refusal
    assert "file/sweep: cannot be written: Not a directory" in refusal


@pytest.mark.slow
def test_a_named_sweep_needs_no_flag_and_yields_to_the_command_line(tmp_path: Path) -> None:
    ran = in_process("sweep=shapes", "op.dims.hidden=32", *TWO, "worker.threads=1,2", cwd=tmp_path)
    assert ran.status == 0, ran.err
    rows = rows_of(ran)
    assert [(row["dim_hidden"], row["worker.threads"]) for row in rows] == [("32", "1")] * 2 + [("32", "2")] * 2
    assert rows[0]["case"] == "000-threads_1"


@pytest.mark.parametrize("name", [path.stem for path in (ROOT / "conf" / "sweep").glob("*.yaml")])
def test_every_named_sweep_has_cases(tmp_path: Path, name: str) -> None:
    """Refused for its folder alone, after all of its cases were found right."""
    (tmp_path / "file").touch()
    assert "cannot be written" in say([f"sweep={name}", "hydra.sweep.dir=file/sweep"], tmp_path).refusal


def test_names_of_folders_are_safe_short_and_different(tmp_path: Path) -> None:
    long = "package/" + "deep." * 40 + 'fn "v2" <b>'
    cases = {plan._folder(number, 3, {"op.variants.mine.fn": long, "dtype": "float32"}) for number in range(3)}
    assert len(cases) == 3
    assert all(len(case) <= 60 and (tmp_path / case).parent == tmp_path for case in cases)
    assert not set("".join(cases)) & set('/\\ "<>')


def test_what_is_missing_is_named_and_keeps_its_rows(copy: Path) -> None:
    shutil.rmtree(copy / "001-softmax-rows_2")
    (copy / "002-rmsnorm-rows_4" / "results.json").unlink()
    cut = copy / "003-rmsnorm-rows_2" / "results.json"
    cut.write_bytes(cut.read_bytes()[:-100])
    sweep = collect(copy)
    assert [case.missing for case in sweep.cases] == [
        None,
        "not started",
        "started, not finished",
        "results.json is cut off",
    ]
    rows = table(copy / "sweep.csv")
    assert [row["status"] for row in rows] == ["ok"] * 2 + ["missing"] * 6
    assert rows[2]["variant"] == "naive"
    assert rows[2]["dim_columns"]
    assert sweep.status == 1


def test_what_went_wrong_alike_in_several_cases_is_told_once(tmp_path: Path) -> None:
    names = ("000-float32", "001-bfloat16", "002-float64")
    reasons = ({"a": "4.25 where 4.05 is right"}, {"a": "-0.5 where 1e-3 is right"}, {"a": "no such kernel", "b": "x"})
    case = {"op": "rmsnorm", "dims": {}, "dtype": "float32", "device": "cpu", "mode": "forward", "variants": ()}
    planned = synthetic_results.planned({"case": case})
    cases = [
        sweeps.CollectedCase(planned(name), [{"variant": v, "status": "wrong", "reason": r} for v, r in rows.items()])
        for name, rows in zip(names, reasons, strict=True)
    ]
    cases.append(sweeps.CollectedCase(planned("003-float16"), [], "killed (signal 9); see 003-float16/worker.log"))
    assert sweeps.failures(cases, tmp_path) == [
        "000-float32: a is wrong: 4.25 where 4.05 is right; likewise 001-bfloat16",
        "002-float64: a is wrong: no such kernel",
        "002-float64: b is wrong: x",
        "003-float16: killed (signal 9); see 003-float16/worker.log",
    ]


@pytest.mark.slow  # test_report makes that of a run again
def test_the_report_is_made_again_from_what_is_there(copy: Path) -> None:
    for path in (copy / "sweep.csv", copy / "report.html", copy / "000-softmax-rows_4" / "comparison.csv"):
        path.unlink()
    shutil.rmtree(copy / "003-rmsnorm-rows_2")
    (copy / "002-rmsnorm-rows_4" / "results.json").write_text("{}")
    ran = in_process(str(copy), module="harness.report", cwd=copy.parent)
    assert ran.status == 0, ran.err
    assert [row["status"] for row in table(copy / "sweep.csv")] == ["ok"] * 4 + ["missing"] * 4
    assert "not started" in (copy / "report.html").read_text()
    case = copy / "000-softmax-rows_4"
    assert {"comparison.csv", "comparison.svg", "timeline.png", "samples.svg"} <= {path.name for path in case.iterdir()}
    assert "is a case of a sweep" not in (case / "report.html").read_text()


def test_a_case_s_page_says_how_the_other_charts_are_drawn(swept: Ran) -> None:
    case = swept.folder / "001-softmax-rows_2"
    assert not (swept.cwd / case / "timeline.png").exists()
    assert "<h2>Timeline</h2>" not in (page := (swept.cwd / case / "report.html").read_text())
    assert f"python -m harness.report {swept.cwd / case}" in page


def test_results_of_another_version_are_named(copy: Path) -> None:
    results = copy / "000-softmax-rows_4" / "results.json"
    results.write_text(results.read_text().replace('"schema_version": 2', '"schema_version": 99', 1))
    complaint = collect(copy).cases[0].missing
    assert complaint is not None
    assert "schema_version 99" in complaint
    whole = json.loads((copy / "sweep.json").read_text())
    (copy / "sweep.json").write_text(json.dumps({**whole, "schema_version": 99}))
    with pytest.raises(UsageError, match="schema_version 99"):
        collect(copy)


def test_collecting_needs_no_comparison_csv(copy: Path) -> None:
    before = sweeps.read(copy).rows
    (copy / "000-softmax-rows_4" / "comparison.csv").unlink()
    after = sweeps.read(copy).rows
    assert [row["latency_us"] for row in after] == pytest.approx([row["latency_us"] for row in before])


def test_a_folder_of_something_else_is_refused(swept: Ran, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing", swept.cwd / swept.folder / "000-softmax-rows_4"):
        with pytest.raises(UsageError, match=r"sweep\.json"):
            collect(folder)
    copied = shutil.copy(swept.cwd / swept.folder / "000-softmax-rows_4" / "results.json", tmp_path / "kept.json")
    ran = in_process(str(copied), cwd=tmp_path, module="harness.report")
    assert ran.status == 2
    assert f"{copied}: is a file; expected the folder" in ran.error


@pytest.mark.slow
def test_two_sweeps_of_the_same_second_both_end_complete(tmp_path: Path) -> None:
    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "harness", "-m", "op.dims.hidden=32,64", *TWO]
    sweeps = [subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, stderr=-1) for _ in range(2)]
    message = [sweep.communicate(timeout=120)[1] for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], message
    tables = list(tmp_path.glob("outputs/*/*/sweep.csv"))
    assert len(tables) == 2
    assert all(len(rows) == 4 and {row["status"] for row in rows} == {"ok"} for rows in map(table, tables))
    assert any("waiting for it to end" in text for text in message)


@pytest.mark.slow
def test_state_does_not_leak_from_case_to_case(package: Path) -> None:
    (package / "leaky.py").write_text(
        """
import os, torch

def leaks(x, weight):
    out = torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(True)
    torch.manual_seed(7)
    torch._dynamo.config.cache_size_limit = 1
    os.environ["LEAKED"] = "yes"
    return out

def sees(x, weight):
    state = (torch.get_default_dtype(), torch.initial_seed() == 7, torch._dynamo.config.cache_size_limit == 1)
    if state != (torch.float32, False, False) or "LEAKED" in os.environ:
        raise RuntimeError(f"leaked: {state}")
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
"""
    )
    swap = "+op.variants.mine.fn=leaky.leaks,leaky.sees"
    ran = in_process("-m", swap, *TWO[::2], "variants=[naive,mine]", *QUICK, cwd=package)
    row = next(row for row in rows_of(ran) if row["op.variants.mine.fn"] == "leaky.sees" and row["variant"] == "mine")
    assert (row["status"], row["reason"]) == ("ok", "")


@pytest.mark.slow
def test_submitit_gives_the_same_table(swept: Ran, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="hydra-submitit-launcher is not installed")
    launcher = "hydra/launcher=submitit_local"
    ran = run("-m", "op=rmsnorm", "op.dims.rows=4,2", launcher, *TWO, cwd=tmp_path)
    assert ran.status == 0, ran.err
    told = ("op", "variant", "status", "reason", "device", "dtype", "mode", "dim_rows", "dim_hidden", "operator_calls")
    basic = [[row[key] for key in told] for row in rows_of(swept) if row["op"] == "rmsnorm"]
    assert [[row[key] for key in told] for row in rows_of(ran)] == basic
