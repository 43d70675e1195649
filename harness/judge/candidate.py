"""Candidate: a stranger's file, read without running it, and given a name under which it can be imported."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.configuration.errors import UsageError, one_line
from harness.execution.processes import imports
from harness.problems.source import unpack

USUAL = "candidate"  # the function's name, if it is not the operation's


@dataclass(frozen=True)
class Candidate:
    """A file and the function in it, none of a problem's solution; `fault` says why it cannot be judged."""

    name: str
    path: Path
    function: str | None
    fault: str | None = None


def read(paths: Sequence[str], function: str | None, op: str | None) -> list[Candidate]:
    """The candidates in these files: `function`, or the one named as the operation is, or `candidate`.

    Without an operation, of a problem, a candidate is the whole file.
    Raises UsageError if a file cannot be read, or has no such function.
    """
    stems = [Path(path).stem for path in paths]
    names = [stem if stems.count(stem) == 1 else f"{stem}_{number}" for number, stem in enumerate(stems, 1)]
    return [_read(Path(path), name, function, op) for path, name in zip(paths, names, strict=True)]


def _read(path: Path, name: str, function: str | None, op: str | None) -> Candidate:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if op is None:
        return Candidate(name, path, None)
    wanted = [function] if function else [op.rpartition("/")[2], USUAL]
    try:
        offered = _names(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # of what is nested too deep
        return Candidate(name, path, wanted[0], f"is no Python: {one_line(error)}")
    found = next((each for each in wanted if each in offered), None)
    if found is None and function is None and len(offered) == 1:
        found = offered[0]
    if found is None:
        what = f"--fn={function}: {path}" if function else f"{path}"
        raise UsageError(f"{what} has no {' or '.join(wanted)}; it has: {', '.join(offered) or 'no functions'}")
    return Candidate(name, path, found)


def _names(module: ast.Module) -> list[str]:
    """The public names that a module gives a function, a class or a value, within `if`, `try` and `with` as well."""
    names: list[str] = []
    statements: list[ast.AST] = [*module.body]
    while statements:
        statement = statements.pop(0)
        if isinstance(statement, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
            statements = [*ast.iter_child_nodes(statement), *statements]
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names.append(statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in statement.names]
    return [name for name in dict.fromkeys(names) if not name.startswith("_") and not name.isupper()]


def variant(candidate: Candidate, folder: Path) -> dict[str, str]:
    """A candidate as a variant; if it is a function, its file is copied into `folder`, where imports find it.

    What stands beside the file is found as well, after everything else, by measuring processes alone.
    """
    if candidate.function is None:
        unpack(candidate.path)
        return {"solution": str(candidate.path.resolve())}
    module = f"judged_{re.sub(r'[^0-9A-Za-z_]', '_', candidate.name)}"
    shutil.copyfile(candidate.path, folder / f"{module}.py")
    imports.STRANGERS += [str(folder), str(candidate.path.resolve().parent)]
    return {"fn": f"{module}.{candidate.function}"}
