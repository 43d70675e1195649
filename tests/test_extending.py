"""Operations and variants of one's own: written for you, from a folder, from Python; and their authors' errors."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from cli import BRIEF, PEAKS, QUICK, ROOT, in_process, run
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

import harness
from harness import compare, new
from harness import list as listing
from harness.configuration.errors import UsageError
from harness.configuration.folders import directory
from harness.configuration.operation import resolve
from harness.results import columns

SHORT = [*BRIEF, *PEAKS]


# An operation of one's own


def test_a_new_operation_runs_as_it_is_written(tmp_path: Path) -> None:
    """In every mode, by the command that is printed, with a variant of another module beside its own."""
    written = in_process("my_norm", module="harness.new", cwd=tmp_path)
    assert written.status == 0, written.err
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["my_norm.py", "my_norm.yaml"]
    (tmp_path / "mine.py").write_text("import torch\ndef faster(x):\n    return torch.nn.functional.silu(x)\n")
    line = written.out.splitlines()[-1].partition("python -m harness ")[2]
    small = ["op.dims.rows=4", "op.dims.hidden=32", "+op.variants.mine.fn=mine.faster", *SHORT]
    small.append("++op.variants.compiled.compile.backend=aot_eager")  # captures the same graphs, and generates no code
    ran = in_process(*shlex.split(line), "mode=forward_backward", *small, cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert {name: row["status"] for name, row in ran.rows.items()} == dict.fromkeys(
        ["naive", "fused", "compiled", "mine"], "ok"
    )
    assert ran.rows["naive"]["dim_hidden"] == "32"
    assert ran.results["work"] == {"flops": 12 * 128, "bytes": 5 * 128 * 2}
    assert "op.work" not in ran.err


@pytest.mark.slow
def test_a_new_operation_is_right_in_every_mode_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert new.main(["my_listed"]) == 0
    for mode in ("forward", "backward"):
        found = compare("my_listed", config_dir="conf", mode=mode, overrides=[*SHORT, "variants=[naive,fused]"])
        assert list(found.table["status"]) == ["ok", "ok"]
        assert not [warning for warning in found.warnings if "op.work" in warning]
    op = tmp_path / "conf" / "op"
    (op / "only.yaml").write_text(
        (op / "my_listed.yaml").read_text().replace("fn: my_listed.fused}", "fn: my_listed.fused, requires: [nowhere]}")
    )
    (op / "broken.yaml").write_text((op / "my_listed.yaml").read_text().replace("my_listed.inputs", "my_listed.imputs"))
    listed = run("--config-dir", "conf", "device=cpu", module="harness.list", cwd=tmp_path)
    assert listed.status == 0, listed.err
    message = " ".join(listed.out.replace("│", " ").split())
    for part in ("my_listed rows=256 hidden=1024 naive, fused, compiled", "large/attention", "Skipped on cpu"):
        assert part in message
    assert "fused: requires nowhere: No module named 'nowhere'" in message
    assert "did you mean inputs?" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my-op"], "my-op"),
        (["class"], "class"),
        (["rmsnorm"], "rmsnorm is an operation of the library"),
        (["json"], "json is a module"),
        (["taken"], "taken.py is there already"),
        ([], "required: NAME; see python -m harness.new --help"),
        (["one", "two"], "unrecognized arguments: two; see python -m harness.new --help"),
    ],
)
def test_a_new_operation_takes_nobody_s_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.py").write_text("mine = True\n")
    assert new.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "taken.py").read_text() == "mine = True\n"
    assert not (tmp_path / "conf").exists()


@pytest.mark.parametrize("arguments", [["device=cdu"], ["dtype"], ["--config-dir=nowhere"], ["colour=red"]])
def test_the_list_refuses_in_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert listing.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert arguments[-1].partition("=")[0] in line


# Its author's errors


@pytest.mark.slow  # others that end the process are named in test_errors
def test_a_module_that_parses_arguments_when_it_is_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "scripted.py").write_text("import argparse\nargparse.ArgumentParser().parse_args(['--no-such'])\n")
    for function in ("scripted.fast", "scripted:fast"):
        with pytest.raises(
            UsageError, match=r"^op\.variants\.mine\.fn=scripted.fast: importing it raised SystemExit: 2"
        ):
            resolve(function, "op.variants.mine.fn")
    assert listing.main(["device=cpu", "+op.variants.mine.fn=scripted.fast"]) == 0
    assert "importing it raised SystemExit" in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "GeneratorExit", "type('Own', (BaseException,), {})"])
def test_whatever_a_module_raises_when_it_is_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raising.py").write_text(f"raise {raised}\n")
    with pytest.raises(UsageError, match=r"^op\.variants\.mine\.fn=raising.fast: importing it raised \w+"):
        resolve("raising.fast", "op.variants.mine.fn")


def inputs(rows: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    return (torch.randn(rows, 4, generator=generator).to(dtype),)


def good(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def takes_two(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * weight


def longer(x: torch.Tensor) -> torch.Tensor:
    return x[None] * 2


def raises(*values: Any, **named: Any) -> Any:
    raise RuntimeError("not today")


def asks_for_more(rows: int, columns: int, dtype: torch.dtype, generator: torch.Generator) -> Any:
    return torch.zeros(rows, columns, dtype=dtype)


def asks_for_none(dtype: torch.dtype, generator: torch.Generator) -> Any:
    return torch.zeros(4, dtype=dtype)


def in_one_dtype(rows: int) -> torch.Tensor:
    return torch.ones(rows)


def work(rows: int) -> Any:
    return {"flops": 1}


def endless(rows: int) -> Any:
    return {"flops": float("inf"), "bytes": 1}


HERE = Path(__file__).name
ERRORS: list[tuple[dict[str, Any], list[str]]] = [
    ({"inputs": raises}, ["op.inputs=", "raises", HERE, "RuntimeError: not today"]),
    ({"inputs": asks_for_more}, ["op.inputs=", HERE, "asks for columns", "dims of functions are rows"]),
    ({"inputs": asks_for_none}, ["op.inputs=", HERE, "does not take rows"]),
    ({"inputs": in_one_dtype}, ["op.inputs=", HERE, "makes float32 where dtype=bfloat16"]),
    ({"reference": raises}, ["op.reference=", HERE, "raised RuntimeError: not today"]),
    ({"reference": longer}, ["op.variants.a.fn=", "good", "op.reference=", "longer", HERE, "(4, 4)", "(1, 4, 4)"]),
    ({"work": work}, ["op.work=", HERE, "{'flops': 1}", "flops and bytes"]),
    ({"work": endless}, ["op.work=", HERE, "flops=inf"]),
    ({"work": raises}, ["op.work=", HERE, "not today"]),
    ({"variants": {"a": good, "b": takes_two}}, ["op.variants.b.fn=", "takes_two", HERE, "1 input", "weight"]),
    ({"variants": {"a": {"fn": good, "args": {"block": 2}}}}, ["op.variants.a.fn=", HERE, "block"]),
    ({"baseline": "c"}, ["op.baseline=c", "variants of functions: a"]),
    ({"variants": {"a": 3}}, ["op.variants.a=3"]),
    ({"variants": {}}, ["variants"]),
    ({"variants": [good]}, ["variants", "by name"]),
    ({"dtype": "bogus"}, ["dtype=bogus", "bfloat16"]),
]


@pytest.mark.parametrize(("changed", "message"), ERRORS, ids=lambda value: str(next(iter(value))))
def test_an_author_s_error_is_one_line_that_names_key_and_file(
    changed: dict[str, Any], message: list[str], tmp_path: Path
) -> None:
    asked = {"variants": {"a": good}, "inputs": inputs, "reference": good, "rows": 4, **changed}
    with pytest.raises(UsageError) as error:
        compare(**asked, overrides=SHORT, folder=tmp_path)
    assert "\n" not in str(error.value)
    for part in message:
        assert part in str(error.value)
    assert not (tmp_path / "results.json").exists()


def test_an_author_s_error_ends_the_program_with_2(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def wrong(x, weight, more):\n    return x\n")
    ran = in_process("op=rmsnorm", "+op.variants.mine.fn=mine.wrong", "device=cpu", *QUICK, cwd=tmp_path)
    assert ran.status == 2
    for part in ("op.variants.mine.fn=mine.wrong", "mine.py:1", "2 inputs", "'more'"):
        assert part in ran.error


# From Python


def test_an_operation_by_its_name() -> None:
    found = compare("rmsnorm", hidden=64, dtype="float32", overrides=[*SHORT, "variants=[naive,fused]"])
    assert list(found.table.columns) == columns.names(columns.of_case(["rows", "hidden"]))
    assert list(found.table["variant"]) == ["naive", "fused"]
    assert set(found.table["dim_hidden"]) == {64}
    assert set(found.table["dtype"]) == {"float32"}
    assert isinstance(found.operators, pd.DataFrame)
    assert found.operators.query("variant == 'naive' and operator == 'aten::mul'")["calls"].item() == 3
    assert set(found.samples["variant"]) == {"naive", "fused", "(control)"}
    assert found.document["command"].startswith("python -m harness op=rmsnorm dtype=float32 op.dims.hidden=64 ")
    assert (found.folder / "report.html").exists()
    assert "rmsnorm rows=4 hidden=64" in repr(found)


def test_functions_of_one_s_own(tmp_path: Path) -> None:
    """Closures and lambdas, fixed tensors, a gradient, a name full of markup."""
    factor = 3.0

    def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x) * weight * factor

    variants: dict[str, Any] = {
        "plain": plain,
        "<b>fast": lambda x, weight: torch.nn.functional.silu(x) * weight * factor,
        "wrong": lambda x, weight: x * weight * factor,
        "compiled": {"fn": plain, "compile": {"backend": "aot_eager"}},
    }
    tensors = (torch.randn(8, 16, requires_grad=True), torch.randn(16, requires_grad=True))
    found = compare(
        variants=variants, inputs=tensors, mode="forward_backward", folder=tmp_path / "kept",
        overrides=[*SHORT, "report.charts=[comparison]"],
    )  # fmt: skip
    table = found.table.set_index("variant")
    assert dict(table["status"]) == {"plain": "ok", "<b>fast": "ok", "wrong": "wrong", "compiled": "ok"}
    assert table["verdict"]["plain"] == "baseline"
    assert set(table["dtype"]) == {"float32"}
    assert table["graphs"]["compiled"] == 2
    page = found._repr_html_()
    assert "&lt;b&gt;fast" in page and "<b>fast" not in page
    assert page.count("<table>") == 1 + len(variants)
    assert 'src="data:image/svg+xml' in page
    assert len(found.plot().axes) >= 1
    assert (tmp_path / "kept" / "results.json").exists()
    assert "test_extending.py" in found.document["config"]["op"]["variants"]["plain"]["fn"]


def test_a_stray_argument_is_no_dim() -> None:
    with pytest.raises(UsageError, match="stray: not an argument of compare"):
        compare(variants={"a": torch.relu}, inputs=torch.ones(4), stray=1)
    with pytest.raises(UsageError, match="did you mean op"):
        compare("rmsnorm", hiden=64)


def test_a_function_is_added_to_an_operation_s_own() -> None:
    mine: Callable[..., Any] = lambda x, weight: torch.rms_norm(x, weight.shape, weight, 1e-6)  # noqa: E731
    found = compare("rmsnorm", variants={"mine": mine}, overrides=[*SHORT, "variants=[naive,mine]"])
    assert dict(found.table.set_index("variant")["status"]) == {"naive": "ok", "mine": "ok"}


def test_hydra_of_the_caller_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("mine: 1\n")
    with initialize_config_dir(str(tmp_path), version_base="1.2"):
        before = GlobalHydra.instance()
        with pytest.raises(UsageError, match=r"op\.dims\.hiden: no such key; did you mean op\.dims\.hidden\?"):
            compare("rmsnorm", hiden=3)
        assert GlobalHydra.instance() is before
        assert before.is_initialized()
    with pytest.raises(UsageError, match="did you mean rmsnorm"):
        compare("rmsnrm")
    assert directory().is_dir()


@pytest.mark.slow
def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nfrom harness import compare\n"
        "print('started')\n"
        "double = lambda x: x + x\n"
        f"found = compare(variants={{'a': double, 'b': lambda x: 2 * x}}, inputs=torch.randn(8), overrides={SHORT!r})\n"
        "print(found)\nprint(found.folder)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("started") == 1
    assert "functions" in done.stdout and "baseline" in done.stdout
    assert not Path(done.stdout.splitlines()[-1]).exists()  # a temporary folder goes with the object


def test_nothing_else_is_offered() -> None:
    with pytest.raises(AttributeError, match="compair"):
        harness.compair  # noqa: B018
