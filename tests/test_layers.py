"""The layers: imports run downward only, as CONTRIBUTING's table lists them, and files stay short."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENTRIES = 17  # of the package's root: doors and rooms, nothing else


def layers() -> list[list[str]]:
    """The rows of CONTRIBUTING's table, from the lowest layer up: the names that each row's first cell lists."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| package | owns |")[2]
    rows = [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    return [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in rows]


LAYERS = layers()


def test_the_table_names_what_is_there() -> None:
    """No more and no less: the table is the one list."""
    entries = {path.stem for path in (ROOT / "harness").iterdir() if path.stem not in ("__init__", "__pycache__")}
    assert {name for names in LAYERS for name in names} == entries
    assert len(entries) + 1 <= ENTRIES


def test_imports_run_downward() -> None:
    for path in sorted((ROOT / "harness").rglob("*.py")):
        module = _module(path)
        for imported in _imports(path, module):
            assert _layer(imported) <= _layer(module), f"{module} imports {imported}, which lies above it"


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


def _layer(module: str) -> int:
    """The place of a module's package among the layers; what the root itself holds lies below and above all."""
    parts = module.split(".")
    if len(parts) == 1:
        return -1
    return next(place for place, names in enumerate(LAYERS) if parts[1] in names)


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


def test_no_file_is_long() -> None:
    """What takes more than 300 lines is more than one noun."""
    lines = {path.name: path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "harness").rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > 300} == {}
