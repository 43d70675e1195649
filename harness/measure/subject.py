"""Subject: a variant bound to a mode and to inputs of its own, ready to be called."""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from operator import getitem, itemgetter
from typing import Any

import torch

from harness.configuration.operation import Variant, resolve
from harness.devices.base import Device

Outputs = tuple[Any, ...]
Path = tuple[Any, ...]  # the keys and positions that lead to a value within nested outputs


class Subject:
    """A variant that can be called again and again on the same inputs.

    Calling it does what the mode asks for: the forward pass without gradients; the backward pass alone, of a
    graph kept from one forward pass; or both.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        mode: str,
        seed: int,
        move: Callable[[Any], Any] | None = None,
    ):
        """`move`, where given, changes the upstream gradients: the reference's sensitivity to them."""
        self.name, self.function, self.mode, self.seed, self._move = name, function, mode, seed, move
        self.inputs = [own(value, with_gradient=mode != "forward") for value in inputs]
        self._leaves = [value for value in self.inputs if isinstance(value, torch.Tensor) and value.requires_grad]
        self.keys: tuple[str, ...] = ()  # of the outputs of its last call, where they are a dict
        self._seconds: list[float] = []
        self._paths: list[Path] = []  # where its outputs hold what has a gradient
        self._graph: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None
        self._upstream: list[torch.Tensor] | None = None

    def __call__(self) -> Outputs:
        start = time.perf_counter()
        outputs = self._call()
        self._seconds.append(time.perf_counter() - start)
        return outputs

    @property
    def call_s(self) -> float:
        """Seconds of its fastest call; 0 where it had but one, which may have compiled or loaded something."""
        return min(self._seconds) if len(self._seconds) > 1 else 0.0

    def _call(self) -> Outputs:
        if self.mode == "forward":
            with torch.no_grad():
                return self._outputs()
        if self.mode == "forward_backward":
            outputs = self._outputs()
            return outputs + self._gradients(*self._differentiable(outputs))
        if self._graph is None:
            self._graph = self._differentiable(self._outputs())
        return self._gradients(*self._graph, retain=True)

    def _outputs(self) -> Outputs:
        outputs = self.function(*self.inputs)
        self.keys = keys(outputs)
        self._paths = [path for path, value in _leaves(outputs) if _has_gradient(value)]
        return flatten(outputs)

    def timed(self) -> Callable[[], Any]:
        """The call itself, as a loop of one's own would make it, with nothing of ours in it; grad mode is the caller's.

        Values are left as autograd gives them: an input that takes no part has None for a gradient.
        """
        if self.mode == "forward":
            return partial(self.function, *self.inputs)
        if not self._seconds or (self.mode == "backward" and self._graph is None):
            self()
        if self.mode == "backward":
            outputs, upstream = self._graph  # type: ignore[misc]
            return partial(torch.autograd.grad, outputs, self._leaves, upstream, retain_graph=True, allow_unused=True)
        return _forward_backward(self.function, self.inputs, self._leaves, self._upstream or [], self._paths)

    def refresh(self, inputs: Sequence[Any]) -> None:
        """Writes new contents into the same tensors, at the same addresses."""
        with torch.no_grad():
            for mine, new in zip(self.inputs, inputs, strict=True):
                if isinstance(mine, torch.Tensor):
                    _storage(mine).copy_(_storage(new).to(mine.device))
        self._graph = None

    def changed_inputs(self, inputs: Sequence[Any]) -> list[int]:
        """Positions of inputs whose contents are no longer those of `inputs`."""
        return [
            position
            for position, (mine, new) in enumerate(zip(self.inputs, inputs, strict=True))
            if isinstance(mine, torch.Tensor) and not _same_bits(mine.detach().cpu(), new.detach())
        ]

    def returns_input(self, outputs: Outputs) -> bool:
        """Whether every output shares its memory with an input, so that nothing need have been computed."""
        mine = {t.untyped_storage().data_ptr() for t in self.inputs if isinstance(t, torch.Tensor)}
        tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
        return bool(tensors) and all(t.untyped_storage().data_ptr() in mine for t in tensors)

    def backward_graphs(self) -> int:
        """How many of the graphs that autograd would run backward are compiled ones."""
        if self.mode == "forward":
            return 0
        outputs = flatten(self.function(*self.inputs)) if self._graph is None else self._graph[0]
        pending = [output.grad_fn for output in outputs if isinstance(output, torch.Tensor)]
        seen = set[Any]()
        compiled: set[type] = set()  # AOTAutograd makes a class for each graph
        while pending:
            node = pending.pop()
            if node is not None and node not in seen:
                seen.add(node)
                pending += [after for after, _ in node.next_functions]
                if node.name() == "CompiledFunctionBackward":
                    compiled.add(type(node))
        return len(compiled)

    def _differentiable(self, outputs: Outputs) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The outputs that have a gradient, and a fixed upstream gradient for each."""
        grown = [output for output in outputs if _has_gradient(output)]
        if not grown or not self._leaves:
            raise ValueError(
                f"nothing to differentiate in mode {self.mode}: no output depends on an input with gradient"
            )
        if self._upstream is None:
            drawn = [upstream(output, self.seed + index) for index, output in enumerate(grown)]
            self._upstream = drawn if self._move is None else [self._move(gradient) for gradient in drawn]
        return grown, self._upstream

    def _gradients(self, outputs: list[torch.Tensor], upstream: list[torch.Tensor], retain: bool = False) -> Outputs:
        return torch.autograd.grad(outputs, self._leaves, upstream, retain_graph=retain, materialize_grads=True)


def bind(variant: Variant, device: Device) -> Callable[..., Any]:
    """The variant's function with its arguments bound, compiled where it says so."""
    function = resolve(variant.fn, f"op.variants.{variant.name}.fn")
    if variant.compile is None:
        return partial(function, **variant.args) if variant.args else function
    # Dynamo keeps its caches and its recompile limit by code object: a copy is a variant's own
    function = _own_code(function)
    bound = partial(function, **variant.args) if variant.args else function
    return torch.compile(bound, **{**device.compile_arguments(), **variant.compile})


