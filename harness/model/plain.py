"""Signatures of calls as plain values, read without torch: what they hold, and which differ in sizes alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

TENSOR, TUPLE, DICT, SLICE, TORCH, OTHER = "tensor", "tuple", "dict", "slice", "torch", "object"  # of what is not plain
CLASS = "class"  # of a tuple or dict: the dotted path of the named tuple or dataclass that it is
MANY = 6  # signatures of sizes that rise together; a model that scales its images down has fewer

Key = TypeVar("Key", bound=Hashable)


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


def together(signatures: Mapping[Key, Any]) -> list[list[Key]]:
    """The keys of signatures in lists: those in one that differ in sizes alone, if MANY do and these rise together.

    Sizes that differ so follow from the data.
    """
    families: dict[Any, list[Key]] = defaultdict(list)
    for key, plain in signatures.items():
        families[_without_sizes(plain)].append(key)
    return [one for keys in families.values() for one in _ranges({key: _sizes(signatures[key]) for key in keys})]


def span(signatures: Sequence[Any]) -> Any:
    """Signatures that differ in sizes alone as one whose sizes are ranges, `19-48`, and which has no strides."""
    if len(signatures) == 1:
        return signatures[0]
    first = signatures[0]
    if isinstance(first, list):
        return [span(inner) for inner in zip(*signatures, strict=True)]
    if not isinstance(first, dict):
        return first
    for kind in (TUPLE, SLICE):
        if kind in first:
            return first | {kind: span([plain[kind] for plain in signatures])}
    if DICT in first:
        return first | {DICT: {key: span([plain[DICT][key] for plain in signatures]) for key in first[DICT]}}
    if TENSOR not in first:
        return first
    columns = zip(*(plain[TENSOR] for plain in signatures), strict=True)
    sizes = [column[0] if len(set(column)) == 1 else f"{min(column)}-{max(column)}" for column in columns]
    return {key: value for key, value in first.items() if key in ("dtype", "grad")} | {TENSOR: sizes}


def middle(signatures: Mapping[Key, Any]) -> Key:
    """The key of the signature in the middle, by size."""
    keys = sorted(signatures, key=lambda key: _sizes(signatures[key]))
    return keys[len(keys) // 2]


def _ranges(sizes: Mapping[Key, list[int]]) -> list[list[Key]]:
    """MANY that rise together, of all or of those that are alike in every size that has few values; others alone."""
    if _rise(sizes):
        return [list(sizes)]
    columns = zip(*sizes.values(), strict=True)
    few = [position for position, column in enumerate(columns) if len(set(column)) < MANY]
    alike: dict[tuple[int, ...], dict[Key, list[int]]] = defaultdict(dict)
    for key, row in sizes.items():
        alike[tuple(row[position] for position in few)][key] = row
    found = []
    for rows in alike.values():
        found += [list(rows)] if _rise(rows) else [[key] for key in rows]
    return found


def _rise(sizes: Mapping[Any, list[int]]) -> bool:
    """Whether there are MANY, and all their sizes rise with the first that does."""
    columns = zip(*sorted(sizes.values()), strict=True)
    return len(sizes) >= MANY and all(list(column) == sorted(column) for column in columns)


def _sizes(plain: Any) -> list[int]:
    return [size for tensor in tensors(plain) for size in tensor[TENSOR]]


def _without_sizes(plain: Any) -> Any:
    """What is left of a signature, to be compared: of a tensor its dimensions, dtype, and whether it has strides."""
    if isinstance(plain, list):
        return tuple(map(_without_sizes, plain))
    if not isinstance(plain, dict):
        return type(plain), repr(plain)
    if TENSOR in plain:
        return TENSOR, len(plain[TENSOR]), "stride" in plain, plain.get("dtype"), plain.get("grad")
    return tuple((key, _without_sizes(inner)) for key, inner in plain.items())
