"""KernelBench: a file with Model, get_inputs and get_init_inputs, as an operation. Imports no torch.

The sizes are the whole numbers that the file assigns at its top, such as `batch_size = 16`. They are the dims: each
can be set, swept and shrunk, in which case the file is executed with another number in that place. The form is that
of Ouyang et al., KernelBench: Can LLMs Write Efficient GPU Kernels?, 2025.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.configuration.operation import RESERVED_DIMS
from harness.configuration.schema import declaration
from harness.problems.source import as_name, parsed

NEEDED = ("Model", "get_inputs")
NEW = "ModelNew"
CALLS = "harness.problems.kernelbench_calls"
ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def read(path: Path, part: str | None, key: str) -> dict[str, Any]:
    """The operation of a file; `key` is what named it. Its variants are the model, eager and compiled, and ModelNew.

    Raises UsageError if the file is not of this form.
    """
    if part is not None:
        raise UsageError(f"{key}: a file of KernelBench's form is one problem, which has no {part}")
    tree = parsed(path.read_bytes(), key)
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    missing = [name for name in NEEDED if name not in defined]
    if missing:
        raise UsageError(f"{key}: no problem of KernelBench's form: it defines no {' and no '.join(missing)}")
    made = {"problem": str(path), "sizes": "${op.dims}"}
    model = {"fn": f"{CALLS}.model", "args": made}
    new = {"new": {"fn": f"{CALLS}.solution", "args": {**made, "file": str(path)}}} if NEW in defined else {}
    return declaration(
        name=as_name(path.stem),
        dims={name: f"${{shrunk:{size},${{op.shrink}}}}" for name, size in sizes(tree).items()},
        inputs={"fn": f"{CALLS}.inputs", "args": {"problem": str(path)}},
        reference=None,
        baseline="model",
        variants={"model": model, "compiled": {**model, "compile": {}}, **new},
        solution={"fn": f"{CALLS}.solution", "args": made},
        vary=[],  # what solves it may be written for its sizes
        signs=True,  # many draw inputs by torch.rand, of which ReLU changes none
    )


def sizes(tree: ast.Module) -> dict[str, int]:
    """The positive whole numbers that a file assigns to names at its top."""
    found = {}
    for name, node in assigned(tree):
        size = _number(node.value)
        if size is not None and size > 0 and name not in RESERVED_DIMS:
            found[name] = size
    return found


def resized(tree: ast.Module, chosen: Mapping[str, int]) -> ast.Module:
    """The tree with the chosen sizes in place of those that it assigns; changes the tree itself."""
    for name, node in assigned(tree):
        if name in chosen and _number(node.value) is not None:
            node.value = ast.copy_location(ast.Constant(chosen[name]), node.value)
    return tree


def assigned(tree: ast.Module) -> list[tuple[str, ast.Assign]]:
    """The assignments to single names at a file's top."""
    return [
        (node.targets[0].id, node)
        for node in tree.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    ]


def _number(node: ast.expr) -> int | None:
    """The whole number that an expression of numbers gives, such as 1024 * 4; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = _number(node.left), _number(node.right)
        if left is None or right is None or (isinstance(node.op, ast.Pow) and not 0 <= right < 64):
            return None
        return int(ARITHMETIC[type(node.op)](left, right)) if right or not isinstance(node.op, ast.FloorDiv) else None
    return None
