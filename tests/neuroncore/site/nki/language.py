"""nki.language, as far as it is simulated: memory, loops, the grid, and functions of tiles, computed in float32.

A function of tiles also names the operation of an instruction of nki.isa: `op=nl.add`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from .tensor import PARTITIONS, Buffer, NkiTensor, current

float32, bfloat16, float16 = "float32", "bfloat16", "float16"
int32, int16, int8, uint8 = "int32", "int16", "int8", "uint8"
sbuf, psum, hbm, private_hbm, shared_hbm = Buffer
tile_size = SimpleNamespace(
    pmax=PARTITIONS, psum_fmax=512, gemm_stationary_fmax=128, gemm_moving_fmax=512, sbuf_size_bytes=24 * 2**20
)

static_range = affine_range = sequential_range = range


def ds(start: int, size: int) -> slice:
    return slice(start, start + size)


def program_id(axis: int = 0) -> int:
    return current().program


def num_programs(axes: int = 0) -> int:
    return current().programs


def ndarray(shape: tuple[int, ...], dtype: str, buffer: Buffer = sbuf, name: str = "") -> NkiTensor:
    return current().allocate(tuple(shape), dtype, buffer)


def full(shape: tuple[int, ...], fill_value: float, dtype: str, buffer: Buffer = sbuf, name: str = "") -> NkiTensor:
    tensor = ndarray(shape, dtype, buffer)
    tensor.data.fill_(fill_value)
    return tensor


def zeros(shape: tuple[int, ...], dtype: str, buffer: Buffer = sbuf, name: str = "") -> NkiTensor:
    return full(shape, 0, dtype, buffer)


def load(src: NkiTensor, dtype: str | None = None) -> NkiTensor:
    assert not src.buffer.on_chip, f"load reads HBM, not {src.buffer.name}"
    tile = ndarray(src.shape, dtype or src.dtype)
    tile.data.copy_(src.data)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    assert not dst.buffer.on_chip, f"store writes HBM, not {dst.buffer.name}"
    assert dst.shape == value.shape, f"store of a tile of {value.shape} into {dst.shape}"
    dst.data.copy_(value.data)


def broadcast_to(x: NkiTensor, shape: tuple[int, ...], dtype: str | None = None) -> NkiTensor:
    assert len(shape) == len(x.shape), f"broadcast of {x.shape} to {tuple(shape)}: of another rank"
    tile = ndarray(shape, dtype or x.dtype)
    tile.data.copy_(x.data)
    return tile


def wide(operand: NkiTensor | float) -> torch.Tensor | float:
    """An operand of an engine, which computes in float32."""
    if not isinstance(operand, NkiTensor):
        return operand
    assert operand.buffer.on_chip, f"an engine reads SBUF or PSUM, not {operand.buffer.name}"
    return operand.data.float()


def _of_tiles(math: Callable[..., torch.Tensor], name: str) -> Callable[..., NkiTensor]:
    """A function of one or two tiles, or of a tile and a number, that makes a tile."""

    def function(*operands: Any, dtype: str | None = None) -> NkiTensor:
        tiles = [operand for operand in operands if isinstance(operand, NkiTensor)]
        assert tiles, f"{name} of no tile"
        assert len({tile.shape[0] for tile in tiles}) == 1, (
            f"{name} of {[tile.shape for tile in tiles]}: partitions differ"
        )
        result = math(*map(wide, operands))
        made = ndarray(tuple(result.shape), dtype or tiles[0].dtype)
        made.data.copy_(result)
        return made

    function.__name__ = name
    function.math = math
    return function


def _reduction(math: Callable[..., torch.Tensor], name: str) -> Callable[..., NkiTensor]:
    """A function that reduces the last dimensions of a tile, its partitions excepted."""

    def function(x: NkiTensor, axis: Any, dtype: str | None = None, keepdims: bool = False) -> NkiTensor:
        result = math(wide(x), free_axes(x, axis), keepdims)
        made = ndarray(tuple(result.shape), dtype or x.dtype)
        made.data.copy_(result)
        return made

    function.__name__ = name
    return function


def free_axes(x: NkiTensor, axis: Any) -> list[int]:
    """The axes of a reduction; they must be the tile's last."""
    axes = sorted([axis] if isinstance(axis, int) else axis)
    axes = [number % len(x.shape) for number in axes]
    last = list(range(len(x.shape) - len(axes), len(x.shape)))
    assert axes == last and 0 not in axes, f"axis {axis} of a tile of {x.shape}: only its last free dimensions can go"
    return axes


UNARY = ("exp", "log", "sqrt", "rsqrt", "square", "abs", "negative", "reciprocal", "tanh", "sigmoid", "relu")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
for _name in (*UNARY, *BINARY):
    globals()[_name] = _of_tiles(getattr(torch, _name), _name)
silu = _of_tiles(torch.nn.functional.silu, "silu")
gelu = _of_tiles(torch.nn.functional.gelu, "gelu")
copy = _of_tiles(torch.clone, "copy")
sum = _reduction(torch.sum, "sum")
mean = _reduction(torch.mean, "mean")
max = _reduction(functools.partial(torch.amax), "max")
min = _reduction(functools.partial(torch.amin), "min")
