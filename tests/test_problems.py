"""Problems from elsewhere, run as they are: files of KernelBench's form, definitions of FlashInfer-Trace."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from cli import QUICK, in_process
from in_process import say
from measuring import SHORT, measured

from harness.configuration import compose
from harness.problems import flashinfer, kernelbench

PROBLEMS = Path(__file__).parent / "problems"
KERNELBENCH = sorted((PROBLEMS / "kernelbench").glob("*.py"))
MATMUL = KERNELBENCH[0]
TRACE = PROBLEMS / "flashinfer"
DEFINITIONS = sorted(TRACE.glob("definitions/*/*.json"))
RMSNORM = TRACE / "definitions" / "rmsnorm" / "rmsnorm_h256.json"
SOLUTIONS = TRACE / "solutions" / "example"


def composed(file: Path | str, *overrides: str) -> dict[str, Any]:
    """A problem's configuration, without its compiled variant."""
    plain = compose.composed([f"op={file}", "device=cpu", *SHORT, *overrides])
    plain["op"]["variants"].pop("compiled", None)
    return plain


# KernelBench


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=[pytest.mark.slow] * (number % 3 > 0)) for number, file in enumerate(KERNELBENCH)],
    ids=lambda file: file.stem,
)
def test_a_file_of_kernelbench_is_an_operation(file: Path) -> None:
    """Its Model and its solution, where it has one, are right at sizes that are shrunk."""
    new = file.parent / "new" / file.name
    added = [f"+op.variants.new.solution={new}"] if new.exists() else []
    plain = composed(file, "op.shrink=32", "dtype=float32", *added)
    rows, warnings = measured(plain)
    assert [(row.variant, row.status, row.reason) for row in rows] == [
        (name, "ok", None) for name in plain["op"]["variants"]
    ]
    assert all(row.error is not None and row.error.allowed <= 1 for row in rows)
    assert not [warning for warning in warnings if "op." in warning]


def test_sizes_are_dims_and_are_shrunk_if_large() -> None:
    file = PROBLEMS / "kernelbench" / "03_batched_matmul.py"
    assert composed(file)["op"]["dims"] == {"batch_size": 128, "m": 512, "k": 1024, "n": 2048}
    plain = composed(file, "op.shrink=16", "op.dims.m=3")
    assert plain["op"]["dims"] == {"batch_size": 16, "m": 3, "k": 64, "n": 128}
    assert plain["op"]["variants"]["model"]["args"]["sizes"] == plain["op"]["dims"]
    assert plain["op"]["name"] == "batched_matmul"
    assert list(plain["op"]["variants"]) == ["model", "new"]  # its own ModelNew


def test_a_solution_is_checked_against_the_model(tmp_path: Path) -> None:
    """By the command line, with one that is right and one that is not; exit status 1."""
    (tmp_path / "halved.py").write_text(
        "from torch import nn\nclass ModelNew(nn.Module):\n    def forward(self, a, b):\n        return a @ b * 0.5\n"
    )
    arguments = [
        f"op={MATMUL}", "op.dims.N=64", "dtype=float32", "device=cpu", "lock=none", "variants=[model,right,wrong]",
        f"+op.variants.right.solution={MATMUL.parent / 'new' / MATMUL.name}", "+op.variants.wrong.solution=halved.py",
    ]  # fmt: skip
    ran = in_process(*arguments, *QUICK, cwd=tmp_path)
    assert ran.status == 1, ran.err
    assert {name: row["status"] for name, row in ran.rows.items()} == {"model": "ok", "right": "ok", "wrong": "wrong"}
    assert ran.rows["right"]["op"] == "square_matmul" and ran.rows["right"]["dim_N"] == "64"


