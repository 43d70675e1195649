"""The floors of the house: imports run downward only, and the command line starts without torch."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Each floor may import from itself and from those before it
FLOORS = [
    ["harness", "harness.errors", "harness.arguments"],
    ["harness.operation", "harness.settings"],
    ["harness.roofline"],
    ["harness.config", "harness.composing", "harness.help", "harness.library"],
    ["harness.devices"],
    ["harness.measure"],
    ["harness.measurement", "harness.environment", "harness.statistics", "harness.task"],
    ["harness.fitness", "harness.capture", "harness.explorer"],
    ["harness.process", "harness.lock", "harness.peaks", "harness.worker", "harness.preload"],
    ["harness.runner"],
    ["harness.results"],
    ["harness.comparison"],
    ["harness.report", "harness.diff"],
    ["harness.progress", "harness.recording", "harness.sweep"],
    ["harness.report.__main__", "harness.doctor", "harness.__main__"],
    ["harness.notebook", "harness.list", "harness.new"],
]


def test_imports_run_downward() -> None:
    for path in sorted((ROOT / "harness").rglob("*.py")):
        module = _module(path)
        for imported in _imports(path, module):
            assert _floor(imported) <= _floor(module), f"{module} imports {imported}, which lies above it"


def test_only_charts_import_matplotlib() -> None:
    for path in (ROOT / "harness").rglob("*.py"):
        if "charts" not in path.parts:
            assert "matplotlib" not in " ".join(_names(path)), path


def test_operations_need_nothing_of_the_harness() -> None:
    for path in (ROOT / "variants").glob("*.py"):
        assert not [name for name in _names(path) if name.split(".")[0] == "harness"], path


def test_files_are_short_and_say_what_they_own() -> None:
    for path in [*(ROOT / "harness").rglob("*.py"), *(ROOT / "variants").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert text.startswith('"""'), path
        assert len(text.splitlines()) <= 320, path


def _floor(module: str) -> int:
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        for floor, modules in enumerate(FLOORS):
            if ".".join(parts[:end]) in modules and (end > 1 or len(parts) == 1):
                return floor
    raise AssertionError(f"{module} stands on no floor")


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _names(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _imports(path: Path, module: str) -> list[str]:
    """Modules of the harness that a file imports, lazily or not."""
    found = []
    for name in _names(path):
        if name.split(".")[0] != "harness":
            continue
        as_file = ROOT / Path(*name.split("."))
        is_module = as_file.with_suffix(".py").exists() or (as_file / "__init__.py").exists()
        found.append(name if is_module else name.rpartition(".")[0])
    return found
