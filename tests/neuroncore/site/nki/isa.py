"""nki.isa, as far as it is simulated: one function an instruction, each of which writes `dst`."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch

from . import language as nl
from .tensor import PARTITIONS, NkiTensor, NkiValidationError

__all__ = ["NkiValidationError"]

REDUCTIONS = {"add": torch.sum, "maximum": torch.amax, "minimum": torch.amin}


class reduce_cmd(enum.Enum):  # noqa: N801
    idle = 0
    reset_reduce = 3


def dma_copy(dst: NkiTensor, src: NkiTensor, **options: Any) -> None:
    """Between HBM and SBUF; converts the data type."""
    for tensor in (dst, src):
        assert tensor.buffer is not nl.psum, "dma_copy cannot access PSUM; copy it to SBUF by tensor_copy"
    assert dst.data.numel() == src.data.numel(), f"dma_copy of {src.shape} into {dst.shape}"
    dst.data.copy_(src.data.reshape(dst.shape))


def tensor_copy(dst: NkiTensor, src: NkiTensor, **options: Any) -> None:
    _write("tensor_copy", dst, nl.wide(src))


def memset(dst: NkiTensor, value: float, **options: Any) -> None:
    dst.data.fill_(value)


def reciprocal(dst: NkiTensor, data: NkiTensor, **options: Any) -> None:
    _write("reciprocal", dst, torch.reciprocal(nl.wide(data)))


def tensor_tensor(dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op: Callable, **options: Any) -> None:
    assert data1.shape == data2.shape, f"tensor_tensor of {data1.shape} and {data2.shape}"
    _write("tensor_tensor", dst, op.math(nl.wide(data1), nl.wide(data2)))


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Callable,
    operand0: NkiTensor | float,
    reverse0: bool = False,
    op1: Callable | None = None,
    operand1: NkiTensor | float | None = None,
    reverse1: bool = False,
    **options: Any,
) -> None:
    values = nl.wide(data)
    for op, operand, reverse in ((op0, operand0, reverse0), (op1, operand1, reverse1)):
        if op is not None:
            scalar = _of_partitions("tensor_scalar", operand, data)
            values = op.math(scalar, values) if reverse else op.math(values, scalar)
    _write("tensor_scalar", dst, values)


def tensor_reduce(
    dst: NkiTensor,
    op: Callable,
    data: NkiTensor,
    axis: Any,
    negate: bool = False,
    keepdims: bool = False,
    **options: Any,
) -> None:
    values = REDUCTIONS[op.__name__](nl.wide(data), nl.free_axes(data, axis), keepdims)
    _write("tensor_reduce", dst, -values if negate else values)


def activation(
    dst: NkiTensor,
    op: Callable,
    data: NkiTensor,
    bias: NkiTensor | float | None = None,
    scale: NkiTensor | float = 1.0,
    reduce_op: Callable | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    **options: Any,
) -> None:
    values = nl.wide(data) * _of_partitions("activation", scale, data)
    if bias is not None:
        values = values + _of_partitions("activation", bias, data)
    values = op.math(values)
    _write("activation", dst, values)
    if reduce_res is not None:
        assert reduce_op is nl.add, "activation reduces by nl.add alone"
        assert reduce_cmd.name == "reset_reduce", f"reduce_cmd {reduce_cmd.name} is not simulated"
        _write("activation", reduce_res, values.flatten(1).sum(1, keepdim=True))


def _of_partitions(name: str, operand: Any, data: NkiTensor) -> Any:
    """A number, or one of float32 for each partition of `data`."""
    if not isinstance(operand, NkiTensor):
        return operand
    assert operand.shape == (data.shape[0], 1), (
        f"{name} by a tile of {operand.shape} where ({data.shape[0]}, 1) is taken"
    )
    assert operand.dtype == "float32", f"{name} by a tile of {operand.dtype} where float32 is taken"
    return nl.wide(operand)


def _write(name: str, dst: NkiTensor, values: torch.Tensor) -> None:
    assert dst.buffer.on_chip, f"{name} writes SBUF or PSUM, not {dst.buffer.name}"
    assert values.shape[0] <= PARTITIONS, f"{name}: partition dimension {values.shape[0]} exceeds {PARTITIONS}"
    assert dst.data.numel() == values.numel(), f"{name} of {tuple(values.shape)} into {dst.shape}"
    dst.data.copy_(values.reshape(dst.shape))