def flatten(outputs: Any) -> Outputs:
    """Outputs as a flat tuple, whatever the function returned."""
    return tuple(value for _, value in _leaves(outputs))


def keys(outputs: Any) -> tuple[str, ...]:
    """The names under which a function returns its outputs, where it returns a dict."""
    return tuple(sorted(map(str, outputs))) if isinstance(outputs, dict) else ()


def own(value: Any, with_gradient: bool = False, device: torch.device | None = None) -> Any:
    """A copy of a tensor, at its own address, with the same sizes, strides and offset."""
    if not isinstance(value, torch.Tensor):
        return value
    copy = _storage(value.detach()).clone()
    if device is not None:
        copy = copy.to(device)
    copy = copy.as_strided(value.size(), value.stride(), value.storage_offset())
    return copy.requires_grad_(with_gradient and value.requires_grad)


def upstream(output: torch.Tensor, seed: int) -> torch.Tensor:
    """A fixed upstream gradient of an output's shape: of random sign and a size around one."""
    generator = torch.Generator().manual_seed(seed)
    # made in float32 whatever the dtype, so that the reference sees the same values
    values = torch.randn(output.shape, generator=generator, dtype=torch.float32)
    return values.bfloat16().to(output.dtype).to(output.device)


def _forward_backward(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    leaves: list[torch.Tensor],
    upstream: list[torch.Tensor],
    paths: list[Path],
) -> Callable[[], Any]:
    """Both passes in one call, which runs no Python of ours but itself unless outputs are nested."""
    grad = torch.autograd.grad
    if paths == [()]:
        (gradient,) = upstream
        return lambda: grad(function(*inputs), leaves, gradient, allow_unused=True)
    if all(len(path) == 1 for path in paths):
        select = itemgetter(*(key for (key,) in paths))
        return lambda: grad(select(function(*inputs)), leaves, upstream, allow_unused=True)

    def nested() -> Any:
        outputs = function(*inputs)
        return grad([reduce(getitem, path, outputs) for path in paths], leaves, upstream, allow_unused=True)

    return nested


def _leaves(outputs: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values in nested outputs, and where they are; those of a dict by key, whatever the order they were put in."""
    if isinstance(outputs, (tuple, list)):
        for position, output in enumerate(outputs):
            yield from _leaves(output, (*path, position))
    elif isinstance(outputs, dict):
        for key in sorted(outputs, key=str):
            yield from _leaves(outputs[key], (*path, key))
    else:
        yield path, outputs


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(function, types.FunctionType):
        return function
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _storage(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor's memory, flat."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left, right) or (
        torch.equal(left.nan_to_num(), right.nan_to_num()) and bool((left.isnan() == right.isnan()).all())
    )
