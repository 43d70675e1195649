"""What is given in place of a dotted path: objects, by their names where they can be imported by them."""

from __future__ import annotations

import pkgutil
from typing import Any


class Given:
    """A function that gives what was given."""

    def __init__(self, value: Any):
        self._value = value

    def __call__(self) -> Any:
        return self._value


def named(value: Any) -> Any:
    """The dotted path of a function or class that a process can import by it; anything else as it is."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__":
        return value
    try:
        return f"{module}.{name}" if pkgutil.resolve_name(f"{module}:{name}") is value else value
    except (ImportError, AttributeError, ValueError):
        return value
