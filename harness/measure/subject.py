"""Subject: a variant bound to a mode and to inputs of its own, ready to be called."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from time import perf_counter  # bound here: a variant may replace the module's
from typing import Any

import torch

from harness.configuration.operation import SEEDS, Inputs
from harness.measure import torch_private
from harness.measure.modules import State
from harness.measure.outputs import BUFFER, INPUT, OUTPUT, PARAMETER, Label, Outputs
from harness.measure.tensors import addresses, hide, odd, overwrite, own, same
from harness.measure.trees import Field, Path, dotted, flatten, getter, keys, same_form, tree_map, walk


class Subject:
    """A variant that can be called again and again on the same inputs.

    Calling it does what the mode asks for: the forward pass without gradients; the backward pass alone, of a
    graph kept from one forward pass; or both. A module begins each call with the buffers that it had at first.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Any] | dict[str, Any],
        mode: str,
        seed: int,
        state: State | None = None,
        move: Callable[[Any], Any] | None = None,
    ):
        """`state` is that of the module behind the function, if there is one.

        `move`, if given, changes the upstream gradients: the reference's sensitivity to them.
        """
        self.name = name
        self.function = function
        self.mode = mode
        self.seed = seed
        self.state = state
        self._move = move
        self._parameters = {} if state is None or mode == "forward" else state.parameters
        self._hold(inputs)
        self._device = self._tensors[0].device if self._tensors else None
        self.keys: tuple[str, ...] = ()  # of the dicts in the outputs of its last call
        self.labels: tuple[Label, ...] = ()  # of the values that its last call gave
        self._output_labels: tuple[Label, ...] = ()
        self._value_labels: tuple[Label, ...] = ()
        self._seconds: list[float] = []
        self._paths: list[Path] = []  # where its outputs hold what has a gradient
        self._graph: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None
        self._upstream: list[torch.Tensor] | None = None

    def _hold(self, inputs: Sequence[Any] | dict[str, Any], device: torch.device | None = None) -> None:
        """Takes copies of the inputs, at every depth of lists, tuples and dicts."""
        with_gradient = self.mode != "forward"
        held = inputs if isinstance(inputs, dict) else list(inputs)
        self.inputs: Inputs = tree_map(lambda value: own(value, with_gradient, device), held)
        self._call_function = bound(self.function, self.inputs)
        tensors = [(path, value) for path, value in walk(self.inputs) if isinstance(value, torch.Tensor)]
        self._tensors = [value for _, value in tensors]
        leaves = [(Label(INPUT, dotted(path)), value) for path, value in tensors if value.requires_grad]
        leaves += [(Label(PARAMETER, name), value) for name, value in self._parameters.items()]
        self._leaf_labels = tuple(label for label, _ in leaves)
        self._leaves = [value for _, value in leaves]

    def __call__(self) -> Outputs:
        """The outputs, then gradients, then the contents of buffers, as `labels` says."""
        if self.state is not None and self._graph is None:
            self.state.restore()
        start = perf_counter()
        outputs = self._call()
        self._seconds.append(perf_counter() - start)
        buffers = () if self.state is None else tuple(self.state.buffers())
        self.labels = (*self._value_labels, *(Label(BUFFER, name) for name, _ in buffers))
        return (*outputs, *(value for _, value in buffers))

    @property
    def bound(self) -> Callable[..., Any]:
        """Its function with its inputs."""
        return self._call_function

    @property
    def call_s(self) -> float:
        """Seconds of its fastest call; 0 if it had but one, which may have compiled or loaded something."""
        return min(self._seconds) if len(self._seconds) > 1 else 0.0

    def _call(self) -> Outputs:
        if self.mode == "forward":
            with torch.no_grad():
                outputs = self._outputs()
            self._value_labels = self._output_labels
            return outputs
        if self.mode == "forward_backward":
            outputs = self._outputs()
            self._value_labels = self._output_labels + self._leaf_labels
            return outputs + self._gradients(*self._differentiable(outputs))
        if self._graph is None:
            self._graph = self._differentiable(self._outputs())
        self._value_labels = self._leaf_labels
        return self._gradients(*self._graph, retain=True)

    def _outputs(self) -> Outputs:
        outputs = self._call_function()
        self.keys = keys(outputs)
        values = list(walk(outputs))
        self._paths = [path for path, value in values if _has_gradient(value)]
        self._output_labels = tuple(Label(OUTPUT, dotted(path)) for path, _ in values)
        return tuple(value for _, value in values)

    def timed(self) -> Callable[[], Any]:
        """The call itself, without any code of the harness; the caller sets grad mode.

        Values are left as autograd gives them: an input that takes no part has None for a gradient.
        """
        if self.mode == "forward":
            return self._call_function
        if self._upstream is None:
            self()
        if self.mode == "backward":
            if self._graph is None:
                if self.state is not None:
                    self.state.restore()
                self._graph = self._differentiable(self._outputs())
            outputs, upstream = self._graph
            return partial(torch.autograd.grad, outputs, self._leaves, upstream, retain_graph=True, allow_unused=True)
        return _forward_backward(self._call_function, self._leaves, self._upstream or [], self._paths)

    def on(self, inputs: Sequence[Any] | dict[str, Any], seed: int) -> Subject:
        """The same variant on inputs and upstream gradients of its own, which it has not been called with."""
        other = copy.copy(self)
        other.seed = seed
        other._hold(inputs, self._device)
        other._graph = None
        drawn = None if self._upstream is None else [upstream(g, seed + i) for i, g in enumerate(self._upstream)]
        other._upstream = drawn
        return other

    def hide(self) -> Callable[[], None]:
        """Takes the contents out of its inputs' memory; what is returned puts them back, before it is called.

        In mode=backward they stay: the graph that is run backward has been made of them.
        """
        puts = [] if self.mode == "backward" else [hide(tensor) for tensor in self._tensors]

        def show() -> None:
            for put in puts:
                put()

        return show

    def refresh(self, inputs: Sequence[Any] | dict[str, Any]) -> None:
        """Writes new contents into the same tensors, at the same addresses if these are of the same size.

        Upstream gradients and parameters, which a variant may have overwritten, are restored.
        """
        if self.state is not None:
            self.state.renew()
        inputs = inputs if isinstance(inputs, dict) else list(inputs)
        reused = same_form(self.inputs, inputs) and all(
            overwrite(current, new)
            if isinstance(current, torch.Tensor) and isinstance(new, torch.Tensor)
            else same(current, new)
            for current, new in zip(flatten(self.inputs), flatten(inputs), strict=True)
        )
        if not reused:
            self._hold(inputs, self._device)
        for index, gradient in enumerate(self._upstream or ()):
            overwrite(gradient, upstream(gradient, self.seed + index))
        self._graph = None

    def forget_graph(self) -> None:
        """Has the next call run forward as well, whatever the mode."""
        self._graph = None

    def changed_inputs(self, inputs: Sequence[Any] | dict[str, Any]) -> list[str]:
        """Positions or names of inputs whose contents are no longer those of `inputs`."""
        return [
            str(name)
            for (name, current), (_, new) in zip(_items(self.inputs), _items(inputs), strict=True)
            if not same_form(current, new) or not all(map(same, flatten(current), flatten(new)))
        ]

    def versions(self) -> list[int]:
        """How often each of its tensors has been written in place: a cheap look at whether someone did."""
        weights = [] if self.state is None else self.state.versions()
        return [torch_private.version(tensor) for tensor in (*self._tensors, *(self._upstream or ()))] + weights

    def returns_input(self, outputs: Outputs) -> bool:
        """Whether every output shares its memory with an input, so that nothing need have been computed."""
        own_memory = {address for tensor in self._tensors for address in addresses(tensor)}
        computed = [output for label, output in zip(self.labels, outputs, strict=True) if label.kind != BUFFER]
        tensors = [output for output in computed if _filled(output)]
        return bool(tensors) and all(addresses(tensor)[-1] in own_memory for tensor in tensors)

    def returns_again(self, first: Outputs, second: Outputs) -> bool:
        """Whether an output of a second call lies where one of the first does, which is not what the call was given."""
        state = () if self.state is None else (*self.state.module.parameters(), *self.state.module.buffers())
        given = (*self._tensors, *state, *(self._upstream or ()))
        known = {address for tensor in given for address in addresses(tensor)}
        held, again = (
            {address for value in outputs for address in _addresses(value)} - known for outputs in (first, second)
        )
        return bool(held & again)

    def backward_graphs(self) -> int:
        """How many of the graphs that autograd would run backward are compiled ones."""
        if self.mode == "forward":
            return 0
        outputs = flatten(self._call_function()) if self._graph is None else self._graph[0]
        pending = [output.grad_fn for output in outputs if isinstance(output, torch.Tensor)]
        seen = set[Any]()
        compiled: set[type] = set()  # AOTAutograd makes a class for each graph
        while pending:
            node = pending.pop()
            if node is not None and node not in seen:
                seen.add(node)
                pending += [after for after, _ in node.next_functions]
                if node.name() == torch_private.COMPILED_BACKWARD:
                    compiled.add(type(node))
        return len(compiled)

    def _differentiable(self, outputs: Outputs) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The outputs that have a gradient, and a fixed upstream gradient for each."""
        grown = [output for output in outputs if _has_gradient(output)]
        if not grown or not self._leaves:
            raise ValueError(
                f"nothing to differentiate in mode {self.mode}: no output depends on an input, or on a parameter, that "
                "takes a gradient"
            )
        if self._upstream is None:
            drawn = [upstream(output, self.seed + index) for index, output in enumerate(grown)]
            self._upstream = drawn if self._move is None else [self._move(gradient) for gradient in drawn]
        return grown, self._upstream

    def _gradients(self, outputs: list[torch.Tensor], upstream: list[torch.Tensor], retain: bool = False) -> Outputs:
        return torch.autograd.grad(outputs, self._leaves, upstream, retain_graph=retain, materialize_grads=True)


def bound(function: Callable[..., Any], inputs: Inputs) -> Callable[..., Any]:
    """A call with the inputs: with keyword arguments if they are a dict."""
    return partial(function, **inputs) if isinstance(inputs, dict) else partial(function, *inputs)


def upstream(output: torch.Tensor, seed: int) -> torch.Tensor:
    """A fixed upstream gradient of an output's shape: of random sign and a size around one."""
    generator = torch.Generator().manual_seed(seed % SEEDS)
    # drawn in float32 whatever the dtype, so that the reference sees the same values
    values = torch.randn(output.shape, generator=generator, dtype=torch.float32, device="cpu").bfloat16().float()
    if output.dtype.is_complex:  # a real one could not distinguish an output from its conjugate
        imaginary = torch.randn(output.shape, generator=generator, dtype=torch.float32, device="cpu")
        values = torch.complex(values, imaginary.bfloat16().float())
    return values.to(output.dtype).to(output.device)


