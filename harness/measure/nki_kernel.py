"""NKI kernels: called eagerly, or as an operator within a compiled graph; and the cases that they do not support.

A kernel is what `nki.jit` makes: called on Neuron tensors, `kernel[2](x)` on two cores. An operator is what
`torch_neuronx.nki_op` makes of a function that launches one: torch.compile keeps it whole, and `register_autograd`
gives it a gradient. NKI kernels say which inputs they take by assertions, and NKI what a core can do by assertions and
NkiValidationError, all of them while the kernel is traced, at its first call for these shapes.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import re
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import Inputs, Variant, describe

NO_FORMULA = "register_autograd"  # in what torch says when an operator without a gradient is differentiated
NAMESPACE = "harness"  # of the operators that are made of kernels
TORCH = Path(torch.__file__).parent


class UnsupportedError(Exception):
    """A kernel does not support this case, which is no fault of it; the message says why."""


def check(variant: Variant, inputs: Inputs) -> None:
    """Raises UsageError if what `nki` names is no kernel, or cannot be launched as the variant asks."""
    kernel = variant.function()
    where = f"{variant.key}={describe(kernel)}"
    if not _is_kernel(kernel) and not _is_operator(kernel):
        raise UsageError(f"{where}: neither a kernel, which nki.jit makes, nor an operator, which nki_op makes")
    if variant.grid is not None and not _is_kernel(kernel):
        raise UsageError(
            f"op.variants.{variant.name}.grid={variant.grid}: {describe(kernel)} is an operator, which launches its "
            "kernel itself; name the kernel, or leave grid out"
        )
    given = inputs if isinstance(inputs, dict) else dict(enumerate(inputs))
    odd = [name for name, value in given.items() if not isinstance(value, torch.Tensor)]
    if odd and variant.compile is not None and _is_kernel(kernel):
        raise UsageError(f"{where}: input {odd[0]} is no tensor, which the operator of a compiled kernel cannot take")


def bind(variant: Variant, inputs: Inputs) -> Callable[..., Any]:
    """The kernel or operator, on its grid and with its arguments bound; a kernel to be compiled is made an operator.

    Raises UnsupportedError if NKI knows no such grid.
    """
    kernel: Any = variant.function()
    with _refusals("this grid"):
        launched = kernel if variant.grid is None else kernel[variant.grid]
    bound = partial(launched, **variant.args) if variant.args else launched
    if variant.compile is None:
        return bound
    if not _is_kernel(kernel):
        return lambda *inputs, **named: bound(*inputs, **named)
    return _operator(bound, variant.name, list(inputs) if isinstance(inputs, dict) else [])


@contextlib.contextmanager
def first_call(variant: Variant, mode: str) -> Iterator[None]:
    """A context for the first call; raises UnsupportedError where the kernel does not take the inputs or the mode.

    Other exceptions are faults, and are raised without what torch.compile wraps them in.
    """
    without = f"it has no gradient, which mode={mode} needs: name an operator of nki_op with register_autograd"
    if not variant.nki:
        yield
        return
    if mode != "forward" and _is_kernel(variant.function()):
        raise UnsupportedError(without)
    try:
        with _refusals("these inputs"):
            yield
    except Exception as error:
        if mode != "forward" and any(NO_FORMULA in str(cause) for cause in _chain(error)):
            raise UnsupportedError(without) from error
        raise _unwrapped(error) from None


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Raises UnsupportedError where a kernel, or NKI, says that it does not take what it is given."""
    try:
        yield
    except Exception as error:
        refusal = next(filter(_is_refusal, _chain(error)), None)
        if refusal is None:
            raise
        raise UnsupportedError(f"the kernel does not take {what}: {_words(refusal)}") from error


def _is_kernel(function: Any) -> bool:
    """Whether it takes a grid in brackets, as kernels alone do."""
    return hasattr(type(function), "__getitem__")


def _is_operator(function: Any) -> bool:
    return hasattr(function, "register_autograd")


def _operator(kernel: Callable[..., Any], name: str, keywords: Sequence[str]) -> Callable[..., Any]:
    """A function that calls the kernel through an operator of its own, with inputs by these keywords if there are any.

    Its schema, (Tensor[] inputs) -> Tensor[], fits any kernel: neither how many tensors it takes nor how many it
    returns is known before it is called.
    """

    def launch(inputs: Any) -> Any:
        outputs = kernel(**dict(zip(keywords, inputs, strict=True))) if keywords else kernel(*inputs)
        return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]

    launch.__annotations__ = {"inputs": list[torch.Tensor], "return": list[torch.Tensor]}
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    unique = f"{NAMESPACE}::{plain}_{zlib.crc32(name.encode()):08x}"  # the same in each process, as caches want it
    operator = importlib.import_module("torch_neuronx").nki_op(unique, mutates_args=())(launch)

    def call(*inputs: Any, **named: Any) -> Any:
        outputs = operator([*inputs, *(named[keyword] for keyword in keywords)])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those behind it: torch.compile wraps what a kernel raises."""
    pending: list[BaseException | None] = [error]
    seen = set[int]()
    while pending:
        current = pending.pop(0)
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            yield current
            pending += [getattr(current, "inner_exception", None), current.__cause__, current.__context__]


def _unwrapped(error: Exception) -> BaseException:
    """The error without those of torch's that were raised because of it."""
    inner: BaseException = error
    while type(inner).__module__.startswith("torch") and (inner.__cause__ or inner.__context__):
        inner = inner.__cause__ or inner.__context__ or inner
    return inner


def _is_refusal(error: BaseException) -> bool:
    """Whether a kernel or NKI says that inputs do not fit; torch's own assertions are none of theirs."""
    if type(error).__name__ == "NkiValidationError":  # its module differs between versions of NKI
        return True
    return isinstance(error, AssertionError) and TORCH not in Path(_raised_at(error).filename).parents


def _words(error: BaseException) -> str:
    """What the error says, or the line of an assertion without words."""
    if str(error).strip():
        return one_line(error)
    place = _raised_at(error)
    line = linecache.getline(place.filename, place.lineno or 0).strip()
    return f"{line or type(error).__name__} ({Path(place.filename).name}:{place.lineno})"


def _raised_at(error: BaseException) -> traceback.FrameSummary:
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1] if frames else traceback.FrameSummary("", 0, "")
