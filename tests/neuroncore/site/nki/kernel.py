"""Kernels: what nki.jit makes of a function. Traced at the first call for given shapes, then run on the core."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .tensor import Buffer, Launch, NkiTensor, NkiValidationError, launched

LNC = "NEURON_LOGICAL_NC_CONFIG"


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Makes a kernel of a function; the options are ignored."""
    return Kernel(function) if function is not None else Kernel


class Kernel:
    """A kernel on a grid of one or two programs. In a cost table it is `nki::` and its function's name."""

    def __init__(
        self, function: Callable[..., Any], programs: int | None = None, traced: set[object] | None = None
    ) -> None:
        self._function = function
        self._programs = programs
        self._traced: set[object] = set() if traced is None else traced
        functools.update_wrapper(self, function)

    def __getitem__(self, grid: int) -> Kernel:
        if grid not in (1, 2):
            raise NkiValidationError(f"NKI only supports LNC 1 or 2, but got {grid}")
        return Kernel(self._function, grid, self._traced)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if {tensor.device.type for tensor in tensors} != {"neuron"}:
            raise RuntimeError("NKI kernels run on neuron tensors alone")
        if any(isinstance(tensor, torch._subclasses.FakeTensor) for tensor in tensors):
            return self._interpret(args, kwargs)
        self._trace(args, kwargs)
        if self._programs is not None and os.environ.get(LNC, str(self._programs)) != str(self._programs):
            raise RuntimeError(f"NRT: a kernel of LNC={self._programs} cannot run where {LNC}={os.environ[LNC]}")
        from torch_neuronx import _core

        return _core.execute(f"nki::{self.__name__}", lambda *_: self._run(args, kwargs), *tensors)

    def _trace(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises what the kernel raises for such inputs, before anything runs."""
        given = tuple((key, _kind(value)) for key, value in (*enumerate(args), *sorted(kwargs.items())))
        signature = (self._programs, given)
        if signature not in self._traced:
            meta = [_on_meta(value) for value in args]
            self._interpret(meta, {key: _on_meta(value) for key, value in kwargs.items()})
            from torch_neuronx import _compiler

            _compiler.build(self.__name__, _compiler.identity(self.__name__, signature), _compiler.KERNEL)
            self._traced.add(signature)

    @torch.no_grad()
    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Runs it on copies in the host's own memory, where each of its lines costs less, and unseen by modes."""
        copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

        def copied(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return copies.setdefault(id(value), (value, value.cpu()))[1]

        with _disable_current_modes():
            outputs = self._interpret([*map(copied, args)], {key: copied(value) for key, value in kwargs.items()})
            for value, copy in copies.values():
                if copy._version:  # the kernel has written to it
                    value.copy_(copy)
            if isinstance(outputs, tuple):
                return tuple(output.to("neuron") for output in outputs)
            return outputs.to("neuron")

    @torch.no_grad()
    def _interpret(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        device = next(value.device for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        shared: list[torch.Tensor] = []
        programs = self._programs or 1
        for program in range(programs):
            with launched(Launch(program, programs, device, shared)):
                outputs = self._function(*map(_in_hbm, args), **{key: _in_hbm(value) for key, value in kwargs.items()})
        return tuple(map(_output, outputs)) if isinstance(outputs, (tuple, list)) else _output(outputs)


def _kind(value: Any) -> object:
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value


def _on_meta(value: Any) -> Any:
    return torch.empty(value.shape, dtype=value.dtype, device="meta") if isinstance(value, torch.Tensor) else value


def _in_hbm(value: Any) -> Any:
    return NkiTensor(value.contiguous(), Buffer.hbm) if isinstance(value, torch.Tensor) else value


def _output(value: Any) -> torch.Tensor:
    if not isinstance(value, NkiTensor) or value.buffer is not Buffer.shared_hbm:
        raise RuntimeError("the kernel does not compile: it must return tensors in shared_hbm")
    return value.data
