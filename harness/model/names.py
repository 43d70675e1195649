"""Names: of functions and classes, of groups of their calls, and of the places in a model where these are."""

from __future__ import annotations

import pkgutil
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from harness.configuration.operation import Function
from harness.model import plain

NUMBER = re.compile(r"\d+")


def named(value: Any) -> Any:
    """The dotted path of a function or class that a process can import by it; anything else as it is."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__":
        return value
    try:
        return f"{module}.{name}" if pkgutil.resolve_name(f"{module}:{name}") is value else value
    except (ImportError, AttributeError, ValueError):
        return value


def pattern(paths: Sequence[str]) -> str:
    """Paths in one: `layers.*.norm` for those that differ in a number, `layers.*.{q,k}` for those of one parent."""
    skeletons: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for path in paths:
        parts = path.split(".")
        skeletons[tuple(NUMBER.sub("*", part) for part in parts)].append(parts)
    last: dict[str, list[str]] = defaultdict(list)  # parts, by what stands before them
    for skeleton, alike in skeletons.items():
        columns = zip(skeleton, zip(*alike, strict=True), strict=True)
        parts = [column[0] if len(set(column)) == 1 else part for part, column in columns]
        last[".".join(parts[:-1])].append(parts[-1])
    texts = []
    for parent, parts in last.items():
        joined = parts[0] if len(parts) == 1 else f"{{{','.join(parts)}}}"
        texts.append(f"{parent}.{joined}" if parent else joined)
    shown = texts if len(texts) <= 3 else [*texts[:2], f"{len(texts) - 2} more"]
    return ", ".join(text or "(the model)" for text in shown)


def short(function: Function) -> str:
    """The last part of a dotted path, or the name of an object."""
    return (function if isinstance(function, str) else getattr(function, "__name__", "")).rpartition(".")[2]


def of_call(function: str, signature: Any) -> str:
    """`LlamaRMSNorm_1x64x128`: the function, without underscores around it, and the shape of its first tensor."""
    tensors = plain.tensors(signature)
    shape = f"_{plain.shape(tensors[0][plain.TENSOR])}" if tensors else ""
    return (re.sub(r"[^A-Za-z0-9_.-]+", "_", short(function)).strip("_") or "_") + shape


def unique(names: Sequence[str]) -> list[str]:
    """The names, with numbers after those that are taken."""
    unique: dict[str, None] = {}
    for name in names:
        chosen, number = name, 1
        while chosen in unique:
            number += 1
            chosen = f"{name}_{number}"
        unique[chosen] = None
    return list(unique)
