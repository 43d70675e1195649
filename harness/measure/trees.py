"""Trees: values nested in lists, tuples, dicts and dataclasses, as functions take and return them; needs no torch."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from functools import reduce
from operator import attrgetter, itemgetter
from typing import Any


class Field(str):
    """The name of a dataclass's field, in a path."""


Path = tuple[Any, ...]  # the keys, positions and fields that lead to a value


def walk(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values of a tree and where they are; those of a dict by key, whatever the order in which they were put in.

    A dataclass that is a dict as well, as transformers' ModelOutput is, counts as one.
    """
    if isinstance(tree, (tuple, list)):
        for position, inner in enumerate(tree):
            yield from walk(inner, (*path, position))
    elif isinstance(tree, dict):
        for key in sorted(tree, key=str):
            yield from walk(tree[key], (*path, key))
    elif _is_dataclass(tree):
        for field in dataclasses.fields(tree):
            yield from walk(getattr(tree, field.name), (*path, Field(field.name)))
    else:
        yield path, tree


def flatten(tree: Any) -> tuple[Any, ...]:
    """The values of a tree, in the order of `walk`."""
    return tuple(value for _, value in walk(tree))


def dotted(path: Path) -> str:
    """`1`, `attentions.0`; empty for a tree that is a value itself."""
    return ".".join(map(str, path))


def keys(tree: Any, path: Path = ()) -> tuple[str, ...]:
    """The keys of the dicts in a tree, dotted where they are nested; empty if there is no dict."""
    if isinstance(tree, dict):
        named = ((*path, key) for key in sorted(tree, key=str))
        return tuple(name for inner in named for name in keys(tree[inner[-1]], inner) or (dotted(inner),))
    if isinstance(tree, (tuple, list)):
        return tuple(name for position, inner in enumerate(tree) for name in keys(inner, (*path, position)))
    if _is_dataclass(tree):
        names = (field.name for field in dataclasses.fields(tree))
        return tuple(found for name in names for found in keys(getattr(tree, name), (*path, name)))
    return ()


def getter(path: Path) -> Callable[[Any], Any]:
    """A function that takes the value at a path out of a tree."""
    if len(path) == 1:
        return _step(path[0])
    return lambda tree: reduce(lambda inner, key: _step(key)(inner), path, tree)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same form, with `function` of each value; named tuples, dataclasses and kinds of dict stay."""
    if isinstance(tree, list):
        return [tree_map(function, inner) for inner in tree]
    if isinstance(tree, tuple):
        mapped = [tree_map(function, inner) for inner in tree]
        return type(tree)._make(mapped) if hasattr(tree, "_fields") else tuple(mapped)  # type: ignore[attr-defined]
    if _is_dataclass(tree):
        like = copy.copy(tree)
        for field in dataclasses.fields(tree):
            inner = tree_map(function, getattr(tree, field.name))
            if isinstance(tree, dict):
                setattr(like, field.name, inner)  # which keeps the key as well
            else:
                object.__setattr__(like, field.name, inner)  # even of a frozen one
        return like
    if isinstance(tree, dict):
        like = tree.copy()  # a defaultdict keeps its factory
        like.update({key: tree_map(function, inner) for key, inner in tree.items()})
        return like
    return function(tree)


def same_form(left: Any, right: Any) -> bool:
    """Whether two trees are nested alike: the same lengths, keys and fields at every depth, whatever their values."""
    if isinstance(left, (tuple, list)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same_form, left, right))
    if isinstance(left, dict):
        if type(left) is not type(right) or left.keys() != right.keys():
            return False
        return all(same_form(left[key], right[key]) for key in left)
    if _is_dataclass(left):
        names = [field.name for field in dataclasses.fields(left)]
        return type(left) is type(right) and all(same_form(getattr(left, n), getattr(right, n)) for n in names)
    return not isinstance(right, (tuple, list, dict)) and not _is_dataclass(right)


def _is_dataclass(tree: Any) -> bool:
    return dataclasses.is_dataclass(tree) and not isinstance(tree, type)


def _step(key: Any) -> Callable[[Any], Any]:
    return attrgetter(key) if isinstance(key, Field) else itemgetter(key)
