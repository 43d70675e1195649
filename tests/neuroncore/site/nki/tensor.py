"""NkiTensor: a region of HBM, SBUF or PSUM, held by a torch tensor; and the launch in which a kernel makes them."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

PARTITIONS = 128
DTYPES = ("float32", "bfloat16", "float16", "int32", "int16", "int8", "uint8")  # of those that NKI documents


class NkiValidationError(Exception):
    """A limit of the hardware is violated."""


class Buffer(enum.Enum):
    sbuf = "sbuf"
    psum = "psum"
    hbm = "hbm"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    @property
    def on_chip(self) -> bool:
        return self in (Buffer.sbuf, Buffer.psum)


class NkiTensor:
    """What kernels see of memory. A slice shares it."""

    def __init__(self, data: torch.Tensor, buffer: Buffer) -> None:
        if self.dtype_of(data) not in DTYPES:
            raise NkiValidationError(f"{self.dtype_of(data)} is no data type of NKI")
        self.data = data
        self.buffer = buffer

    @staticmethod
    def dtype_of(data: torch.Tensor) -> str:
        return str(data.dtype).removeprefix("torch.")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> str:
        return self.dtype_of(self.data)

    def __getitem__(self, index: object) -> NkiTensor:
        parts = index if isinstance(index, tuple) else (index,)
        if Ellipsis not in parts:
            for dim, part in enumerate(parts):
                assert dim < len(self.shape), f"{len(parts)} indices for a tensor of {len(self.shape)} dimensions"
                last = (part.stop or 0) - 1 if isinstance(part, slice) else part
                size = self.shape[dim]
                assert last < size, f"out-of-bound access on dimension {dim}: index {last} exceeds its size of {size}"
        return NkiTensor(self.data[index], self.buffer)

    def reshape(self, shape: tuple[int, ...]) -> NkiTensor:
        assert math.prod(shape) == self.data.numel(), f"cannot reshape {self.shape} to {tuple(shape)}"
        return NkiTensor(self.data.reshape(shape), self.buffer)

    def ap(self, pattern: list[list[int]], offset: int = 0) -> NkiTensor:
        """The elements at `offset`, in steps of (step, number) for each dimension; a step of 0 repeats."""
        last = offset + sum(step * (number - 1) for step, number in pattern)
        if last >= self.data.numel():
            raise IndexError(f"the access pattern reaches element {last} of {self.data.numel()}")
        steps, numbers = zip(*pattern, strict=True)
        return NkiTensor(self.data.as_strided(numbers, steps, self.data.storage_offset() + offset), self.buffer)


@dataclass
class Launch:
    """One program of a kernel's grid. What its programs allocate in shared HBM, each in turn, is one memory."""

    program: int
    programs: int
    device: torch.device
    shared: list[torch.Tensor]
    taken: int = field(default=0)

    def allocate(self, shape: tuple[int, ...], dtype: str, buffer: Buffer) -> NkiTensor:
        """New memory, filled with NaN (or 4, if of integers) so that what was never written shows."""
        if buffer.on_chip:
            assert len(shape) >= 2, "SBUF and PSUM tensors need a partition and a free dimension"
            assert shape[0] <= PARTITIONS, f"partition dimension {shape[0]} exceeds the maximum of {PARTITIONS}"
        if dtype not in DTYPES:
            raise NkiValidationError(f"{dtype} is no data type of NKI")
        if buffer is Buffer.shared_hbm and self.taken < len(self.shared):
            data = self.shared[self.taken]
        else:
            kind = getattr(torch, dtype)
            data = torch.full(shape, math.nan if kind.is_floating_point else 4, dtype=kind, device=self.device)
        if buffer is Buffer.shared_hbm:
            self.shared[self.taken :] = [data, *self.shared[self.taken + 1 :]]
            self.taken += 1
        return NkiTensor(data, buffer)


_launches: list[Launch] = []


@contextlib.contextmanager
def launched(launch: Launch) -> Iterator[None]:
    _launches.append(launch)
    try:
        yield
    finally:
        _launches.pop()


def current() -> Launch:
    if not _launches:
        raise RuntimeError("NKI functions work within a kernel alone: decorate it by nki.jit, and call that")
    return _launches[-1]
