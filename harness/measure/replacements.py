"""Replacements: functions of torch, the clock and the harness that a variant has monkey-patched.

A module that replaces `torch.rms_norm` when it is imported replaces it for every other variant as well.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import torch

CALLED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.GetSetDescriptorType,
    property,
    classmethod,
    staticmethod,
)
MODULES = (
    "torch",
    "torch.accelerator",
    "torch.autograd",
    "torch.cuda",
    "torch.fft",
    "torch.linalg",
    "torch.nn",
    "torch.nn.functional",
    "torch.optim",
    "torch.profiler",
    "torch.sparse",
    "torch.special",
    "time",
    "gc",
    "builtins",
)
BY_COMPILER = {"torch.nn.Module.__init__", "torch.nn.Module.__setstate__"}  # which Dynamo replaces as it is imported


class Originals:
    """The public functions and classes of torch, and what measuring rests on, as they are at its creation."""

    def __init__(self) -> None:
        self._spaces = {}
        self._inherited = {"torch.Tensor": (torch.Tensor, _shadowable(torch.Tensor))}
        for title, space in _spaces():
            names = tuple(name for name, value in vars(space).items() if _watched(title, name, value))
            if len(names) > 1:
                get = itemgetter(*names)
                self._spaces[title] = space, names, get, get(vars(space))

    def restore(self) -> list[str]:
        """Restores everything that was replaced; returns the dotted names."""
        changed = []
        for title, (space, names, get, values) in self._spaces.items():
            try:
                same = all(map(_is, get(vars(space)), values))
            except KeyError:  # one was removed
                same = False
            if not same:
                for name, value in zip(names, values, strict=True):
                    now = vars(space).get(name)
                    if now is not value and not _by_torch(name, now):
                        changed.append(f"{title}.{name} (to {_origin(now)})")
                        setattr(space, name, value)
        for title, (kind, inherited) in self._inherited.items():
            for name in inherited & vars(kind).keys():  # set on the class, it hides what the class inherits
                changed.append(f"{title}.{name} (to {_origin(vars(kind)[name])})")
                delattr(kind, name)
        return changed


def _shadowable(kind: type) -> frozenset[str]:
    """The names that a class inherits, and does not have of its own."""
    return frozenset(name for name in dir(kind) if name not in vars(kind))


def _origin(replacement: Any) -> str:
    """The dotted name of a replacement: `my_kernels.slow`."""
    module = getattr(replacement, "__module__", None)
    name = getattr(replacement, "__qualname__", None)
    return f"{module}.{name}" if module and name else "nothing" if replacement is None else type(replacement).__name__


def _by_torch(name: str, replacement: Any) -> bool:
    """Whether it is torch's own of the same name, as torch replaces some when Dynamo is imported."""
    module = getattr(replacement, "__module__", None)
    known = getattr(replacement, "__name__", None)
    return known == name and str(module).startswith("torch.")


def _is(left: Any, right: Any) -> bool:
    return left is right


def _spaces() -> Iterator[tuple[str, Any]]:
    """Modules and classes by the names under which they are known."""
    yield from ((name, sys.modules[name]) for name in MODULES if name in sys.modules)
    yield "torch.Tensor", torch.Tensor
    yield "torch.nn.Module", torch.nn.Module
    yield "torch.ops.aten", torch.ops.aten
    yield from ((name, module) for name, module in list(sys.modules.items()) if name.startswith("harness."))


def _watched(title: str, name: str, value: Any) -> bool:
    """Whether a name is one that code calls: a function or class, or what a property or operator stands for."""
    if f"{title}.{name}" in BY_COMPILER:
        return False
    if name.startswith("__"):
        return title in ("torch.Tensor", "torch.nn.Module") and isinstance(value, CALLED)
    if name.startswith("_") and not title.startswith("harness."):
        return False
    return callable(value) or isinstance(value, CALLED)
