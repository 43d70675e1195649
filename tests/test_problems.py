"""Problems from elsewhere, run as they are: files of KernelBench's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli import QUICK, in_process
from in_process import say
from measuring import SHORT, measured

from harness.configuration import compose
from harness.problems import kernelbench

PROBLEMS = Path(__file__).parent / "problems"
KERNELBENCH = sorted((PROBLEMS / "kernelbench").glob("*.py"))
MATMUL = KERNELBENCH[0]


def composed(file: Path | str, *overrides: str) -> dict[str, Any]:
    """A problem's configuration, without its compiled variant."""
    plain = compose.composed([f"op={file}", "device=cpu", *SHORT, *overrides])
    plain["op"]["variants"].pop("compiled", None)
    return plain


# KernelBench


@pytest.mark.parametrize("file", KERNELBENCH, ids=lambda file: file.stem)
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
        ([f"op={MATMUL}:first"], "is one problem, which has no first"),
        ([f"op={MATMUL}", "op.dims.M=2"], "op.dims.M: no such key; keys there: N"),
        ([f"op={MATMUL}", "+op.variants.a.solution=nowhere.py"], "op.variants.a.solution=nowhere.py: no such file"),
        ([f"op={MATMUL}", "+op.variants.a={solution: empty.py, fn: a.b}"], "fn=a.b is given as well"),
        ([f"op={MATMUL}", "op.shrink=0"], "op.shrink=0: expected 1 or more"),
        (["op=rmsnorm", "op.shrink=2"], "set op.dims.NAME of rmsnorm"),
        (["op=rmsnorm", "+op.variants.a.solution=empty.py"], "rmsnorm is no problem of a file"),
    ],
    ids=str,
)
def test_what_is_at_fault_is_said_in_a_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("def (")
    assert message in say(arguments, tmp_path).refusal


def test_a_solution_that_is_none_is_said_in_a_line(tmp_path: Path) -> None:
    """It is found when it is imported, in the measuring process."""
    (tmp_path / "empty.py").write_text("")
    arguments = ["op.dims.N=16", "device=cpu", "lock=none", "variants=[model,a]", "+op.variants.a.solution=empty.py"]
    ran = in_process(f"op={MATMUL}", *arguments, *QUICK, cwd=tmp_path)
    assert ran.status == 2
    assert ran.error.endswith("empty.py: defines no ModelNew")


def test_sizes_of_a_file() -> None:
    tree = kernelbench.parsed(
        Path("f.py"),
        "n = 2**10 * 3 // 2\nm: int = 4\nflag = True\nx = 2.0\nfree = -1\nzero = 1 // 0\n"
        "both = n * 2\ndtype = 3\na = b = 5\n",
        "op",
    )
    assert kernelbench.sizes(tree) == {"n": 1536}
