"""Plain values: dataclasses from JSON values; the inverse of `dataclasses.asdict`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def from_plain(kind: Any, value: Any) -> Any:
    """A value of type `kind`: dataclasses, lists, tuples and what may be None, at any depth.

    A field that is not there keeps its default; a key that is no field is left out.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: from_plain(hint, value[name]) for name, hint in hints.items() if name in value})
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin in (Union, UnionType):
        return value if value is None else from_plain(next(arg for arg in arguments if arg is not NoneType), value)
    if origin is list:
        return [from_plain(arguments[0], item) for item in value]
    if origin is tuple and arguments[-1] is Ellipsis:
        return tuple(from_plain(arguments[0], item) for item in value)
    if origin is tuple:
        return tuple(from_plain(inner, item) for inner, item in zip(arguments, value, strict=True))
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