def _forward_backward(
    call: Callable[[], Any], leaves: list[torch.Tensor], upstream: list[torch.Tensor], paths: list[Path]
) -> Callable[[], Any]:
    """Both passes in one call, which adds no Python but one lambda unless outputs are nested."""
    grad = torch.autograd.grad
    if paths == [()]:
        (gradient,) = upstream
        return lambda: grad(call(), leaves, gradient, allow_unused=True)
    if all(len(path) == 1 and not isinstance(path[0], Field) for path in paths):
        select = itemgetter(*(key for (key,) in paths))
        return lambda: grad(select(call()), leaves, upstream, allow_unused=True)
    getters = [getter(path) for path in paths]

    def nested() -> Any:
        outputs = call()
        return grad([get(outputs) for get in getters], leaves, upstream, allow_unused=True)

    return nested


def _items(inputs: Sequence[Any] | dict[str, Any]) -> Iterable[tuple[Any, Any]]:
    return inputs.items() if isinstance(inputs, dict) else enumerate(inputs)


def _addresses(value: Any) -> list[int]:
    """Where an output's memory begins, if it has any."""
    return addresses(value) if _filled(value) else []


def _filled(value: Any) -> bool:
    """Whether a value is a tensor that has elements, in memory that can be looked at."""
    return isinstance(value, torch.Tensor) and odd(value) is None and value.numel() > 0


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
