"""Replacing modules of a model, by modules or functions of the same interface, and where one first differs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from harness.configuration.errors import UsageError, nearest, one_line
from harness.configuration.operation import Function, Inputs, resolve
from harness.measure import memory
from harness.measure.modules import exact, exact_bytes
from harness.measure.precision import upcast
from harness.measure.subject import bound
from harness.measure.trees import flatten, tree_map
from harness.model.names import named, short
from harness.model.recording import known
from harness.model.recording.known import same
from harness.model.recording.watch import name_of
from harness.model.replacements import COMPILE

TENSORS = ("weight", "bias")  # arguments of constructors that say whether there is one
LEFT_TO_TORCH = ("device", "dtype")


def replaced(model: nn.Module, replacements: Sequence[Mapping[str, Any]]) -> nn.Module:
    """The model with modules replaced, in place; the new one if it is the model itself.

    A replacement is {"of": class, "by": module class or function}, both by dotted path, or with "at", a list of paths,
    in place of "of". Hooks, and whether it trains, go along. Raises UsageError if there is nothing to replace, or if a
    class does not fit.
    """
    for replacement in replacements:
        by = resolve(replacement["by"], "replace.by")
        done: dict[int, nn.Module] = {}  # a module that stands at several places is replaced once
        for path in targets(model, replacement):
            old = model.get_submodule(path)
            if id(old) not in done:
                new = _replaced(old, replacement["by"], by)
                done |= {id(old): new, id(new): new}
            if not path:
                return done[id(old)]
            _put(model, path, done[id(old)])
    return model


def targets(model: nn.Module, replacement: Mapping[str, Any]) -> list[str]:
    """The paths of the modules that a replacement replaces; those inside another of them are left out."""
    modules = dict(model.named_modules(remove_duplicate=False))
    if "at" in replacement:
        return [path for path in replacement["at"] if path in modules]
    kind = resolve(replacement["of"], "replace.of")
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise UsageError(f"replace.of={named(replacement['of'])}: not a class of modules")
    found = [path for path, module in modules.items() if isinstance(module, kind)]
    if not found:
        names = sorted({name_of(type(module)) for module in modules.values()})
        hint = nearest(short(replacement["of"]), [name.rpartition(".")[2] for name in names])
        raise UsageError(f"replace.of={named(replacement['of'])}: the model has none; {hint}it has: {', '.join(names)}")
    return [path for path in found if not any(path.startswith(f"{outer}.") for outer in found if outer)]


def first_difference(model: nn.Module, replacement: Mapping[str, Any], inputs: Inputs) -> str | None:
    """The path of the first replaced module, in the order of calls, that returns something else than before.

    None if none does, or if that cannot be found out: it raises, or a copy in float64 does not fit into memory.
    """
    if exact_bytes(model) > memory.free_bytes():
        return None
    try:
        paths = targets(model, replacement)
        before = _outputs(exact(model, torch.float64), paths, inputs)
        after = _outputs(replaced(exact(model, torch.float64), [replacement]), paths, inputs)
    except Exception:  # it may raise anything, and is measured all the same
        return None
    for (path, left), (_, right) in zip(before, after, strict=False):
        if not same(left, right):
            return path or "the model itself"
    return None


def _put(model: nn.Module, path: str, new: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    if isinstance(owner, (nn.ModuleList, nn.Sequential)) and name.isdigit():
        owner[int(name)] = new
    else:
        setattr(owner, name, new)


def _replaced(old: nn.Module, name: Function, by: Callable[..., Any]) -> nn.Module:
    if name == COMPILE:
        return _of_class(old, _compiled(type(old).forward))
    if isinstance(by, type) and issubclass(by, nn.Module):
        if issubclass(by, type(old)) and by.__init__ is type(old).__init__:
            old.__class__ = by
            return old
        return _module(old, by)
    library = known.module_forward(name) if isinstance(name, str) else None
    return _of_class(old, _calling(by) if library is None else library)


def _of_class(old: nn.Module, forward: Callable[..., Any]) -> nn.Module:
    """The module with another forward: its parameters keep their names, and its hooks stay."""
    old.__class__ = type(type(old).__name__, (type(old),), {"forward": forward})
    return old


def _compiled(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that is compiled once for all alike modules; its recompile limit is its own, as in `bind`."""
    arguments: dict[str, Any] = {"isolate_recompiles": True}
    return torch.compile(forward, **arguments)


