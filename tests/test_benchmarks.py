"""The benchmarks start: each can be imported, and describes itself; none is run here, since they measure."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from pathlib import Path

import pytest
from cli import ROOT

FOLDER = ROOT / "benchmarks"
# Started by benchmarks with arguments of their own, or imported by them
HELPERS = ("plain_script", "planted", "programs", "recording", "torch_benchmark", "workloads")
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks are scripts, which import each other from their own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_describes_the_benchmark(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert not ended.value.code
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(f"usage: {name}.py")
    assert " ".join((module.__doc__ or "").split()).partition(".")[0] in out


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_what_it_imports_of_the_harness_exists(path: Path) -> None:
    """Within functions as well, which --help does not call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("harness", "variants"):
            for alias in node.names:
                pkgutil.resolve_name(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("name", HELPERS)
def test_helpers_can_be_imported(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")