@pytest.mark.slow
def test_what_the_inputs_of_a_problem_hide_is_shown_by_their_signs(tmp_path: Path) -> None:
    """Many draw numbers above zero, of which ReLU changes none; a model of which logarithms are undefined is left."""
    form = (
        "import torch\nfrom torch import nn\n"
        "class {name}(nn.Module):\n    def forward(self, x):\n        return {what}\n"
        "def get_inputs():\n    return [torch.rand(16, 16)]\n"
    )
    for problem, right, other in (
        ("relu", "x.relu() * 2", "x * 2"),
        ("log", "(x + 1e-3).log()", "torch.log(x + 1e-3)"),
    ):
        (tmp_path / f"{problem}.py").write_text(form.format(name="Model", what=right))
        (tmp_path / f"{problem}_new.py").write_text(form.format(name="ModelNew", what=other))
    found = {}
    for problem in ("relu", "log"):
        solution = f"+op.variants.new.solution={problem}_new.py"
        arguments = (f"op={problem}.py", "dtype=float32", "device=cpu", "lock=none", "variants=[model,new]", solution)
        found[problem] = in_process(*arguments, *QUICK, cwd=tmp_path).rows["new"]
    assert found["relu"]["status"] == "wrong" and "has the other sign" in found["relu"]["reason"]
    assert found["log"]["status"] == "ok"


def test_weights_are_the_models_whatever_order_they_are_made_in(tmp_path: Path) -> None:
    """As KernelBench seeds each; and by name, where a solution makes them in another order."""
    problem = tmp_path / "two.py"
    problem.write_text(
        "import torch\nfrom torch import nn\nwidth = 8\n"
        "class Model(nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Linear(n, n), nn.Linear(n, n)\n"
        "    def forward(self, x):\n"
        "        return self.b(self.a(x))\n"
        "def get_inputs():\n    return [torch.rand(4, width)]\n"
        "def get_init_inputs():\n    return [width]\n"
    )
    (tmp_path / "new.py").write_text(
        "from torch import nn\n"
        "class ModelNew(nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.b = nn.Linear(n, n)\n"
        "        self.a = nn.Linear(n, n)\n"
        "    def forward(self, x):\n"
        "        return self.b(self.a(x))\n"
    )
    rows, _ = measured(composed(problem, "dtype=float32", f"+op.variants.new.solution={tmp_path / 'new.py'}"))
    assert [row.status for row in rows] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["op=nowhere.py"], "op=nowhere.py: no such file"),
        (["op=empty.py"], "op=empty.py: no problem of KernelBench's form: it defines no Model and no get_inputs"),
        (["op=broken.py"], "op=broken.py: not Python: line 1: "),
        (["op=deep.py"], "op=deep.py: not Python: "),
        (["op=latin.py"], "op=latin.py: no problem of KernelBench's form: it defines no Model and no get_inputs"),
        ([f"op={MATMUL}:first"], "is one problem, which has no first"),
        ([f"op={MATMUL}", "op.dims.M=2"], "op.dims.M: no such key; keys there: N"),
        ([f"op={MATMUL}", "+op.variants.a.solution=nowhere.py"], "op.variants.a.solution=nowhere.py: no such file"),
        ([f"op={MATMUL}", "+op.variants.a={solution: empty.py, fn: a.b}"], "fn=a.b is given as well"),
        ([f"op={MATMUL}", "+op.variants.a={solution: empty.py, args: {b: 1}}"], "args={'b': 1} is given as well"),
        ([f"op={MATMUL}", "op.shrink=0"], "op.shrink=0: expected 1 or more"),
        (["op=rmsnorm", "op.shrink=2"], "set op.dims.NAME of rmsnorm"),
        (["op=rmsnorm", "+op.variants.a.solution=empty.py"], "rmsnorm is no problem of a file"),
    ],
    ids=str,
)
def test_what_is_at_fault_is_said_in_a_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "deep.py").write_text("x = " + "-" * 200_000 + "1")
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n")
    assert message in say(arguments, tmp_path).refusal


def test_a_solution_that_is_none_is_said_in_a_line(tmp_path: Path) -> None:
    """It is found when it is imported, in the measuring process."""
    (tmp_path / "empty.py").write_text("")
    arguments = ["op.dims.N=16", "device=cpu", "lock=none", "variants=[model,a]", "+op.variants.a.solution=empty.py"]
    ran = in_process(f"op={MATMUL}", *arguments, *QUICK, cwd=tmp_path)
    assert ran.status == 2
    assert ran.error.endswith("empty.py: defines no ModelNew")


def test_sizes_of_a_file() -> None:
    tree = ast.parse(
        "n = 2**10 * 3 // 2\nm: int = 4\nflag = True\nx = 2.0\nfree = -1\nzero = 1 // 0\n"
        "both = n * 2\ndtype = 3\na = b = 5\n"
    )
    assert kernelbench.sizes(tree) == {"n": 1536}


# FlashInfer-Trace


