"""Replacements: functions of torch, the clock, the harness and the operation that a variant has monkey-patched.

A module that replaces `torch.rms_norm` when it is imported replaces it for every other variant as well. What measuring
itself rests on is watched more closely: whole classes, constants, the code of functions, objects in use.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
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
    "zlib",
)
HARNESS = "harness."
# What is sent is made and written by these
SENDING = ("dataclasses", "json", "json.encoder", "multiprocessing.connection")
CLOCK = "time."
LIBRARY = "variants."
IMMUTABLE = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)  # but for who finds the dict behind
BUILT_IN = frozenset(vars(builtins))
# What the time of a block rests on: looked at after each turn
TIMING = (
    "harness.measure.latency",
    "harness.measure.garbage",
    "harness.measure.interference",
    "harness.execution.worker.time_slices",
)
BUILT_INS = tuple(f"builtins.{kind.__name__}." for kind in IMMUTABLE)
BODY = attrgetter("__code__", "__defaults__", "__kwdefaults__")
BY, BODY_EXCHANGED = " (to ", " (another body)"  # in the names of what was replaced
BY_COMPILER = {"torch.nn.Module.__init__", "torch.nn.Module.__setstate__"}  # which Dynamo replaces as it is imported


class Originals:
    """Functions and classes, and what measuring rests on, as they are at the creation of this.

    `spaces` are modules and classes by their titles; all that is watched, if there are none.
    """

    def __init__(self, spaces: Iterable[tuple[str, Any]] | None = None) -> None:
        self._spaces: dict[str, tuple[Any, tuple[str, ...], Callable[..., Any], tuple[Any, ...]]] = {}
        self._inherited: dict[str, tuple[Any, frozenset[str]]] = {}  # names that hide others, if they are set
        self._bodies: list[tuple[str, types.FunctionType]] = []
        self._known = set[int]()
        self._parts: list[Any] = []  # of the bodies, three of each
        self._calls: list[tuple[dict[str, Any], str, Any, tuple[Any, ...], list[tuple[torch.Tensor, ...]]]] = []
        self._objects: list[tuple[Any, frozenset[str]]] = []
        self._vital: tuple[str, ...] = (HARNESS, CLOCK, LIBRARY, *BUILT_INS, *(f"{name}." for name in SENDING))
        if spaces is None:
            self._inherited["torch.Tensor"] = (torch.Tensor, _shadowable(torch.Tensor))
        for title, space in _spaces() if spaces is None else spaces:
            names = [name for name, value in vars(space).items() if _watched(title, name, value)]
            self._watch(title, space, names, bodies=_measures(title) or title == "torch.nn.functional")

    def add(self, function: Any) -> None:
        """Watches a function of the operation's, and its whole module if that is one of the library's."""
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
        space = sys.modules.get(module)
        if space is None:  # it was sent by value
            self._watch_body(f"{module}.{name}", function)
            return
        whole = module.startswith(LIBRARY)
        names = [
            known
            for known, value in vars(space).items()
            if value is function or isinstance(value, types.ModuleType) or (whole and callable(value))
        ]
        self._vital += () if whole else tuple(f"{module}.{known} " for known in names)
        self._watch(module, space, names, bodies=True)

    def guard(self, guarded: Any) -> None:
        """Watches an object: nothing may hide the methods of its class."""
        methods = frozenset(name for name in dir(type(guarded)) if callable(getattr(type(guarded), name)))
        self._objects.append((guarded, methods - vars(guarded).keys()))

    def hold(self, calls: dict[str, Any], name: str) -> None:
        """Watches a call, for as long as it is in `calls`, and what it is bound to."""
        parts = _bound(calls[name])
        self._calls.append((calls, name, calls[name], parts, [(each, each.detach()) for each in _tensors(parts)]))

    def restore(self) -> list[str]:
        """Restores everything that was replaced; returns the dotted names, and what they were replaced by."""
        changed = []
        for title, (space, names, get, values) in self._spaces.items():
            try:
                same = all(map(_is, get(vars(space)), values))
            except KeyError:  # one was removed
                same = False
            if not same:
                for name, value in zip(names, values, strict=False):
                    now = vars(space).get(name)
                    if now is not value and not _by_torch(name, now):
                        changed.append(f"{title}.{name}{BY}{_origin(now)})")
                        _put(space, name, value)
        for title, (kind, inherited) in self._inherited.items():
            if inherited.isdisjoint(vars(kind)):
                continue
            for name in inherited & vars(kind).keys():  # set on a class, it hides what the class inherits
                changed.append(f"{title}.{name}{BY}{_origin(vars(kind)[name])})")
                delattr(kind, name)
        for guarded, methods in self._objects:
            for name in methods & vars(guarded).keys():
                kind = type(guarded)
                changed.append(f"{kind.__module__}.{kind.__qualname__}.{name}{BY}{_origin(vars(guarded)[name])})")
                delattr(guarded, name)
        return changed + self._restore_calls() + self._restore_bodies()

    def vital(self, changed: Sequence[str]) -> list[str]:
        """Those names of `restore` that measuring rests on, for which a variant has no honest use."""
        return [name for name in changed if name.startswith(self._vital)]

    def _watch(self, title: str, space: Any, names: Sequence[str], bodies: bool) -> None:
        if not names:
            return
        get = itemgetter(*names, names[0])  # of one name alone, it would make no tuple
        self._spaces[title] = space, tuple(names), get, get(vars(space))
        if _measures(title) or title.startswith(LIBRARY):
            known = _shadowable(space) if isinstance(space, type) else BUILT_IN - vars(space).keys()
            self._inherited[title] = space, known
        if bodies:
            for name in names:
                self._watch_body(f"{title}.{name}", vars(space)[name])

    def _watch_body(self, title: str, value: Any) -> None:
        """Watches a function's code, which can be exchanged while the function is the same."""
        value = getattr(value, "__func__", getattr(value, "fget", value))
        if isinstance(value, types.FunctionType) and id(value) not in self._known:
            self._known.add(id(value))
            self._bodies.append((title, value))
            self._parts += BODY(value)

    def _restore_calls(self) -> list[str]:
        changed = []
        for calls, name, call, parts, tensors in self._calls:
            for tensor, known in tensors:
                if _form(tensor) != _form(known):
                    tensor.__class__ = type(known)
                    tensor.data = known
                    changed.append(f"{HARNESS}measure.latency.Sampler: the inputs of {name}")
            now = calls.get(name, call)
            if now is not call or not all(map(_is, _bound(call), parts)):
                calls[name] = call
                if isinstance(call, partial):
                    function, keywords, *arguments = parts
                    vars(partial)["__setstate__"](call, (function, tuple(arguments), keywords, {}))
                changed.append(f"{HARNESS}measure.latency.Sampler: the call of {name}{BY}{_origin(now)})")
        return changed

    def _restore_bodies(self) -> list[str]:
        now = chain.from_iterable(BODY(function) for _, function in self._bodies)
        if all(map(_is, now, self._parts)):
            return []
        changed = []
        for index, (title, function) in enumerate(self._bodies):
            known = self._parts[3 * index : 3 * index + 3]
            if not all(map(_is, BODY(function), known)):
                function.__code__, function.__defaults__, function.__kwdefaults__ = known
                changed.append(f"{title}{BODY_EXCHANGED}")
        return changed


