"""nki_op: a function that launches NKI kernels, as a custom operator that torch.compile keeps whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch


def nki_op(name: str, fn: Callable | None = None, mutates_args: str | Iterable[str] = ()) -> Any:
    """The operator of the name `namespace::name`; its schema is read off the function's annotations."""

    def decorate(fn: Callable) -> Any:
        operator = torch.library.custom_op(name, fn, mutates_args=mutates_args)
        operator.register_fake(fn)
        return operator

    return decorate if fn is None else decorate(fn)