def solutions(definition: Path) -> dict[str, Path]:
    """The solutions of a definition, by name."""
    found = SOLUTIONS / definition.parent.name / definition.stem
    return {file.stem: file for file in sorted(found.glob("*.json"))}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda file: file.stem)
def test_a_definition_of_flashinfer_is_an_operation(definition: Path) -> None:
    """With its first workload and all its solutions: those that return, and those that are given their outputs."""
    added = [f"+op.variants.{name}.solution={file}" for name, file in solutions(definition).items()]
    dtype = flashinfer.definition(definition, "op").dtypes[0]
    plain = composed(definition, f"dtype={dtype}", "op.shrink=4", *added)
    rows, _ = measured(plain)
    expected = dict.fromkeys(plain["op"]["variants"], "ok") | {"scaled": "wrong", "in_cuda": "skipped"}
    assert {row.variant: (row.status, row.notes) for row in rows} == {
        row.variant: (expected[row.variant], []) for row in rows
    }, rows
    assert {row.variant: row.reason for row in rows}.get("in_cuda") in (
        None,
        "its language is cuda; python and triton can be run",
    )


def test_workloads_are_chosen_by_their_uuid() -> None:
    assert composed(RMSNORM)["op"]["dims"] == {"batch_size": 8, "hidden_size": 256}
    plain = composed(f"{RMSNORM}:7d1f", "op.shrink=2")
    assert plain["op"]["dims"] == {"batch_size": 32, "hidden_size": 256}  # a constant is not shrunk
    assert plain["op"]["vary"] == ["batch_size"]
    assert (plain["op"]["dtypes"], plain["op"]["modes"]) == (["bfloat16"], ["forward"])


def test_results_in_the_schema_of_the_data_set(tmp_path: Path) -> None:
    """A Trace for each solution that ran; the fields that its status asks for, and no others."""
    added = [f"+op.variants.{name}.solution={file}" for name, file in solutions(RMSNORM).items()]
    ran = in_process(f"op={RMSNORM}:7d1f", "device=cpu", "lock=none", *added, *QUICK, cwd=tmp_path)
    assert ran.status == 1, ran.err
    printed = in_process(str(ran.folder), module="harness.problems", cwd=tmp_path)
    assert printed.status == 0, printed.err
    traces = {trace["solution"]: trace for trace in map(json.loads, printed.out.splitlines())}
    assert sorted(traces) == ["one_operator", "scaled"]
    for trace in traces.values():
        assert trace["definition"] == "rmsnorm_h256"
        assert trace["workload"] == {
            "uuid": "7d1f94c2-88a3-4a61-b1f4-52f2d9a4c302",
            "axes": {"batch_size": 64},
            "inputs": {"hidden_states": {"type": "random"}, "weight": {"type": "random"}},
        }
        assert trace["evaluation"]["environment"]["libs"]["torch"] == torch.__version__
        assert trace["evaluation"]["environment"]["hardware"] and trace["evaluation"]["timestamp"]
    passed, wrong = traces["one_operator"]["evaluation"], traces["scaled"]["evaluation"]
    assert (passed["status"], wrong["status"]) == ("PASSED", "INCORRECT_NUMERICAL")
    row = ran.rows["one_operator"]
    assert passed["performance"]["latency_ms"] == pytest.approx(float(row["latency_us"]) / 1e3)
    assert passed["performance"]["speedup_factor"] == pytest.approx(float(row["speedup"]))
    assert passed["correctness"]["max_absolute_error"] == pytest.approx(float(row["max_error"]))
    assert wrong["performance"] is None and wrong["correctness"]["max_relative_error"] > 0.05
    assert "differs from the float64 reference" in wrong["log"]


def test_inputs_from_a_file_keep_their_sizes(tmp_path: Path) -> None:
    """As the data set stores them: safetensors beside the definition, or below the folder above it."""
    safetensors = pytest.importorskip("safetensors.torch")
    definition = tmp_path / "definitions" / "rmsnorm" / RMSNORM.name
    workloads = tmp_path / "workloads" / "rmsnorm" / RMSNORM.with_suffix(".jsonl").name
    definition.parent.mkdir(parents=True)
    workloads.parent.mkdir(parents=True)
    definition.write_text(RMSNORM.read_text())
    kept = torch.full((40, 256), 2.0).bfloat16()
    safetensors.save_file({"x": kept}, tmp_path / "inputs.safetensors")
    source = {"type": "safetensors", "path": "inputs.safetensors", "tensor_key": "x"}
    workload = {"uuid": "a", "axes": {"batch_size": 40}, "inputs": {"hidden_states": source}}
    workloads.write_text(json.dumps(workload) + "\n")
    plain = composed(definition, "op.shrink=4")
    assert plain["op"]["dims"]["batch_size"] == 40 and plain["op"]["vary"] == []
    rows, _ = measured(plain)
    assert [row.status for row in rows] == ["ok"]