def _calling(by: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that calls a function with the call's arguments and the module.

    The module is its argument `module`; if it has none, the last one without a default that the call leaves out.
    """
    try:
        parameters = list(inspect.signature(by).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [parameter.name for parameter in parameters]
    if "module" in names:
        if names[0] == "module":
            return lambda self, *args, **kwargs: by(self, *args, **kwargs)
        return lambda self, *args, **kwargs: by(*args, module=self, **kwargs)

    first = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [(p.name, p.kind is first[0]) for p in parameters if p.default is p.empty and p.kind in first]

    @functools.wraps(by)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        missing = [each for each in needed[len(args) :] if each[0] not in kwargs]
        if not missing:
            return by(*args, **kwargs)
        name, unnamed = missing[-1]
        return by(*args, self, **kwargs) if unnamed else by(*args, **kwargs, **{name: self})

    return forward


def _module(old: nn.Module, kind: type[nn.Module]) -> nn.Module:
    """A module of another class with the state of the old one."""
    where = f"replace.by={name_of(kind)}"
    try:
        new = kind(**_constructor(old, kind, where))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{where}: raised {type(error).__name__}: {one_line(error)}") from error
    parameter = next(old.parameters(), None)
    if parameter is not None:
        new.to(device=parameter.device, dtype=parameter.dtype)
    _take_over(old, new, where)
    return new.train(old.training)


def _take_over(old: nn.Module, new: nn.Module, where: str) -> None:
    """Gives the new module the parameters and buffers of the old one, which stay shared where they are."""
    theirs = dict(old.named_parameters(remove_duplicate=False)) | dict(old.named_buffers(remove_duplicate=False))
    mine = dict(new.named_parameters(remove_duplicate=False)) | dict(new.named_buffers(remove_duplicate=False))
    unlike = [name for name, value in mine.items() if name not in theirs or theirs[name].shape != value.shape]
    if unlike and "module" not in inspect.signature(type(new)).parameters:
        raise UsageError(
            f"{where}: {name_of(type(old))} has no {', '.join(unlike)} of its shape to give it; let its constructor "
            "take the module that it replaces, as `module`"
        )
    for name in mine.keys() - unlike:
        owner, _, last = name.rpartition(".")
        given = theirs[name]
        if isinstance(mine[name], nn.Parameter) and not isinstance(given, nn.Parameter):
            given = nn.Parameter(given, requires_grad=False)  # as a buffer, which it was
        setattr(new.get_submodule(owner), last, given)


def _constructor(old: nn.Module, kind: type[nn.Module], where: str) -> dict[str, Any]:
    """The arguments of a class's constructor: what the old module has under their names, or the module as `module`."""
    given: dict[str, Any] = {}
    missing = []
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in LEFT_TO_TORCH:
            continue
        if parameter.name == "module":
            given["module"] = old
        elif parameter.name in TENSORS and hasattr(old, parameter.name):
            given[parameter.name] = getattr(old, parameter.name) is not None
        elif hasattr(old, parameter.name):
            given[parameter.name] = getattr(old, parameter.name)
        elif parameter.default is parameter.empty:
            missing.append(parameter.name)
    if missing:
        raise UsageError(
            f"{where}: its constructor asks for {', '.join(missing)}, which {name_of(type(old))} has no attribute of; "
            "let it take the module that it replaces, as `module`"
        )
    return given


def _outputs(model: nn.Module, paths: Sequence[str], inputs: Inputs) -> list[tuple[str, Any]]:
    """What each call of the modules at these paths returns, in one forward pass."""
    seen: list[tuple[str, Any]] = []

    def keep(path: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            seen.append((path, [value.clone() for value in flatten(output) if isinstance(value, torch.Tensor)]))

        return hook

    for path in paths:
        model.get_submodule(path).register_forward_hook(keep(path))
    with torch.no_grad():
        bound(model, tree_map(upcast, inputs))()
    return seen
