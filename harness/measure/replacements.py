"""Replacements: functions of torch, of the clock and of the harness that a variant puts its own in place of.

A module that replaces `torch.rms_norm` when it is imported replaces it for every other variant as well.
"""

from __future__ import annotations

import builtins
import gc
import sys
import time
import types
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import torch

CALLED = (types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
CALLED += (types.GetSetDescriptorType, property, classmethod, staticmethod)


class Originals:
    """The public functions and classes of torch, and what measuring rests on, as they are at its creation."""

    def __init__(self) -> None:
        self._spaces = {}
        for title, space in _spaces():
            names = tuple(name for name, value in vars(space).items() if _watched(title, name, value))
            if len(names) > 1:
                get = itemgetter(*names)
                self._spaces[title] = space, names, get, get(vars(space))

    def restore(self) -> list[str]:
        """Puts back what was replaced; returns the dotted names."""
        changed = []
        for title, (space, names, get, values) in self._spaces.items():
            try:
                same = all(map(_is, get(vars(space)), values))
            except KeyError:  # one was removed
                same = False
            if not same:
                for name, value in zip(names, values, strict=True):
                    if vars(space).get(name) is not value:
                        setattr(space, name, value)
                        changed.append(f"{title}.{name}")
        return changed


def _is(left: Any, right: Any) -> bool:
    return left is right


def _spaces() -> Iterator[tuple[str, Any]]:
    """Modules and classes by the names under which they are known."""
    modules = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.autograd")
    modules += ("torch.cuda", "torch.accelerator", "torch.profiler", "torch.nn", "torch.optim", "torch.sparse")
    for name in modules:
        if name in sys.modules:
            yield name, sys.modules[name]
    yield "torch.Tensor", torch.Tensor
    yield "torch.nn.Module", torch.nn.Module
    yield "torch.ops.aten", torch.ops.aten
    yield from (("time", time), ("gc", gc), ("builtins", builtins))
    yield from ((name, module) for name, module in list(sys.modules.items()) if name.startswith("harness."))


def _watched(title: str, name: str, value: Any) -> bool:
    """Whether a name is one that code calls: a function or class, or what a property or operator stands for."""
    if name.startswith("__"):
        return title in ("torch.Tensor", "torch.nn.Module") and isinstance(value, CALLED)
    if name.startswith("_") and not title.startswith("harness."):
        return False
    return callable(value) or isinstance(value, CALLED)
