"""Trees: values nested in lists, tuples and dicts, as functions take and return them; needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]  # the keys and positions that lead to a value


def walk(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values of a tree and where they are; those of a dict by key, whatever the order in which they were put in."""
    if isinstance(tree, (tuple, list)):
        for position, inner in enumerate(tree):
            yield from walk(inner, (*path, position))
    elif isinstance(tree, dict):
        for key in sorted(tree, key=str):
            yield from walk(tree[key], (*path, key))
    else:
        yield path, tree


def flatten(tree: Any) -> tuple[Any, ...]:
    """The values of a tree, in the order of `walk`."""
    return tuple(value for _, value in walk(tree))


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same form, with `function` of each value; named tuples and kinds of dict stay what they are."""
    if isinstance(tree, list):
        return [tree_map(function, inner) for inner in tree]
    if isinstance(tree, tuple):
        mapped = [tree_map(function, inner) for inner in tree]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else tuple(mapped)
    if isinstance(tree, dict):
        copy = tree.copy()  # a defaultdict keeps its factory
        copy.update({key: tree_map(function, inner) for key, inner in tree.items()})
        return copy
    return function(tree)


def same_form(left: Any, right: Any) -> bool:
    """Whether two trees are nested alike: the same lengths and keys at every depth, whatever their values."""
    if isinstance(left, (tuple, list)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same_form, left, right))
    if isinstance(left, dict):
        if type(left) is not type(right) or left.keys() != right.keys():
            return False
        return all(same_form(left[key], right[key]) for key in left)
    return not isinstance(right, (tuple, list, dict))
