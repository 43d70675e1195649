"""Ranges: signatures that differ in sizes alone, in so many that these follow from the data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from harness.model.plain import DICT, SLICE, TENSOR, TUPLE, tensors

MANY = 6  # signatures of sizes that rise together; a model that scales its images down has fewer

Key = TypeVar("Key", bound=Hashable)


def together(signatures: Mapping[Key, Any]) -> list[list[Key]]:
    """The keys of signatures in lists: those in one that differ in sizes alone, if MANY do and these rise together."""
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
