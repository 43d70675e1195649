"""A call's signature as plain values: what it holds, read without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TENSOR, TUPLE, DICT, SLICE, TORCH, OTHER = "tensor", "tuple", "dict", "slice", "torch", "object"  # of what is not plain
CLASS = "class"  # of a tuple or dict: the dotted path of the named tuple or dataclass that it is


def tensors(plain: Any) -> list[Mapping[str, Any]]:
    """The tensors of a signature, in its order."""
    return [part for part in _parts(plain) if TENSOR in part]


def others(plain: Any) -> list[str]:
    """The classes of what a signature cannot give again."""
    return [part[OTHER] for part in _parts(plain) if OTHER in part]


def shapes(plain: Any) -> str:
    """`1x64x128, 64` of its tensors; with strides, if they are not contiguous."""
    texts = []
    for part in tensors(plain):
        strided = f" strides {tuple(part['stride'])}" if "stride" in part else ""
        texts.append(f"{shape(part[TENSOR])}{strided}")
    return ", ".join(texts)


def dtypes(plain: Any, dtype: str) -> str:
    """The dtypes of its tensors; `dtype` is the one that it leaves out."""
    return ", ".join(dict.fromkeys(part.get("dtype", dtype) for part in tensors(plain)))


def shape(sizes: Sequence[int]) -> str:
    """`1x64x128`."""
    return "x".join(map(str, sizes)) or "scalar"


def _parts(plain: Any) -> Iterator[Mapping[str, Any]]:
    """What is no plain value, list, tuple or dict."""
    if isinstance(plain, list):
        for inner in plain:
            yield from _parts(inner)
    elif isinstance(plain, dict):
        if TUPLE in plain or SLICE in plain:
            yield from _parts(plain.get(TUPLE, plain.get(SLICE)))
        elif DICT in plain:
            yield from _parts(list(plain[DICT].values()))
        else:
            yield plain
