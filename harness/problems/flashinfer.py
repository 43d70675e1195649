"""FlashInfer-Trace: a definition, one of its workloads and its solutions, as an operation. Imports no torch.

The schema is that of flashinfer-bench, with what SOL-ExecBench adds to it: axes that are expressions, and inputs that
a function of the definition makes. The axes are the dims; those that a workload sets can vary.
"""

from __future__ import annotations

import ast
import contextlib
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError, one_line, unknown
from harness.configuration.operation import DTYPES
from harness.configuration.schema import declaration
from harness.problems.source import Sources, as_name, parsed, unpacked

CALLS = "harness.problems.flashinfer_calls"
NEEDED = ("name", "axes", "inputs", "outputs", "reference")
CONST, VAR, EXPRESSION = "const", "var", "expr"
AXES: dict[str, tuple[str | None, type]] = {CONST: ("value", int), VAR: (None, object), EXPRESSION: ("expression", str)}
FILE, CUSTOM = "safetensors", "custom"  # where an input comes from
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


@dataclass(frozen=True)
class Definition:
    """What a definition's file holds."""

    path: Path
    plain: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name in the data set."""
        return str(self.plain["name"])

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs' shapes, by the names of axes, and dtypes, in the order of the call."""
        return self.plain["inputs"]

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The same of the outputs."""
        return self.plain["outputs"]

    @property
    def reference(self) -> Sources:
        """The code of the reference."""
        return ((f"{self.name}.py", self.plain["reference"]),)

    @property
    def dtypes(self) -> list[str]:
        """The dtype of a case: that of the first input, or output, that has one of the harness's; any if none has."""
        kinds = [spec["dtype"] for spec in (*self.inputs.values(), *self.outputs.values()) if spec["shape"] is not None]
        return [kind for kind in kinds if kind in DTYPES][:1] or list(DTYPES)

    def axes(self, kind: str) -> dict[str, Any]:
        """The axes of a kind, as the definition gives them."""
        return {name: axis for name, axis in self.plain["axes"].items() if axis.get("type") == kind}

    def sizes(self, dims: Mapping[str, int]) -> dict[str, int]:
        """The sizes of all axes, those that are expressions among them."""
        sizes = dict(dims)
        for name, axis in self.axes(EXPRESSION).items():
            sizes[name] = int(_value(ast.parse(axis["expression"], mode="eval").body, sizes))
        return sizes


def definition(path: Path, key: str) -> Definition:
    """The definition of a file; `key` is what named it. Raises UsageError if it is none."""
    plain = _json(path.read_bytes(), key)
    missing = [part for part in NEEDED if part not in plain]
    if missing:
        raise UsageError(f"{key}: no definition of FlashInfer-Trace: it has no {' and no '.join(missing)}")
    _check(plain, key)
    return Definition(path, plain)


def _check(plain: Mapping[str, Any], key: str) -> None:
    """Raises UsageError for axes and tensors that are not as the schema has them, and for code that is not Python."""
    for part in ("axes", "inputs", "outputs"):
        if not isinstance(plain[part], Mapping) or not all(isinstance(each, Mapping) for each in plain[part].values()):
            raise UsageError(f"{key}: {part}={plain[part]}: expected a mapping of names to mappings")
    for name, axis in plain["axes"].items():
        kind = axis.get("type")
        if kind not in AXES:
            raise unknown(f"{key}: axes.{name}.type", kind, AXES)
        needed, of = AXES[kind]
        if kind == EXPRESSION and isinstance(axis.get(needed), str):
            _names(axis[needed], f"{key}: axes.{name}.{needed}", plain["axes"])
        if needed is not None and not isinstance(axis.get(needed), of):
            raise UsageError(
                f"{key}: axes.{name}.{needed}={axis.get(needed)}: expected {'text' if of is str else 'a size'}"
            )
    for part in ("inputs", "outputs"):
        for name, spec in plain[part].items():
            shape = spec.get("shape")
            if not isinstance(spec.get("dtype"), str) or not (shape is None or isinstance(shape, list)):
                raise UsageError(f"{key}: {part}.{name}={spec}: expected a shape, of axes or null, and a dtype")
            for axis in shape or ():
                if axis not in plain["axes"]:
                    raise unknown(f"{key}: {part}.{name}.shape", axis, plain["axes"], "axes")
    parsed(plain["reference"], f"{key}: reference")