def test_axes_that_are_expressions() -> None:
    axes = {"n": {"type": "var"}, "m": {"type": "expr", "expression": "(n + 1) // 2 ** 2 - -1"}}
    found = flashinfer.Definition(Path("d.json"), {"axes": axes})
    assert found.sizes({"n": 15}) == {"n": 15, "m": 5}
    axes["m"]["expression"] = "print(n)"
    with pytest.raises(ValueError, match="not an expression of sizes"):
        found.sizes({"n": 15})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["op=nowhere.json"], "op=nowhere.json: no such file"),
        (["op=empty.json"], "op=empty.json: no definition of FlashInfer-Trace: it has no name and no axes"),
        (["op=broken.json"], "op=broken.json: not JSON: "),
        ([f"op={RMSNORM}:ffff"], "unknown; workloads, by their uuid: 0b5c7a1e-"),
        ([f"op={RMSNORM}", "dtype=float32"], "dtype=float32: unknown; dtypes of rmsnorm_h256: bfloat16"),
        ([f"op={RMSNORM}", "mode=backward"], "mode=backward: unknown; modes of rmsnorm_h256: forward"),
        (["op=alone.json"], "op.dims.M: missing"),
        (["op=axis.json"], "op=axis.json: axes.M.type=vr: unknown; did you mean var?"),
        (["op=shape.json"], "op=shape.json: inputs.A.shape=L: unknown; axes: K, M, N"),
        (["op=spec.json"], "op=spec.json: inputs=3: expected a mapping"),
        (["op=code.json"], "op=code.json: reference: not Python: line 1: "),
        (["op=bytes.json"], "op=bytes.json: not JSON: "),
        (["op=expression.json"], "op=expression.json: axes.M.expression: not Python: line 1: "),
        (["op=unknown.json"], "op=unknown.json: axes.M.expression=L: unknown; axes: K, M, N"),
        (["op=axes.json"], "op=axes.json: axes.jsonl:1: axes={'M': 'many'}: expected a mapping of names to sizes"),
        (["op=inputs.json"], "op=inputs.json: inputs.jsonl:1: inputs={'A': 'random'}: expected a mapping of names to"),
        (["op=number.json"], "op=number.json: number.jsonl:1: workload=3: expected a mapping"),
    ],
    ids=lambda value: Path(str(value)).name,
)
def test_what_is_at_fault_in_a_definition_is_said_in_a_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")
    definition = json.loads(DEFINITIONS[0].read_text())
    damaged: dict[str, dict[str, Any]] = {
        "alone": {},  # no workload beside it
        "axis": {"axes": {**definition["axes"], "M": {"type": "vr"}}},
        "shape": {"inputs": {"A": {"shape": ["L"], "dtype": "float16"}}},
        "spec": {"inputs": 3},
        "code": {"reference": "def ("},
        "expression": {"axes": {**definition["axes"], "M": {"type": "expr", "expression": "K *"}}},
        "unknown": {"axes": {**definition["axes"], "M": {"type": "expr", "expression": "L * 2"}}},
        "axes": {}, "inputs": {}, "number": {},
    }  # fmt: skip
    lines = {"axes": {"axes": {"M": "many"}}, "inputs": {"inputs": {"A": "random"}}, "number": {"workload": 3}}
    for name, line in lines.items():
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line))
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    for name, changed in damaged.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(definition | changed))
    assert message in say(arguments, tmp_path).refusal


def test_a_solution_of_another_definition_is_refused(tmp_path: Path) -> None:
    other = next(iter(solutions(DEFINITIONS[0]).values()))
    arguments = ["device=cpu", "lock=none", f"+op.variants.a.solution={other}"]
    ran = in_process(f"op={RMSNORM}", *arguments, *QUICK, cwd=tmp_path)
    assert ran.status == 2
    assert ran.error.endswith(", not rmsnorm_h256")