def replaces(changed: str) -> bool:
    """Whether a name of changed state is that of a function, or of something like it, that was replaced."""
    return BY in changed or changed.endswith(BODY_EXCHANGED)


def of_timing() -> Originals:
    """What the time of a block rests on; to look at it takes some ten microseconds."""
    return Originals((title, space) for title, space in _spaces() if title == "time" or title.startswith(TIMING))


def _bound(call: Any) -> tuple[Any, ...]:
    """What a partial function is made of."""
    return (call.func, call.keywords, *call.args) if isinstance(call, partial) else ()


def _shadowable(kind: type) -> frozenset[str]:
    """The names that a class inherits, and does not have of its own."""
    return frozenset(name for name in dir(kind) if name not in vars(kind))


def _tensors(parts: Sequence[Any]) -> list[torch.Tensor]:
    """The plain strided tensors among what a call is bound to."""
    return [each for each in parts if type(each) is torch.Tensor and each.layout == torch.strided]


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a tensor is but for its contents: the same values in another form may take longer."""
    return type(tensor), tensor.data_ptr(), tensor.stride(), tensor.dtype


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


def _put(space: Any, name: str, value: Any) -> None:
    """Sets a name of a module or class; of a class that takes none, in the dict behind it, where it was replaced."""
    try:
        setattr(space, name, value)
    except TypeError:
        gc.get_referents(vars(space))[0][name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(space))


def _is(left: Any, right: Any) -> bool:
    return left is right


def _spaces() -> Iterator[tuple[str, Any]]:
    """Modules and classes by the names under which they are known."""
    yield from ((name, sys.modules[name]) for name in MODULES if name in sys.modules)
    yield "torch.Tensor", torch.Tensor
    yield "torch.nn.Module", torch.nn.Module
    yield "torch.ops.aten", torch.ops.aten
    yield from ((f"builtins.{kind.__name__}", kind) for kind in IMMUTABLE)
    for name, module in list(sys.modules.items()):
        if name.startswith(HARNESS) or name in SENDING:
            yield name, module
            kinds = {value for value in vars(module).values() if isinstance(value, type) and value.__module__ == name}
            yield from ((f"{name}.{kind.__name__}", kind) for kind in kinds)


def _watched(title: str, name: str, value: Any) -> bool:
    """Whether a name is one that code calls: a function or class, or what a property or operator stands for."""
    if f"{title}.{name}" in BY_COMPILER:
        return False
    if _measures(title) and isinstance(value, types.FunctionType):
        return True
    if name.startswith("__"):
        return title in ("torch.Tensor", "torch.nn.Module") and isinstance(value, CALLED)
    if _measures(title) and (name.isupper() or isinstance(value, types.ModuleType)):  # a constant, or what it calls
        return True
    if name.startswith("_") and not _measures(title):
        return False
    return callable(value) or isinstance(value, CALLED)


def _measures(title: str) -> bool:
    """Whether it is a module of the harness or of what sends its results, or a class there."""
    return title.startswith((HARNESS, *SENDING))