def read(path: Path, part: str | None, key: str) -> dict[str, Any]:
    """The operation of a definition and one of its workloads: the one whose uuid begins with `part`, or the first.

    Raises UsageError if the file, or that of its workloads, is not of this form.
    """
    found = definition(path, key)
    with contextlib.suppress(OSError):  # for processes that may write nothing
        unpacked(found.reference)
    workload = _workload(found, part, key)
    sources = workload.get("inputs", {})
    kinds = {source.get("type") for source in sources.values()}
    free = not kinds & {FILE}  # else the sizes are those of the files
    variable = {name: _size(workload, name, shrunk=free) for name in found.axes(VAR)}
    constant = {name: axis["value"] for name, axis in found.axes(CONST).items()}
    made = {"problem": str(path)}
    return declaration(
        name=as_name(found.name),
        dims={**variable, **constant},
        inputs={"fn": f"{CALLS}.inputs", "args": {**made, "workload": {**workload, "inputs": sources}}},
        reference=None,
        baseline="reference",
        variants={"reference": {"fn": f"{CALLS}.reference", "args": made}},
        solution={"fn": f"{CALLS}.solution", "args": made},
        dtypes=found.dtypes,
        modes=["forward"],
        vary=list(variable) if free else [],
    )


def workloads(found: Definition, key: str) -> list[dict[str, Any]]:
    """The workloads of a definition, in the order of their file; none if there is no such file.

    It lies in workloads/, where the definition lies in definitions/, or beside it under its name or as workload.jsonl.
    """
    path = found.path
    places = [path.with_suffix(".jsonl"), path.with_name("workload.jsonl")]
    if "definitions" in path.parts:
        place = len(path.parts) - 1 - path.parts[::-1].index("definitions")
        places.insert(0, Path(*path.parts[:place], "workloads", *path.parts[place + 1 :]).with_suffix(".jsonl"))
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        return []
    lines = [line for line in file.read_bytes().splitlines() if line.strip()]
    return [_checked_workload(_json(line, where), where) for line, where in _numbered(lines, f"{key}: {file.name}")]


def _numbered(lines: Sequence[bytes], where: str) -> list[tuple[bytes, str]]:
    return [(line, f"{where}:{number}") for number, line in enumerate(lines, start=1)]


def _checked_workload(line: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The workload that a line holds; raises UsageError if it is not as the schema has it."""
    workload = line.get("workload", line)
    if not isinstance(workload, dict):
        raise UsageError(f"{where}: workload={workload}: expected a mapping")
    axes, inputs = workload.get("axes", {}), workload.get("inputs", {})
    if not isinstance(axes, Mapping) or not all(type(size) is int and size > 0 for size in axes.values()):
        raise UsageError(f"{where}: axes={axes}: expected a mapping of names to sizes")
    if not isinstance(inputs, Mapping) or not all(isinstance(each, Mapping) for each in inputs.values()):
        raise UsageError(f"{where}: inputs={inputs}: expected a mapping of names to mappings")
    return workload


def _workload(found: Definition, part: str | None, key: str) -> dict[str, Any]:
    known = workloads(found, key)
    if part is None:
        return known[0] if known else {"axes": {}, "inputs": {}}
    chosen = [workload for workload in known if str(workload.get("uuid")).startswith(part)]
    if len(chosen) != 1:
        raise unknown(key, part, [str(workload.get("uuid")) for workload in known], "workloads, by their uuid")
    return chosen[0]


def _size(workload: Mapping[str, Any], axis: str, shrunk: bool) -> str:
    """A variable axis's size as the configuration holds it; missing without a workload."""
    size = workload.get("axes", {}).get(axis)
    if size is None:
        return "???"
    return f"${{shrunk:{size},${{op.shrink}}}}" if shrunk else size


def _json(text: str | bytes, key: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{key}: not JSON: {one_line(error)}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{key}: holds no JSON object")
    return value


def _names(expression: str, key: str, axes: Mapping[str, Any]) -> None:
    """Raises UsageError for an expression that is not Python, or names what is no axis."""
    for node in ast.walk(parsed(expression, key)):
        if isinstance(node, ast.Name) and node.id not in axes:
            raise unknown(key, node.id, axes, "axes")


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Any:
    """The value of an expression of sizes and numbers."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.operand, sizes))
    raise ValueError(f"not an expression of sizes: {ast.unparse(node)}")
