"""Watching a step: hooks on every module and on torch's functions, which say who calls what with which arguments."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.profiler import record_function

from harness.measure import torch_private
from harness.measure.trees import flatten
from harness.model.recording.signature import likeness, signature, with_values
from harness.model.recording.times import FUNCTION_SPAN, MODULE_SPAN, WATCHING
from harness.model.step import FUNCTION, MODULE, Call

Versions = list[tuple[torch.Tensor, int]]  # tensors, and how often each had been written in place


@dataclass(frozen=True)
class Seen:
    """The calls of one step, in the order of their start, and the different signatures that they had."""

    calls: list[Call]
    signatures: list[Any]
    autocast: set[torch.dtype]  # to which torch.autocast casts where modules are called


def name_of(kind: type) -> str:
    """`torch.nn.modules.linear.Linear` as people import it: `torch.nn.Linear`."""
    if kind.__module__.startswith("torch.nn.modules.") and getattr(nn, kind.__name__, None) is kind:
        return f"torch.nn.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


@contextlib.contextmanager
def annotated(model: nn.Module) -> Iterator[None]:
    """Each module's call within is an annotation in a profile: `module layers.0.mlp (MLP)`."""
    open_: list[Any] = []

    def enter(label: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            around = span(label)
            around.__enter__()
            open_.append(around)

        return hook

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        open_.pop().__exit__(None, None, None)

    with _hooked(model, lambda path, module: enter(label(path, name_of(type(module)))), leave):
        yield


def label(path: str, function: str) -> str:
    """The annotation of a module's call: `module layers.0.mlp (MLP)`."""
    return f"{MODULE_SPAN}{path} ({function.rpartition('.')[2]})"


def span(label: str) -> Any:
    """A context that a profile shows as an annotation, or as an operator at a tenth of its cost."""
    return torch_private.span(label) or record_function(label)


def is_compiled(module: nn.Module) -> bool:
    """Whether it is what torch.compile made of a module."""
    return isinstance(getattr(module, "_orig_mod", None), nn.Module)


@contextlib.contextmanager
def watched(model: nn.Module, dtype: torch.dtype) -> Iterator[Seen]:
    """Fills a Seen with the calls within; `dtype` is the step's own, which signatures do not repeat.

    What is compiled runs as it was written: what stands in between would have it compile once more, or fail.
    """
    watcher = _Watcher(model, dtype)
    with _eager(), _hooked(model, watcher.entered, watcher.left), watcher:
        yield watcher.seen


def _eager() -> AbstractContextManager[Any]:
    """A context in which compiled functions run as they were written; nothing has been compiled without Dynamo."""
    compiled = torch_private.DYNAMO in sys.modules
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


class _Watcher(TorchFunctionMode):
    """Sees calls of modules by hooks, and calls of torch's functions by being in between."""

    def __init__(self, model: nn.Module, dtype: torch.dtype):
        super().__init__()
        self._device = next((value.device.type for value in model.parameters()), "cpu")
        self.seen = Seen([], [], set())
        self._dtype = dtype
        self._known: dict[str, int] = {}  # positions of signatures by their text
        self._positions: dict[Any, int] = {}  # and by the likeness of what was given
        self._stack: list[tuple[int, ExitStack, Versions]] = []  # module calls that are open: position, what is around
        self._watching = False  # what is done to see is not seen
        self._configs: dict[int, str] = {}

    def _between(self) -> AbstractContextManager[Any]:
        """Sees functions within, unless it does already.

        Torch sets it aside while it is in a function of its own, and calls modules from there, as a checkpoint's.
        """
        return nullcontext() if torch_private.is_function_mode(self) else self

    def entered(self, path: str, module: nn.Module) -> Callable[..., None]:
        self._configs[id(module)] = _config(module)

        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            self._watching = True
            if torch.is_autocast_enabled(self._device):
                self.seen.autocast.add(torch.get_autocast_dtype(self._device))
            given = _given(module, args, kwargs)
            position = self._add(MODULE, name_of(type(module)), path, given, self._configs[id(module)])
            around = ExitStack()
            around.enter_context(span(f"{MODULE_SPAN}{position}"))
            around.enter_context(self._between())
            self._stack.append((position, around, _versions(args, kwargs)))
            self._watching = False

        return hook

    def left(self, module: nn.Module, args: Any, output: Any) -> None:
        self._watching = True
        position, around, versions = self._stack.pop()
        around.close()
        self._look(position, versions, output)
        self._watching = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if self._watching or not self._stack or name in ("__get__", "__set__", "__delete__"):
            return function(*args, **kwargs)
        path = self.seen.calls[self._stack[-1][0]].path
        given = {"args": tuple(args), "kwargs": dict(kwargs)}
        position = self._add(FUNCTION, _dotted(function), path, given, "")
        versions = _versions(args, kwargs)
        with span(f"{FUNCTION_SPAN}{position}"):
            output = function(*args, **kwargs)
        self._look(position, versions, output)
        return output

    def _look(self, position: int, versions: Versions, output: Any) -> None:
        """Notes whether a call wrote into what it was given, and whether what it returned takes a gradient."""
        writes = any(torch_private.version(tensor) != version for tensor, version in versions)
        differentiable = any(isinstance(value, torch.Tensor) and value.requires_grad for value in flatten(output))
        if writes or differentiable:
            call = self.seen.calls[position]
            self.seen.calls[position] = replace(call, writes=writes, differentiable=differentiable)

    def _add(self, kind: str, function: str, path: str, given: dict[str, Any], config: str) -> int:
        parent = self._stack[-1][0] if self._stack else -1
        self.seen.calls.append(Call(kind, function, path, parent, self._signature(function, given), config))
        return len(self.seen.calls) - 1

    def _signature(self, function: str, given: dict[str, Any]) -> int:
        """The position of a call's signature, which is made once for all that are alike."""
        alike = (function, likeness(given))
        if alike not in self._positions:
            plain = signature(given, self._dtype)
            key = repr((function, plain))
            if key not in self._known:
                self._known[key] = len(self.seen.signatures)
                with span(WATCHING):  # the only operators of its own
                    self.seen.signatures.append(with_values(given, plain))
            self._positions[alike] = self._known[key]
        return self._positions[alike]


@contextlib.contextmanager
def _hooked(
    model: nn.Module, enter: Callable[[str, nn.Module], Callable[..., None]], leave: Callable[..., None]
) -> Iterator[None]:
    """Hooks that run before all others of a module, and after them."""
    handles = []
    compiled = [path for path, module in model.named_modules() if is_compiled(module)]
    try:
        for path, module in model.named_modules():
            if any(path.startswith(f"{outer}.") for outer in compiled):
                continue  # what is inside is called by the compiler, which hooks would change
            handles.append(module.register_forward_pre_hook(enter(path, module), prepend=True, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, always_call=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _config(module: nn.Module) -> str:
    """A digest of what sets a module's calls apart from those of another of its class.

    That is how it prints, its shapes, and the truth values and fractions that it and its modules hold: whole numbers
    and texts may say no more than which of many it is.
    """
    shapes = [(name, tuple(value.shape)) for name, value in module.named_parameters()]
    held = [
        (path, name, value)
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, (bool, float)) and not name.startswith("_")
    ]
    try:
        printed = repr(module)
    except Exception:  # which a model's own extra_repr may raise
        printed = ""
    return hashlib.sha256(f"{printed} {shapes} {held}".encode()).hexdigest()[:16]


def _given(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a module is called with: by position, or all of it by name, with what harness.model.replay.module takes.

    It is by name if some of it was, and if a tensor is given twice, which is told once.
    """
    names = names_of(type(module).forward)
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    firsts: dict[int, str] = {}  # the first name of each tensor
    same = {
        name: first
        for name, value in named.items()
        if isinstance(value, torch.Tensor) and (first := firsts.setdefault(id(value), name)) != name
    }
    if len(args) > len(names) or not (kwargs or same):
        return {"args": tuple(args), "kwargs": dict(kwargs)}
    given = {"args": (), "kwargs": {name: value for name, value in named.items() if name not in same}}
    return given | ({"by_position": len(args)} if args else {}) | ({"same": same} if same else {})


def _versions(args: Any, kwargs: dict[str, Any]) -> Versions:
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    return [(tensor, torch_private.version(tensor)) for tensor in tensors if not tensor.is_inference()]


@functools.cache
def names_of(forward: Any) -> list[str]:
    """The names of the positional arguments of a class's forward; none if some of them cannot be given by name."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())[1:]
    except (TypeError, ValueError):
        return []
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):
        return []
    return [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


@functools.cache
def _dotted(function: Any) -> str:
    """A function's dotted path, by which it is found again if it can be."""
    name = getattr(function, "__name__", "")
    offered = resolve_name(function)
    module, own = getattr(function, "__module__", None) or "torch", getattr(function, "__qualname__", repr(function))
    paths = [offered, f"torch.ops.{offered}", f"{module}.{own}", f"{torch_private.FUNCTIONS_BEHIND}.{name}"]
    return next((path for path in paths if path and _leads_to(path, function)), offered or f"{module}.{own}")


def _leads_to(path: str, function: Any) -> bool:
    try:
        return bool(pkgutil.resolve_name(path) == function)
    except (ImportError, AttributeError, ValueError):
        return False
